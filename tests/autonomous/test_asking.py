"""A person at a terminal is asked what a session waits for; who is not there is told how to answer later."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

import perdure
from perdure.cli import asking


@perdure.agent
def agent(s: perdure.Session) -> Any:
    return s.ask_all(
        [
            perdure.Ask("What?", key="what"),
            perdure.Ask("Which?", key="which", choices=["red", 3]),
            perdure.Ask("Sure?", key="sure", choices=["yes", "no"]),
        ]
    )


@perdure.agent
def counting(s: perdure.Session) -> Any:
    return s.ask("How many?", schema=int)


@pytest.fixture
def store() -> Iterator[perdure.AgentStore]:
    with perdure.open("memory:") as opened:
        yield opened


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Somebody at a terminal, who types these lines and then ends the input."""
    monkeypatch.setattr(asking, "is_terminal", lambda: True)
    return lambda *lines: monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def run(store: perdure.AgentStore, fn: Any = agent, session: str = "q", *, as_json: bool = False) -> perdure.Outcome:
    return asking.until_answered(store, session, lambda: store.run(fn, session), as_json=as_json)


def test_each_kind_of_answer_is_taken_as_it_was_meant(store: perdure.AgentStore, types: Callable[..., None]) -> None:
    types("a hat", "blue", "3", "perhaps", "y")
    outcome = run(store)
    assert (outcome.status, outcome.result) == ("completed", ["a hat", 3, "yes"])
    assert sys.stdin.read() == ""


def test_without_an_answer_it_waits_and_keeps_those_that_were_given(
    store: perdure.AgentStore, types: Callable[..., None]
) -> None:
    types("a hat")
    assert [one.prompt for one in run(store).questions] == ["Which?", "Sure?"]
    types("red", "n")
    assert run(store).result == ["a hat", "red", "no"]


def test_what_somebody_else_has_answered_meanwhile_stands(
    store: perdure.AgentStore,
    types: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ask = typer.prompt

    def late(text: str, **how: Any) -> Any:
        if text == "What?":
            store.answer("q", "what", "of ann", by="ann")
        return ask(text, **how)

    monkeypatch.setattr(typer, "prompt", late)
    types("mine", "red", "y")
    assert run(store).result == ["of ann", "red", "yes"]
    assert "is answered already" in capsys.readouterr().err


def test_nobody_is_asked_for_what_is_no_plain_answer_or_where_nobody_is(
    store: perdure.AgentStore, types: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    types("5")
    assert run(store, counting).status == "waiting"
    assert run(store, agent, session="r", as_json=True).status == "waiting"
    monkeypatch.setattr(asking, "is_terminal", lambda: False)
    assert run(store, agent, session="r").status == "waiting"
    assert sys.stdin.read() == "5\n"
