"""`run` and `resume`: bring a function through crashes, and end with a status that says how the session stands."""

from __future__ import annotations

import contextlib
import importlib
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from perdure.cli import asking, failing, foreseeing, options, output, shape
from perdure.cli.lacking import Lacking, is_autonomous, is_team, with_lack
from perdure.cli.place import Place, place
from perdure.cli.text import as_point, chosen_by, decisions, one_line, visible, written
from perdure.errors import DivergedError, EntryError, PerdureError
from perdure.runtime.outcome import Outcome
from perdure.session.keeping.opening import NO_INPUT
from perdure.session.restored import NEWEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.runtime.outcome import Question
    from perdure.runtime.store import AgentStore
    from perdure.session.restored import Restored

WAITING: Final = 75
PAUSED: Final = 130
IDLE: Final = 78
CANCELLED: Final = 77

Target = Annotated[
    str,
    typer.Argument(
        metavar="FUNCTION", help="The agent's function: file.py:function or module:function.", show_default=False
    ),
]
SessionOption = Annotated[
    str, typer.Option("--session", "-s", metavar="ID", help="The session: new, or gone on with.", show_default=False)
]
Input = Annotated[
    str | None, typer.Option("--input", metavar="JSON", help="What `s.input` is, as JSON.", show_default=False)
]
InputText = Annotated[
    str | None, typer.Option("--input-text", metavar="TEXT", help="What `s.input` is, as plain text.")
]
Label = Annotated[
    list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="A label of a new session; repeatable.")
]


def run(
    target: Target,
    *,
    session: SessionOption,
    input_json: Input = None,
    input_text: InputText = None,
    label: Label = None,
    wait: options.Wait = 0.0,
    accept_change: options.AcceptChange = False,
    restore: options.Restore = None,
    progress: options.Progress = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Run an agent's function in a session: a new one, or on from where it was.

    Ends with 0 when it is completed, 75 when it waits for a decision, 78 when it is idle, 77 when it was cancelled, 130
    when it was stopped, 1 when it failed (or the status of the error, if it is one of perdure's). Run it again and it
    goes on.
    """
    given = given_input(input_json, input_text)
    labels = _labels(label or [])
    fn = load(target)
    where = place(store)
    with where.open(make=True, runs=True) as opened:
        outcome = watched(
            opened,
            session,
            fn,
            show=progress,
            as_json=as_json,
            go=lambda: opened.run(
                fn, session, input=given, labels=labels, wait_s=wait, accept_change=accept_change, restore=restore
            ),
        )
        outcome = with_lack(opened, session, fn, outcome)
    end(outcome, session, where, as_json=as_json)


def resume(
    session: options.Session,
    *,
    wait: options.Wait = 0.0,
    accept_change: options.AcceptChange = False,
    restore: options.Restore = None,
    preview: options.Preview = False,
    progress: options.Progress = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Go on with a session by its id alone, from any process.

    The function is found as it was recorded. Ends as `run` does.
    """
    where = place(store)
    with where.open(runs=not preview) as opened:
        if preview:
            foreseeing.show(opened.preview_resume(session), as_json=as_json)
            return
        fn = recorded(opened, session)

        def go() -> Outcome:
            return watched(
                opened,
                session,
                fn,
                show=progress,
                as_json=as_json,
                go=lambda: opened.resume(session, accept_change=accept_change, wait_s=wait, restore=restore),
            )

        outcome = asking.until_answered(opened, session, go, as_json=as_json) if is_autonomous(fn) else go()
        outcome = with_lack(opened, session, fn, outcome)
    end(outcome, session, where, as_json=as_json)


def retry(
    session: options.Session,
    *,
    strategy: Annotated[
        str | None, typer.Option("--strategy", metavar="NAME", help="What the code is to try now: its s.strategy.")
    ] = None,
    at: Annotated[
        str, typer.Option("--at", metavar="POINT", help="Where it goes back to, as for rollback: -1 is the newest.")
    ] = "-1",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded.")] = "",
    by: options.By = None,
    wait: options.Wait = 0.0,
    accept_change: options.AcceptChange = False,
    progress: options.Progress = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Take a session back to a point and run it on from there, with another strategy.

    For one that failed, or that goes in circles. Ends as `run` does.
    """
    where = place(store)
    told: dict[str, Any] = {"reason": reason, "by": chosen_by(by), "strategy": strategy, "at": as_point(at)}
    with where.open(runs=True) as opened:
        fn = recorded(opened, session)
        outcome = watched(
            opened,
            session,
            fn,
            show=progress,
            as_json=as_json,
            go=lambda: opened.retry(session, accept_change=accept_change, wait_s=wait, **told),
        )
    end(outcome, session, where, as_json=as_json)


def load(target: str) -> Callable[..., Any]:
    """The function of that name. Raises `EntryError`, also when its module cannot be imported."""
    return _imported(target, lambda: importlib.import_module("perdure.runtime.entry").load(target))


def recorded(store: AgentStore, session: str) -> Callable[..., Any] | None:
    """The function that a session recorded, None where it recorded none. Raises `EntryError` as `load` does."""
    entry = store.info(session).entry
    return _imported(entry, lambda: store.entry_of(session)) if entry else None


def _imported(target: str, found: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    find_from_here()
    try:
        return found()
    except PerdureError:
        raise
    except Exception as error:
        raise EntryError(f"{target} cannot be imported: {type(error).__name__}: {error}") from error


def find_from_here() -> None:
    """Modules are found from the current folder, too."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def watched(
    store: AgentStore,
    session: str,
    fn: Callable[..., Any] | None,
    *,
    show: bool | None,
    as_json: bool,
    go: Callable[[], Outcome],
) -> Outcome:
    """Runs and watches `fn`. What the agent prints goes to stderr when stdout is for one JSON document."""
    progress = importlib.import_module("perdure.cli.progress")
    aside = contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext()
    is_shown = sys.stderr.isatty() if show is None else show
    view = _view(store, session, fn) if is_shown else None
    with aside, progress.Progress(store, session, show=is_shown, view=view):
        try:
            return go()
        except KeyboardInterrupt:
            # One more would end the process before it has said how the session stands.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            return Outcome("interrupted", reason="ended at once by a signal")


def _view(store: AgentStore, session: str, fn: Callable[..., Any] | None) -> Any:
    """What looks on at a team or an autonomous agent; None for any other function."""
    begins = not sys.stderr.isatty()
    if is_team(fn):
        return importlib.import_module("perdure.cli.team_view").TeamView(store, session, begins=begins)
    if is_autonomous(fn):
        return importlib.import_module("perdure.cli.agent_view").AgentView(store, session, begins=begins)
    return None


def given_input(text: str | None, plain: str | None) -> Any:
    """The input that was typed, as JSON or as text; `NO_INPUT` for none."""
    if text is not None and plain is not None:
        raise typer.BadParameter("give --input or --input-text, not both")
    if text is None:
        return NO_INPUT if plain is None else plain
    return parsed(text, option="--input")


def parsed(text: str, *, option: str) -> Any:
    """The value of JSON that was typed. A usage error says how to quote it."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        raise typer.BadParameter(
            f"{option} is not JSON: {one_line(text, chars_max=60)} ({error}). Quote it for the shell: "
            f"""{option} '{{"key": "value"}}', {option} '"text"'; plain text goes into {option}-text"""
        ) from error


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _labels(given: list[str]) -> dict[str, str]:
    pairs = [label.partition("=") for label in given]
    wrong = next((name for name, equals, _ in pairs if not name or not equals), None)
    if wrong is not None:
        raise typer.BadParameter(f"--label {wrong}: write it as NAME=VALUE")
    return {name: value for name, _, value in pairs}


# --- telling how it ended --------------------------------------------------------------------------------------------


def end(outcome: Outcome, session: str, where: Place, *, as_json: bool) -> None:
    """Tells how the run ended, and ends with the status that says so."""
    if outcome.restored is not None:
        session = outcome.restored.session
    if as_json:
        output.document(shape.outcome(outcome, session, where))
    else:
        if outcome.restored is not None and outcome.restored.rung != NEWEST:
            _restored(outcome.restored)
        _TOLD[outcome.status](outcome, session, where)
    raise typer.Exit(_exit_status(outcome))


def _restored(told: Restored) -> None:
    """What the restore did, where it was more than to go on."""
    place = f" in the place of {told.source}, which is damaged and stays as it is" if told.source else ""
    output.warn(f"{told.session} goes on from #{told.seq} ({told.rung}){place}")
    for skipped in told.skipped:
        output.warn(f"  passed over: #{skipped.seq}: {one_line(skipped.why, chars_max=200)}")
    if told.missing:
        output.warn(f"  missing from its state: {', '.join(told.missing)}")
    if told.lost:
        output.warn(f"  {told.lost} records cannot be read: what they may have done is asked about first")


def _exit_status(outcome: Outcome) -> int:
    if outcome.status == "failed":
        return 1 if outcome.error is None else failing.status_of(outcome.error)
    return _STATUS[outcome.status]


def _completed(outcome: Outcome, _session: str, _where: Place) -> None:
    if outcome.result is not None:
        output.say(written(outcome.result))


def _waiting(outcome: Outcome, session: str, where: Place) -> None:
    output.say(f"{session} waits for {len(outcome.questions)} decision{'s'[: len(outcome.questions) != 1]}:")
    for question in outcome.questions:
        tell_question(question, session, where)
    output.say(f"\nthen: {where.command('resume', session)}")


def tell_question(question: Question, session: str, where: Place) -> None:
    """What must be decided, and the commands that decide it."""
    verb = "settle" if question.kind == "doubt" else "answer"
    elsewhere = f" of {question.session}" if question.session not in ("", session) else ""
    output.say(f"\n#{question.seq}{elsewhere} {one_line(question.prompt, chars_max=1000)}")
    if question.idempotency_key:
        output.say(f"  its idempotency key, if the service was given it: {question.idempotency_key}")
    for words, meaning in decisions(question):
        output.say(
            f"  {visible(where.command(verb, question.session or session, *words))}"
            + (f"   # {meaning}" if meaning else "")
        )


def _idle(outcome: Outcome, session: str, where: Place) -> None:
    if isinstance(outcome, Lacking):
        output.warn(f"{session} is idle: {outcome.reason}. For more: {where.command(*outcome.more)}")
    else:
        output.warn(f"{session} is idle: nothing was sent. {where.command('send', session, 'TEXT')}")
    output.warn(f"then: {where.command('resume', session)}")


def _cancelled(outcome: Outcome, session: str, _where: Place) -> None:
    output.warn(f"{session} is over: {outcome.reason}")


def _paused(outcome: Outcome, session: str, where: Place) -> None:
    output.warn(f"{outcome.status} ({outcome.reason}); nothing is lost. To go on: {where.command('resume', session)}")


def _failed(outcome: Outcome, session: str, where: Place) -> None:
    again = where.command("resume", session)
    if isinstance(outcome.error, DivergedError):
        output.warn(f"error: {session} cannot go on with this code: {outcome.error} (diverged)")
        output.warn(
            f"Put the code right and go on: {again}\nor let it leave repeatable calls behind: {again} --accept-change"
        )
        output.warn(f"or go back to before the change: {where.command('rollback', session, 'POINT')}")
    elif isinstance(outcome.error, PerdureError):
        output.warn(f"error: {outcome.error} ({outcome.error.code})\nOnce that is mended: {again}")
    else:
        error = outcome.error
        trace = failing.users_traceback(error) if error is not None else ""
        given_up = "" if outcome.reason == f"{type(error).__name__}: {error}" else f": {outcome.reason}"
        output.warn(f"{trace}\n{session} failed{given_up}; what was done is kept. Mend the cause, then: {again}")


_STATUS: Final = {
    "completed": 0,
    "waiting": WAITING,
    "paused": PAUSED,
    "interrupted": PAUSED,
    "idle": IDLE,
    "cancelled": CANCELLED,
}

_TOLD: Final = {
    "completed": _completed,
    "waiting": _waiting,
    "paused": _paused,
    "interrupted": _paused,
    "failed": _failed,
    "idle": _idle,
    "cancelled": _cancelled,
}
