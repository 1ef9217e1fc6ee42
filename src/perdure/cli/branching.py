"""`fork` and `diff`: another session from a place of a log, and what differs between two places."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from perdure.cli import options, output, shape
from perdure.cli.deciding import Reason
from perdure.cli.looking import tell_absent
from perdure.cli.place import place
from perdure.cli.text import as_point, chosen_by, one_line
from perdure.log.readable import json_of
from perdure.recovery.difference import ABSENT
from perdure.values import outward

if TYPE_CHECKING:
    from perdure.recovery.difference import Change

ITEMS: Final = 3
"""Items of a list that are shown of those that came or went."""


def fork(
    session: options.Session,
    *,
    into: Annotated[str, typer.Option("--into", metavar="NEW", help="The id of the fork.", show_default=False)],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="POINT",
            help="The number of any record, a checkpoint's name, -1 the newest restore point, 0 the re-entry point. "
            "Else the end of the log.",
            show_default=False,
        ),
    ] = None,
    reason: Reason = "",
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Make a session that goes on from a place of another's log.

    Nothing is copied, and that one is not changed.
    """
    where = place(store)
    with where.open() as opened:
        place_of = None if at is None else as_point(at)
        made = opened.fork(session, into=into, at=place_of, reason=reason, by=chosen_by(by))
        is_handle = opened.info(made.session).form == "handle"
    go_on = where.command("show" if is_handle else "resume", made.session)
    if as_json:
        output.document({"session": made.session, "source": made.source, "at": made.at, "resume": go_on})
    else:
        output.say(f"{made.session} is a fork of {made.source} at #{made.at}. To go on: {go_on}")


def diff(
    session: options.Session,
    at: Annotated[
        str | None,
        typer.Argument(
            metavar="POINT",
            help="Where to begin: a number, a name, -1, 0. Else the point before TO; of two sessions the newest.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Argument(metavar="TO", help="Where to end. Else the newest.", show_default=False)
    ] = None,
    *,
    other: Annotated[
        str | None,
        typer.Option(
            "--other", metavar="SESSION", help="The session that TO is of. Else the same.", show_default=False
        ),
    ] = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Show what differs between two points, of any branches and sessions."""
    begin, end = (None if text is None else as_point(text) for text in (at, to))
    with place(store).open() as opened:
        found = opened.diff(session, begin, to=end, other=other, was=True)
    if as_json:
        output.document(shape.diff(found))
        return
    output.say(f"{found.before.session} #{found.before.seq} → {found.after.session} #{found.after.seq}")
    for change in found.changes:
        _tell(change)
    for file in found.files:
        output.say(one_line(f"{file.what} {file.path}", chars_max=110))
    if not found:
        output.say("no difference")
    tell_absent(found.absent)


def _tell(change: Change) -> None:
    said, before, after = _told(change)
    output.say(one_line(f"{change.at}  {said}", chars_max=110))
    for sign, items in (("-", before), ("+", after)):
        for item in items[:ITEMS]:
            output.say(f"  {sign} {_short(item, _name(change))}")
        if len(items) > ITEMS:
            output.say(f"  {sign} … {len(items) - ITEMS} more")


def _told(change: Change) -> tuple[str, list[Any], list[Any]]:
    """What happened, and the values that went and that came."""
    if change.op == "extend":
        return f"{len(change.value)} more at the end", [], change.value
    if change.op == "splice":
        return f"from [{change.start}] on", change.was, change.value
    if change.op == "order":
        return f"in another order: {', '.join(map(_short, change.value))} to the end", [], []
    if change.op == "del":
        return "removed", [change.was], []
    return ("added", [], [change.value]) if change.was is ABSENT else ("changed", [change.was], [change.value])


def _name(change: Change) -> str:
    """The field whose value changed as a whole."""
    last = change.path[-1] if change.path and change.op in ("set", "del") else ""
    return last if isinstance(last, str) else ""


def _short(value: Any, name: str = "") -> str:
    return one_line(json.dumps(outward.document(json_of(value), name), ensure_ascii=False), chars_max=100)
