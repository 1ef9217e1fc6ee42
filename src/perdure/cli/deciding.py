"""`checkpoint`, `rollback`, `settle` and `answer`: what a person decides about a session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli import filed, foreseeing, options, output
from perdure.cli.place import place
from perdure.cli.running import load, parsed
from perdure.cli.text import as_point, choice, chosen_by
from perdure.errors import EntryError

if TYPE_CHECKING:
    from perdure.runtime.store import AgentStore

Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded.")]
Seq = Annotated[
    int, typer.Argument(metavar="SEQ", help="The record that waits, as `show` lists it.", show_default=False)
]


def checkpoint(
    session: options.Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name to give.", show_default=False)],
    *,
    at: Annotated[str, typer.Option("--at", metavar="POINT", help="The restore point to name; -1 the newest.")] = "-1",
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Give a restore point a name to roll back to."""
    with place(store).open() as opened:
        seq = opened.checkpoint(session, name, at=as_point(at), by=chosen_by(by))
    if as_json:
        output.document({"session": session, "name": name, "seq": seq})
    else:
        output.say(f"#{seq} of {session} is now called {name}")


def rollback(
    session: options.Session,
    point: Annotated[
        str,
        typer.Argument(
            metavar="POINT",
            help="A checkpoint's name, the number of a restore point, -1 the newest, 0 the re-entry point.",
            show_default=False,
        ),
    ],
    *,
    reason: Reason = "",
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="A name for the branch that begins there.")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option("--strategy", metavar="NAME", help="What the code is to try now: its s.strategy.")
    ] = None,
    preview: options.Preview = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, at a terminal either.")] = False,
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Go back to a restore point.

    The session goes on from there when it is next run; one that runs goes back at its next action.
    """
    where, to = place(store), as_point(point)
    with where.open() as opened:
        found = opened.preview_rollback(session, to)
        if preview:
            foreseeing.show(found, as_json=as_json)
            return
        foreseeing.confirm(found, f"Go back to #{found.to}?", yes=yes, as_json=as_json)
        done = opened.rollback(session, to, reason=reason, by=chosen_by(by), branch=branch, strategy=strategy)
    if as_json:
        told = {"to": done.to, "undo": list(done.undo), "standing": list(done.standing), "asked": done.asked}
        told["instead"] = list(done.instead)
        output.document({"session": session, **told, "resume": where.command("resume", session)})
        return
    if done.asked:
        output.say(f"{session} runs; it was asked, and goes back to #{done.to} at its next action, save or wait")
        return
    output.say(f"{session} is back at #{done.to}. To go on: {where.command('resume', session)}")
    if done.instead:
        output.say(f"instead of what was asked of a process that is gone: {', '.join(done.instead)}")
    if done.undo:
        output.say(f"undone before it goes on: {_seqs(done.undo)}")
    if done.standing:
        output.say(f"left standing, not undone: {_seqs(done.standing)}")


def settle(
    session: options.Session,
    seq: Seq,
    how: Annotated[
        str, typer.Argument(metavar="done|not-done|abandoned", help="What became of it.", show_default=False)
    ],
    *,
    result: Annotated[
        str | None, typer.Option("--result", metavar="JSON", help="With done: what its call is answered with.")
    ] = None,
    result_text: Annotated[
        str | None, typer.Option("--result-text", metavar="TEXT", help="The same, as plain text.")
    ] = None,
    result_file: Annotated[
        Path | None,
        typer.Option("--result-file", metavar="FILE", exists=True, dir_okay=False, help="The same, in JSON or YAML."),
    ] = None,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Take the result as it is, whatever the action's function returns.")
    ] = False,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Why you think so; recorded.")] = "",
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Decide about an action in doubt: done, not-done or abandoned.

    It happened (done), it did not and runs again (not-done), or it is never to run (abandoned). A result is checked
    by the code of the session, where that is here.
    """
    given = [one for one in (result, result_text, result_file) if one is not None]
    if len(given) > 1:
        raise typer.BadParameter("give one of --result, --result-text and --result-file")
    if how != "done" and given:
        raise typer.BadParameter("a result goes with done only")
    if result_file is not None:
        value = filed.value_of(result_file)
    else:
        value = result_text if result is None else parsed(result, option="--result")
    where = place(store)
    with where.open() as opened:
        is_checked = how == "done" and not unchecked and _is_loaded(opened.info(session).entry)
        opened.settle(session, seq, how, result=value, by=chosen_by(by), why=why, unchecked=not is_checked)
        held = opened.info(session).owner
    told = {"session": session, "seq": seq, "how": how}
    _decided(told, where.command("resume", session), as_json=as_json, held=held)


def _is_loaded(entry: str) -> bool:
    """Whether the code of the session is here, so that a result can be checked by it; else that is told."""
    if not entry:
        return False
    try:
        load(entry)
    except EntryError as error:
        output.warn(f"the result is not checked, as the code of the session is not here: {error}")
        return False
    return True


def answer(
    session: options.Session,
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="Its number (digits) or its key.", show_default=False)
    ],
    text: Annotated[
        str | None, typer.Argument(metavar="ANSWER", help="The answer: text, or one of the choices as listed.")
    ] = None,
    *,
    value: Annotated[
        str | None, typer.Option("--value", metavar="JSON", help="The answer as JSON, instead of ANSWER.")
    ] = None,
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Answer a question that a session asked."""
    if (text is None) == (value is None):
        raise typer.BadParameter("give an ANSWER, or --value JSON")
    where, asked = place(store), int(question) if question.isdigit() else question
    with where.open() as opened:
        given = _choice(opened, session, asked, text) if text is not None else parsed(value or "", option="--value")
        opened.answer(session, asked, given, by=chosen_by(by))
        held = opened.info(session).owner
    _decided({"session": session, "question": asked}, where.command("resume", session), as_json=as_json, held=held)


def _choice(store: AgentStore, session: str, question: int | str, text: str) -> Any:
    """The choice that is written so; the text itself when the question has no such choice."""
    asked = [e for e in store.log(session) if e.kind == "asked" and question in (e.seq, e["key"])]
    choices = (asked[-1]["choices"] if asked else None) or []
    return next((value for value in choices if choice(value) == text), text)


def _decided(told: dict[str, Any], go_on: str, *, as_json: bool, held: str = "") -> None:
    if as_json:
        output.document({**told, "resume": go_on})
    elif held:
        output.say(f"recorded. {held} runs it and goes on by itself")
    else:
        output.say(f"recorded. To go on: {go_on}")


def _seqs(seqs: tuple[int, ...]) -> str:
    return ", ".join(f"#{seq}" for seq in seqs)
