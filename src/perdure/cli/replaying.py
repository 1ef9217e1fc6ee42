"""`replay`: run an agent's code again on what is recorded: to check it, to try it out, or to drive it on for real."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import perdure
from perdure.cli import options, output, running, shape
from perdure.cli.deciding import Reason
from perdure.cli.place import Place, place
from perdure.cli.text import as_point, chosen_by, one_line
from perdure.errors import UndecidedError
from perdure.state.place import parsed as keys_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.runtime.rehearsal import Rehearsal
    from perdure.runtime.replay import Replay
    from perdure.runtime.store import AgentStore
    from perdure.session.rehearsing import Step

DIFFERS: Final = 76
"""What `replay` ends with when the code does not do what is recorded."""

Results = Annotated[
    list[str] | None,
    typer.Option("--result", metavar="SEQ=JSON", help="Answer the action of that number with this; repeatable."),
]
Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--argument",
        metavar="ACTION:PATH=JSON",
        help="Make the call of that number with another argument (a prompt), or all calls of an action of that name "
        "(a model); repeatable.",
    ),
]


def replay(
    session: Annotated[str, options.session("The session, or the file of an exported one.")],
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="FUNCTION",
            help="The code: file.py:function or module:function; the recorded one without it.",
            show_default=False,
        ),
    ] = None,
    *,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Go on where it differs, and tell of each thing that it does; tools and keys need not be."
        ),
    ] = False,
    drive: Annotated[
        bool, typer.Option("--drive", help="What if: fork, change something, and run on for real.")
    ] = False,
    into: Annotated[
        str | None, typer.Option("--into", metavar="NEW", help="With --drive: the id of the fork.", show_default=False)
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="POINT",
            help="With --drive: where to go on from, as for `fork`. Else where what is changed was known.",
            show_default=False,
        ),
    ] = None,
    result: Results = None,
    argument: Arguments = None,
    input_json: running.Input = None,
    input_text: running.InputText = None,
    again: Annotated[
        bool, typer.Option("--again", help="What the session did after the place may be done once more, unasked.")
    ] = False,
    reason: Reason = "",
    by: options.By = None,
    progress: options.Progress = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Run the code again on recorded results, and compare; nothing is done. Or drive it on.

    Ends with 0 when the code does what is recorded, 76 when it does not; with --drive as `run` does.
    """
    changes = {"--into": into, "--at": at, "--result": result, "--argument": argument, "--again": again or None}
    changes |= {"--input": input_json, "--input-text": input_text, "--reason": reason or None, "--by": by}
    if not drive and (given := [name for name, value in changes.items() if value is not None]):
        raise typer.BadParameter(f"{given[0]} goes with --drive: without it nothing is changed, and nothing is done")
    if drive and (dry_run or into is None):
        raise typer.BadParameter("--drive and --dry-run: one of them" if dry_run else "--drive needs --into NEW")
    if into is None:
        with _opened(session, store) as (opened, name):
            _held_against(opened, name, target, dry_run=dry_run, as_json=as_json)
    where = place(store)
    with where.open(runs=True) as opened:
        change = _changes(opened, session, result or [], argument or [])
        change |= {"input": running.given_input(input_json, input_text), "again": again, "reason": reason}
        change |= {"at": None if at is None else as_point(at), "by": chosen_by(by), "into": str(into)}
        _drive(where, opened, session, target, change, progress=progress, as_json=as_json)


@contextlib.contextmanager
def _opened(session: str, store: str | None) -> Iterator[tuple[AgentStore, str]]:
    """The store with the session; a file is taken into one that is gone afterwards."""
    if not Path(session).is_file():
        with place(store).open() as opened:
            yield opened, session
        return
    with perdure.open("memory:", keys=place(store).key) as opened:
        yield opened, opened.import_file(session).session


def _held_against(opened: AgentStore, session: str, target: str | None, *, dry_run: bool, as_json: bool) -> None:
    """The code on recorded results."""
    entry = target or opened.info(session).entry
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        running.find_from_here()
        if dry_run:
            rehearsed = opened.rehearse(session, entry or None)
            found, same = rehearsed.replay, bool(rehearsed)
        else:
            rehearsed, found = None, opened.replay(session, running.load(entry) if entry else None)
            same = found.same
    if as_json:
        output.document(shape.replay(found) if rehearsed is None else shape.rehearsal(rehearsed))
    elif rehearsed is None:
        _tell(found)
    else:
        _tell_rehearsal(rehearsed)
    raise typer.Exit(0 if same else DIFFERS)


def _tell(found: Replay) -> None:
    done = f"{_count(found.calls, 'call')} answered, {_count(found.saves, 'state')} the same"
    if found.difference is None:
        where = f"; the recording ends there, next is {one_line(found.next, chars_max=200)}" if found.next else ""
        output.say(
            f"{found.session}: same up to record {found.upto} of {found.records} ({found.status}), {done}{where}"
        )
        return
    d = found.difference
    output.say(f"{found.session}: differs at record {d.seq}, {d.kind} {d.path}".rstrip() + f"; before it {done}")
    output.say(f"  recorded  {one_line(d.recorded, chars_max=300)}")
    output.say(f"  now       {one_line(d.now, chars_max=300)}")


def _tell_rehearsal(found: Rehearsal) -> None:
    """Each thing that the code came to, then how it ended, and what it was without."""
    for step in found.steps:
        _tell_step(step)
    end = found.replay
    differing = _count(len(found.differences), "difference") if found.differences else "nothing differs"
    output.say(
        f"{end.session}: dry run up to record {end.upto} of {end.records} ({end.status}), "
        f"{_count(end.calls, 'call')} answered from the log, {differing}; nothing was done"
    )
    if end.difference is not None:
        output.say(f"  it ended at record {end.difference.seq}: {one_line(end.difference.recorded, chars_max=150)}")
        output.say(f"  but the code came to {one_line(end.difference.now, chars_max=200)}")
    elif end.next:
        output.say(f"  the recording ends there, next is {one_line(end.next, chars_max=200)}")
    for what, names in (("not installed here", found.modules), ("not set here", found.keys)):
        if names:
            output.say(f"  {what}, and stood in for: {', '.join(names)}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _tell_step(step: Step) -> None:
    if step.what == "call":
        output.say(f"{step.seq:>6}  {one_line(step.text, chars_max=90)} -> {one_line(step.now, chars_max=80)}")
    elif step.what == "differs":
        output.say(f"{step.seq:>6}  differs: {one_line(step.text, chars_max=90)}")
        output.say(f"        recorded  {one_line(step.recorded, chars_max=150)}")
        output.say(f"        now       {one_line(step.now, chars_max=150)}")
    elif step.text:
        output.say(f"{step.seq:>6}  the checkpoint {step.text!r}")


def _changes(opened: AgentStore, session: str, results: list[str], arguments: list[str]) -> dict[str, Any]:
    """What is changed, as `drive` takes it."""
    told: dict[str, Any] = {"result": {}, "arguments": {}}
    for text in results:
        seq, equals, value = text.partition("=")
        if not seq.isdigit() or not equals:
            raise typer.BadParameter(f"--result {text}: write it as SEQ=JSON, the number of an action and its result")
        told["result"][int(seq)] = running.parsed(value, option="--result")
    for text in arguments:
        action, colon, rest = text.partition(":")
        path, equals, value = rest.partition("=")
        if not (action and colon and path and equals):
            raise typer.BadParameter(
                f"""--argument {text}: write it as ACTION:PATH=JSON, such as '17:messages[0].content="…"' for one """
                """call, or 'chat:model="…"' for all of an action"""
            )
        given = told["arguments"].setdefault(int(action) if action.isdigit() else action, {})
        parsed = running.parsed(value, option="--argument")
        name, *within = keys_of(path)
        given[name] = parsed if not within else _within(opened, session, action, [name, *within], parsed, given=given)
    return told


def _within(
    opened: AgentStore, session: str, action: str, path: list[Any], value: Any, *, given: dict[str, Any]
) -> Any:
    """The argument that was recorded, or is given already, with something in it changed."""
    name = path[0]
    if not action.isdigit():
        raise typer.BadParameter(f"--argument {action}:{name}: for all calls of an action an argument is given whole")
    content = opened.action(session, int(action))
    if name not in given and name not in content.arguments:
        raise UndecidedError(content.not_kept.get(name) or f"action {action} has no argument {name!r}: {content.call}")
    held = {name: given.get(name, content.arguments.get(name))}
    return perdure.patch(held, [["set", path, value]])[name]


def _drive(
    where: Place,
    opened: AgentStore,
    session: str,
    target: str | None,
    change: dict[str, Any],
    *,
    progress: bool | None,
    as_json: bool,
) -> None:
    """The fork, run on for real; ends as `run` does."""
    entry = target or opened.info(session).entry
    fn = running.load(entry) if entry else None
    outcome = running.watched(
        opened,
        change["into"],
        fn,
        show=progress,
        as_json=as_json,
        go=lambda: opened.drive(session, fn=fn if target else None, **change),
    )
    running.end(outcome, change["into"], where, as_json=as_json)
