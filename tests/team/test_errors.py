"""An error or a cancellation at any instant of a team's run; then it goes on to what it comes to unharmed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

import perdure
from perdure import values
from perdure.session.face import Face
from tests.crash import outside
from tests.team import benches
from tests.team.benches import MODES, four, playing, two

FULL = os.environ.get("PERDURE_STORM") == "full"
pytestmark = pytest.mark.timeout(3600 if FULL else 120)
PARTS = ("team", "roles", "memories", "messages", "history")


@pytest.fixture(autouse=True)
def same_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Face, "_value", Face._value)
    benches.fix_ids()


@pytest.fixture
def store() -> Iterator[perdure.AgentStore]:
    with perdure.open("memory:") as opened:
        yield opened


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has something happen at the n-th instant, once."""

    def arm(hit: int, what: Any) -> list[str]:
        passed: list[str] = []

        def hook(name: str) -> None:
            passed.append(name)
            if len(passed) == hit:
                what(name)

        monkeypatch.setattr(benches, "hook", [hook])
        return passed

    return arm


class BrokenError(Exception):
    """What an action raises."""


def broken(name: str) -> None:
    raise BrokenError(name)


def once() -> dict[str, int]:
    """The effects that must not be repeated."""
    return {name: times for name, times in outside.effects().items() if name not in ("look", "Count")}


def to_the_end(store: perdure.AgentStore, agent: Any, session: str) -> perdure.Outcome:
    """Runs it to its end; a person settles what is in doubt: here an error comes before the effect."""
    outcome = store.run(agent, session, input="rivers")
    while outcome.status == "waiting":
        for question in outcome.questions:
            store.settle(session, question.seq, "not-done")
        outcome = store.run(agent, session, input="rivers")
    return outcome


def state(store: perdure.AgentStore, session: str) -> dict[str, Any]:
    found = store.state_at(session)
    return {part: values.encode(found[part]) for part in PARTS}


@pytest.mark.storm
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("team", [two, four])
def test_an_error_at_any_instant(team: Any, mode: str, store: perdure.AgentStore, at: Any) -> None:
    agent = playing(team, mode)
    instants = at(0, broken)
    assert store.run(agent, "unharmed", input="rivers").status == "completed"
    count, unharmed, effects = len(instants), state(store, "unharmed"), once()
    assert count > 12
    for hit in range(1, count + 1, 1 if FULL else 2 if team is two else 7):
        outside.clear()
        at(hit, broken)
        session = f"s{hit}"
        first = store.run(agent, session, input="rivers")
        assert first.status in ("failed", "waiting"), (hit, first)
        again = to_the_end(store, agent, session)
        assert again.status == "completed", (hit, instants[hit - 1], again)
        assert state(store, session) == unharmed, (hit, instants[hit - 1])
        assert once() == effects, (hit, instants[hit - 1])


def test_errors_of_two_roles_in_one_round_are_both_tried_again(store: perdure.AgentStore, at: Any) -> None:
    agent = playing(four, "by_order")
    at(0, broken)
    store.run(agent, "unharmed", input="rivers")
    effects = once()
    outside.clear()
    benches.hook[-1] = broken
    assert store.run(agent, "s", input="rivers").status == "failed"
    at(0, broken)
    again = store.run(agent, "s", input="rivers")
    assert again.status == "completed", again
    assert state(store, "s") == state(store, "unharmed")
    assert once() == effects


# --- cancelled --------------------------------------------------------------------------------------------------------


@pytest.mark.storm
@pytest.mark.parametrize("mode", MODES if FULL else ["react"])
def test_a_cancelled_run_goes_on(mode: str, store: perdure.AgentStore, at: Any) -> None:
    agent = playing(four, mode)
    instants = at(0, broken)
    store.run(agent, "unharmed", input="rivers")
    unharmed, effects = state(store, "unharmed"), once()

    async def cancelled(session: str, hit: int) -> None:
        task = asyncio.create_task(store.arun(agent, session, input="rivers"))
        at(hit, lambda _: task.cancel())
        with pytest.raises(asyncio.CancelledError):
            await task

    for hit in range(1, len(instants) + 1, 1 if FULL else 7):
        outside.clear()
        session = f"s{hit}"
        asyncio.run(cancelled(session, hit))
        at(0, broken)
        again = to_the_end(store, agent, session)
        assert again.status == "completed", (hit, again)
        assert state(store, session) == unharmed, hit
        assert once() == effects, hit
