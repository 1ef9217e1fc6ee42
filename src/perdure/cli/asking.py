"""A person at a terminal is asked what a session wants to know, and the run goes on with the answer."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from perdure.cli import output
from perdure.cli.text import choice, chosen_by, visible
from perdure.errors import UndecidedError
from perdure.values import outward

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.runtime.outcome import Outcome, Question
    from perdure.runtime.store import AgentStore

YES_NO = ["yes", "no"]


def until_answered(store: AgentStore, session: str, go: Callable[[], Outcome], *, as_json: bool) -> Outcome:
    """Runs, asks, and runs on, until it waits for nothing that can be asked here.

    Doubts are left to `settle`, and answers that a schema describes to `answer`.
    """
    outcome = go()
    while outcome.status == "waiting" and not as_json and is_terminal():
        if not _ask_all(store, session, outcome.questions):
            return replace(outcome, questions=store.questions(session))
        outcome = go()
    return outcome


def is_terminal() -> bool:
    """Whether somebody is there to be asked and to see the question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask_all(store: AgentStore, session: str, questions: tuple[Question, ...]) -> bool:
    """Whether all of them were answered."""
    if any(one.kind != "question" or (one.schema is not None and one.choices is None) for one in questions):
        return False
    for one in questions:
        try:
            answer = _ask(one)
        except typer.Abort:
            output.warn("")
            return False
        try:
            store.answer(one.session or session, one.seq, answer, by=chosen_by(None))
        except UndecidedError as error:  # somebody else was faster
            output.warn(str(error))
    return True


def _ask(question: Question) -> Any:
    prompt = visible(outward.text(question.prompt))
    if question.choices == YES_NO:
        return "yes" if typer.confirm(prompt, default=None, err=True) else "no"
    if question.choices is None:
        return typer.prompt(prompt, err=True)
    named = {choice(value): value for value in question.choices}

    def chosen(text: str) -> Any:
        if text not in named:
            raise typer.BadParameter(f"it is one of {', '.join(named)}")
        return named[text]

    return typer.prompt(f"{prompt} ({', '.join(named)})", value_proc=chosen, err=True)
