"""`scrub` and `doctor`: what looks a store over. Nothing goes without `--yes`."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn

from perdure.cli import options, output, running, shape
from perdure.cli.place import Place, place
from perdure.cli.text import chosen_by, one_line
from perdure.cli.watching import FIRES
from perdure.errors import DamageError, HeldError
from perdure.values import Secret
from perdure.values.tokens import MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.ops.doctor import Diagnosis
    from perdure.ops.going_on import GoneOn
    from perdure.ops.scrubbing import Scrubbed, ScrubReport


def scrub(
    session: Annotated[str | None, options.session("The session and its forks; all of the store without one.")] = None,
    *,
    secret: Annotated[
        str,
        typer.Option(
            "--secret",
            metavar="REFERENCE",
            help="Where the text is to be had: secret://env/NAME or secret://file/PATH, so that no shell remembers it.",
            show_default=False,
        ),
    ],
    mask: Annotated[str, typer.Option("--mask", metavar="TEXT", help="What stands in its place.")] = MASK,
    yes: options.Yes = False,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Take a secret that got into the store by mistake out of all that has it, for good."""
    try:
        text = Secret(secret)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    done = 0

    def on_each(one: Scrubbed) -> None:
        nonlocal done
        done += 1
        if yes and not as_json and (one.records or one.left_alone):
            output.warn(f"{done}: {one.session}: {one.left_alone or f'{one.records} bodies'}")

    with place(store).open() as opened:
        found = opened.scrub(text, session=session, mask=mask, dry_run=not yes, on_each=on_each)
    if as_json:
        output.document(shape.scrub(found))
    else:
        _tell_scrubbed(found)
    if not found.clean:
        raise typer.Exit(HeldError.exit_status)


def _tell_scrubbed(found: ScrubReport) -> None:
    rows = [(one.session, one.records) for one in found.sessions if one.records]
    if rows:
        output.table(("session", "have it" if found.dry_run else "replaced"), rows)
    for one in found.sessions:
        if one.left_alone:
            output.say(f"left alone: {one.session}: {one_line(one.left_alone, chars_max=200)}")
    bodies = sum(one.records for one in found.sessions)
    have = "have it" if found.dry_run else "had it, and do not any more"
    output.say(f"{bodies} bodies and {found.chunks} chunks {have}")
    if found.dry_run:
        output.say("nothing was changed; to do it, say --yes")


def doctor(
    session: Annotated[str | None, options.session("With --go-on: the damaged session.")] = None,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Read every byte, and look for chunks nothing needs.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what is safe to mend.")] = False,
    into: Annotated[
        str | None,
        typer.Option(
            "--go-on", metavar="NEW", help="Make this new session of what is good of SESSION.", show_default=False
        ),
    ] = None,
    code: Annotated[
        str | None,
        typer.Option(
            "--code",
            metavar="FUNCTION",
            help="Also whether this code takes the states that are there; `recorded`: what each session recorded.",
            show_default=False,
        ),
    ] = None,
    progress: options.Progress = None,
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Look a whole store over: what is wrong, who must come, and what mends it.

    Ends with 0 if nobody need come, 79 if somebody must see to something, 20 if anything is damaged or lost.
    """
    where = place(store)
    if (session is None) != (into is None):
        raise typer.BadParameter(
            "a session is named together with --go-on NEW; without both, all of the store is looked at"
        )
    with where.open() as opened:
        if session is not None and into is not None:
            made = opened.go_on(session, into=into, by=chosen_by(by))
            verb = "show" if opened.info(into).form == "handle" else "resume"
            _tell_gone_on(made, where, next_command=where.command(verb, into), as_json=as_json)
            return
        with _telling(show=progress) as on_each:
            found = opened.doctor(deep=deep, fix=fix, code=_code(code), on_each=on_each)
    if as_json:
        output.document(shape.diagnosis(found, where))
    else:
        _tell_diagnosis(found, where)
    raise typer.Exit(DamageError.exit_status if not found.ok else FIRES if found.needs_person else 0)


def _code(said: str | None) -> Callable[..., Any] | str | None:
    if said is None:
        return None
    running.find_from_here()
    return said if said == "recorded" else running.load(said)


@contextlib.contextmanager
def _telling(*, show: bool | None) -> Iterator[Callable[[int, int], object]]:
    """What tells how far it is, on stderr: on a terminal, unless it is said otherwise."""
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda _done, _total: None
        return
    console = Console(stderr=True, markup=False, highlight=False)
    column = TextColumn("{task.completed} of {task.total} sessions looked at")
    with Progress(column, console=console, transient=sys.stderr.isatty()) as shown:
        task = shown.add_task("", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def _tell_diagnosis(found: Diagnosis, where: Place) -> None:
    looked = f"{found.sessions} session{'' if found.sessions == 1 else 's'} looked at"
    output.say(f"{looked}, {found.read:,} of {found.records:,} records read")
    for one in found.findings:
        about = f"{one.session}: " if one.session else ""
        told = one.what.removeprefix(about)
        output.say(f"{one.severity:<8}{about}{one_line(told, chars_max=400)}")
        if one.mended:
            output.say("        mended")
        elif one.mend:
            output.say(f"        to mend it: {where.command(*one.mend)}")
    if not found.findings:
        output.say("nothing is wrong in what was read")
    for what, option in found.not_read:
        output.say(f"not read: {what}; to look: {where.command('doctor', *option.split())}")


def _tell_gone_on(found: GoneOn, where: Place, *, next_command: str, as_json: bool) -> None:
    if as_json:
        output.document({**asdict(found), "next": next_command})
        return
    there = f"snapshot #{found.snapshot}" if found.snapshot else "its opening"
    output.say(f"{found.session} goes on from record {found.at} of {found.source}, with the state of {there}")
    if found.newer:
        newer = where.command("state", found.source, "--at", found.newer)
        output.say(f"a newer state is good, too, and can be read: {newer}")
    for one in found.standing:
        output.say(f"recorded later, and asked about before the like of it runs: {one_line(one, chars_max=200)}")
    if found.lost:
        output.say(f"{found.lost} records cannot be read: what they may have done is asked about first")
    output.say(f"{found.source} was left as it is. To go on: {next_command}")
