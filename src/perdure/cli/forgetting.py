"""`gc` and `erase`: what lets go of what is old, or is to be forgotten. Nothing goes without `--yes`."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure import limits
from perdure.cli import options, output, shape
from perdure.cli.place import place
from perdure.cli.text import age, bytes_of, chosen_by, one_line
from perdure.ops.erasure import Erased
from perdure.ops.retention import Retention
from perdure.ops.units import seconds_of, size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.ops.config.sections import RetentionSettings
    from perdure.ops.gone import GcReport
    from perdure.runtime.store import AgentStore


def _parsed(parse: Callable[[str], float]) -> Callable[[str | float | None], Any]:
    def parsed(text: str | float | None) -> Any:
        try:
            return None if text is None else parse(str(text))
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parsed


def _optional(flag: str, metavar: str, told: str, *, parser: Callable[[str], Any] | None = None) -> Any:
    """An option that changes nothing unless it is given."""
    return typer.Option(flag, metavar=metavar, help=told, parser=parser, show_default=False)


def gc(
    session: Annotated[str | None, options.session("The session; all of the store without one.")] = None,
    *,
    keep_last: Annotated[
        int | None,
        typer.Option(
            "--keep-last",
            metavar="N",
            min=0,
            show_default=False,
            help=f"The newest restore points that stay; {limits.KEEP_LAST_COUNT} unless configured.",
        ),
    ] = None,
    keep: Annotated[
        float | None,
        _optional("--keep", "AGE", "Younger ones stay, too: 90s, 15min, 12h, 30d.", parser=_parsed(seconds_of)),
    ] = None,
    bytes_max: Annotated[
        int | None,
        _optional(
            "--max-bytes",
            "SIZE",
            "If the store is larger, more goes of the sessions written to longest ago: 800KB, 500MB, 2GB.",
            parser=_parsed(size_of),
        ),
    ] = None,
    delete_ended: Annotated[
        float | None,
        _optional(
            "--delete-ended", "AGE", "Erase whole sessions that were over for longer.", parser=_parsed(seconds_of)
        ),
    ] = None,
    every: Annotated[
        str | None,
        _optional("--every", "CRON", 'Stay, and do it by this timetable, as in "0 3 * * *", until a signal comes.'),
    ] = None,
    scheduled: Annotated[
        bool, typer.Option("--scheduled", help="As --every, by the timetable of the configuration.")
    ] = False,
    zone: Annotated[
        str | None,
        _optional("--zone", "ZONE", "Of the timetable: Europe/Berlin, or another name of the IANA's. Else UTC."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would go, as without --yes.")] = False,
    yes: options.Yes = False,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Drop old restore points and give their space back.

    What a resume may need always stays.
    """
    if dry_run and yes:
        raise typer.BadParameter("--dry-run changes nothing, and --yes does it: say one of them")
    stays = "--scheduled" if scheduled else "--every" if every is not None else ""
    if session is not None and (stays or (bytes_max, delete_ended) != (None, None)):
        raise typer.BadParameter(
            "--max-bytes, --delete-ended, --every and --scheduled are for a whole store: leave SESSION out"
        )
    if scheduled and every is not None:
        raise typer.BadParameter("--every CRON says the timetable, --scheduled that of the configuration: one of them")
    if stays and not yes:
        raise typer.BadParameter(f"{stays} does it, again and again: say --yes, too")
    said: dict[str, Any] = {"keep_last": keep_last, "keep_s": keep, "bytes_max": bytes_max, "ended_s": delete_ended}
    with place(store).open() as opened:
        configured = opened.settings.retention
        kept = Retention() if configured is None else configured.policy(whole=session is None)
        retention = replace(kept, **{name: value for name, value in said.items() if value is not None})
        if stays:
            cron = _configured_cron(configured) if every is None else every
            zone = zone or ("UTC" if configured is None else configured.zone)
            _stay(opened, cron, retention, zone=zone, as_json=as_json)
            return
        found = opened.gc(session, retention, dry_run=not yes)
    if as_json:
        output.document(shape.gc(found))
    else:
        _tell(found)


def _configured_cron(configured: RetentionSettings | None) -> str:
    if configured is None or configured.schedule is None:
        raise typer.BadParameter("no timetable is configured (retention.schedule): configure one, or say --every CRON")
    return configured.schedule


def _stay(opened: AgentStore, cron: str, retention: Retention, *, zone: str, as_json: bool) -> None:
    """Does it by the timetable until a signal comes. With JSON each report is one line."""
    stopping = importlib.import_module("perdure.runtime.signals").stopping_on_signals
    done = (lambda found: output.line(shape.gc(found))) if as_json else _tell
    schedule = opened.schedule_gc(
        cron, retention, zone=zone, on_done=done, on_error=lambda error: output.warn(f"failed: {error}")
    )
    with schedule, stopping(lambda _: schedule.stop()):
        output.warn(f"next: {schedule.next_at.isoformat()}; Ctrl-C ends it")
        schedule.wait()


def _tell(found: GcReport) -> None:
    would = "would go" if found.dry_run else "went"
    gone = [(one.session, bytes_of(one.bytes)) for one in found.deleted if not one.left_alone]
    if gone:
        output.table((f"over: {would}", "bytes"), gone)
    rows = [
        (one.session, one.snapshots, one.kept, one.records, bytes_of(one.bytes))
        for one in found.sessions
        if not one.left_alone or one.records
    ]
    columns = ("session", "dropped", "kept", "bodies", "bytes")
    if rows:
        output.table(("session", "would go", *columns[2:]) if found.dry_run else columns, rows)
    left = [(one.session, one.left_alone) for one in found.deleted]
    left += [(one.session, one.left_alone) for one in found.sessions]
    for session, why in left:
        if why:
            output.say(f"left alone: {session}: {one_line(why, chars_max=200)}")
    output.say(f"{bytes_of(found.bytes)} {would}, {found.chunks} chunks among it")
    if found.stored_bytes is not None:
        output.say(f"{bytes_of(found.stored_bytes)} {'would be' if found.dry_run else 'are'} left, bodies and chunks")
    if found.over_bytes:
        output.say(f"{bytes_of(found.over_bytes)} of them are more than was asked for: what is left may be needed")
    if found.dry_run:
        output.say("nothing was changed; to do it, say --yes")
    else:
        output.say(f"{bytes_of(found.given_back)} were given back")


def erase(
    session: Annotated[str | None, options.session("The id of the session.")] = None,
    *,
    family: Annotated[bool, typer.Option("--family", help="All sessions that began as forks of it, too.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Only show what was erased: when, by whom and why.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded.")] = "",
    by: options.By = None,
    yes: options.Yes = False,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Erase a session: no byte of it stays, and its id is never used again."""
    if (session is None) != listed:
        raise typer.BadParameter("say which session is erased; or --list, without one")
    where = place(store)
    with where.open() as opened:
        if session is None:
            _list(opened, as_json=as_json)
            return
        if yes:
            found = opened.erase(session, family=family, by=chosen_by(by), reason=reason)
        else:
            found = Erased(opened.would_erase(session, family=family))
    if as_json:
        output.document({"erased": yes, "sessions": list(found.sessions), "left": found.left or None})
        return
    for one in found.sessions:
        output.say(f"{one}: {'erased' if yes else 'would be erased'}")
    if found.left:
        output.say(f"not yet gone: {found.left}; then run: {where.command('gc', '--keep-last', 1_000_000, '--yes')}")
    if not yes:
        output.say("nothing was changed; this cannot be undone; to do it, say --yes")


def _list(opened: AgentStore, *, as_json: bool) -> None:
    found = opened.erased()
    if as_json:
        output.document({"erasures": [shape.erasure(one) for one in found]})
        return
    rows = [
        (age(one.time_us), one.by, one.reason, one.digest[:16], "begun: erase it again" if one.is_there else "")
        for one in found
    ]
    if rows:
        output.table(("ago", "by", "why", "SHA-256 of its id", ""), rows)
    else:
        output.say("nothing was erased")
