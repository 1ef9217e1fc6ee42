"""`agent`: an autonomous agent started on a goal, or gone on with."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from perdure import limits
from perdure.cli import asking, lacking, options, running
from perdure.cli.place import place
from perdure.stores.ids import id_of_words

if TYPE_CHECKING:
    from perdure.runtime.outcome import Outcome

SHIPPED: Final = "perdure.autonomous.pursue:pursue"
"""The agent that comes with the package."""


def agent(
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What is to be reached.", show_default=False)],
    *,
    target: Annotated[
        str | None,
        typer.Option(
            "--agent",
            metavar="FUNCTION",
            help="The agent's function: file.py:function. Else one with files, commands, questions and notes.",
        ),
    ] = None,
    session: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The session. Else it is made from the goal.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="What is asked: openai:NAME, script:FILE, local …; recorded."),
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option("--workspace", metavar="DIR", help="The folder that it works in, from now on; else workspace/ID."),
    ] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            metavar="UNIT=N",
            help="What it may spend: usd, tokens, steps or seconds; repeatable. Else its code says.",
        ),
    ] = None,
    approve: Annotated[
        str | None,
        typer.Option(
            "--approve",
            metavar="WHEN",
            help="Before which calls a person is asked: once (what cannot be repeated), write (all changes) or never. "
            "Else as its code says: once, where none is named.",
        ),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", metavar="TEXT", help="What it is told with each request; repeatable."),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            "--window", metavar="TOKENS", min=limits.WINDOW_TOKENS_MIN, help="How many tokens the model takes."
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="HOST", help="A host that it may fetch pages from; repeatable. Else none."),
    ] = None,
    wait: options.Wait = 0.0,
    accept_change: options.AcceptChange = False,
    progress: options.Progress = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Pursue a goal on its own: a new session, or on from where it was.

    Ends as `perdure run` does. The same line again goes on with the same session. At a terminal it asks what a person
    has to decide.
    """
    said = {
        "goal": goal,
        "model": model,
        "rules": tuple(rule or ()),
        "budget": _amounts(budget or []),
        "approve": approve,
        "window": window,
        "allow": tuple(allow or ()),
    }
    starting = importlib.import_module("perdure.autonomous.starting")
    target = target or SHIPPED
    fn, where = running.load(target), place(store)
    starting.check_agent(fn, target)
    session = session or id_of_words(goal, kind="agent")
    with where.open(make=True, runs=True) as opened:
        function, given = starting.started(opened, fn, session, said=said, workspace=workspace)

        def go() -> Outcome:
            return running.watched(
                opened,
                session,
                fn,
                show=progress,
                as_json=as_json,
                go=lambda: opened.run(function, session, input=given, wait_s=wait, accept_change=accept_change),
            )

        outcome = lacking.with_lack(opened, session, fn, asking.until_answered(opened, session, go, as_json=as_json))
    running.end(outcome, session, where, as_json=as_json)


def _amounts(told: list[str]) -> dict[str, float]:
    return dict(map(_amount, told))


def _amount(text: str) -> tuple[str, float]:
    unit, _, amount = text.partition("=")
    try:
        found = float(amount)
    except ValueError as error:
        raise typer.BadParameter(f"--budget {text}: write it as UNIT=N, like usd=1.5 or steps=200") from error
    return unit, int(found) if found.is_integer() else found
