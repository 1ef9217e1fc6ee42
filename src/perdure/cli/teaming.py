"""`team`: a team started from an idea, shown role by role, given more money or rounds."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import perdure
from perdure.cli import lacking, options, output, running
from perdure.cli.place import place
from perdure.cli.text import chosen_by, one_line
from perdure.errors import RefusedError
from perdure.stores.ids import id_of_words

if TYPE_CHECKING:
    from perdure.runtime.store import AgentStore

SHIPPED: Final = "perdure.team.software_team"
"""The example, where it comes with the package."""

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def team() -> None:
    """Start a team of roles on an idea, see how it gets on, give it more money or rounds."""


Usd = Annotated[float, typer.Argument(metavar="USD", min=0.01, help="How much more models may cost.")]
Count = Annotated[int, typer.Argument(metavar="N", min=1, help="How many more rounds.")]


@app.command()
def run(
    idea: Annotated[str, typer.Argument(metavar="IDEA", help="What the team is to do.", show_default=False)],
    *,
    target: Annotated[
        str | None,
        typer.Option(
            "--team",
            metavar="FUNCTION",
            help="The team's function: file.py:function. Else a software team comes along.",
        ),
    ] = None,
    session: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The session. Else it is made from the idea.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="What roles without a model of their own ask; recorded."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", metavar="N", min=1, help="How many rounds it may take; else 10.")
    ] = None,
    investment: Annotated[
        float | None,
        typer.Option("--investment", metavar="USD", min=0, help="What models may cost; else as the team says, or 10."),
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option("--workspace", metavar="DIR", help="The folder that it works in, from now on; else workspace/ID."),
    ] = None,
    wait: options.Wait = 0.0,
    accept_change: options.AcceptChange = False,
    progress: options.Progress = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Run a team on an idea: a new session, or on from where it was.

    Ends as `perdure run` does. The same line again goes on with the same session.
    """
    starting = importlib.import_module("perdure.team.starting")
    target = target or shipped()
    fn, where = running.load(target), place(store)
    starting.check_team(fn, target)
    session = session or id_of_words(idea, kind="team")
    with where.open(make=True, runs=True) as opened:
        function, given = starting.started(
            opened, fn, session, idea=idea, model=model, rounds=rounds, investment=investment, workspace=workspace
        )
        if model is None:
            _tell_scripted(fn)
        outcome = running.watched(
            opened,
            session,
            fn,
            show=progress,
            as_json=as_json,
            go=lambda: opened.run(function, session, input=given, wait_s=wait, accept_change=accept_change),
        )
        outcome = lacking.with_lack(opened, session, fn, outcome)
        if outcome.status == "completed":
            _tell_files(opened, session)
    running.end(outcome, session, where, as_json=as_json)


def shipped() -> str:
    """The team that comes with the package, as an entry point."""
    if importlib.util.find_spec(SHIPPED) is not None:
        return f"{SHIPPED}:team"
    return f"{Path(perdure.__file__).parents[2] / 'examples' / 'software_team.py'}:team"


def _tell_scripted(fn: Any) -> None:
    model = fn.hire({}).model
    if isinstance(model, str) and model.startswith("script:"):
        output.warn(
            f"No --model was given: the replies are those in {Path(model).name}, whatever the idea is. "
            "With a model: --model openai:gpt-5"
        )


def _tell_files(store: AgentStore, session: str) -> None:
    state = store.state_at(session, parts=["team", "files"])
    count = len(state["files"])
    output.warn(f"{count} file{'s' * (count != 1)} in {state['team']['workspace']}")


@app.command()
def show(session: options.Session, *, store: options.Store = None, as_json: options.Json = False) -> None:
    """Show a team: its roles, what each does and has in its inbox, rounds, money, files that are missing or changed.

    What a process does that runs it at this moment is shown as far as its log tells.
    """
    where = place(store)
    with where.open() as opened:
        found = importlib.import_module("perdure.cli.team_overview").overview(opened, session)
        questions = opened.questions(session) if found.info.status == "waiting" else ()
    if as_json:
        output.document(found.document(where, questions))
        return
    for name, value in found.facts().items():
        if value:
            output.say(f"{name:<9} {one_line(value, chars_max=200)}")
    for each in found.astray:
        output.say(f"          {each.path} is {each.what}")
    output.say()
    output.table(found.COLUMNS, found.rows())
    for question in questions:
        running.tell_question(question, session, where)
    if found.info.status not in ("completed", "cancelled", "running"):
        for words in found.lacks:
            output.say(f"\nit needs more: {where.command('team', *words)}")
        output.say(f"\nto go on: {where.command('resume', session)}")


@app.command()
def invest(
    session: options.Session,
    usd: Usd,
    *,
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Let models cost a team more. It takes the money when what it had is spent."""
    _send(session, {"investment": usd}, f"{usd:g} USD", by=by, store=store, as_json=as_json)


@app.command()
def rounds(
    session: options.Session,
    count: Count,
    *,
    by: options.By = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Let a team take more rounds. It takes them when those that it had are used."""
    _send(session, {"rounds": count}, f"{count} rounds", by=by, store=store, as_json=as_json)


def _send(session: str, what: dict[str, Any], told: str, *, by: str | None, store: str | None, as_json: bool) -> None:
    where = place(store)
    with where.open() as opened:
        if "team" not in opened.state_at(session, parts=["team"]):
            raise RefusedError(f"{session} is no team, or has not begun: it takes neither money nor rounds")
        opened.send(session, what, by=chosen_by(by))
        owner = opened.info(session).owner
    again = where.command("resume", session)
    if as_json:
        output.document({"session": session, "sent": True, "owner": owner, "resume": again})
    else:
        output.say(f"sent: {told} more. " + (f"{owner} runs it" if owner else f"To go on: {again}"))
