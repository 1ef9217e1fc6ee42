"""What an action calls is held to the same limits: money, attempts and time are looked at before each inner call."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import clock
from perdure.errors import BudgetError
from perdure.log.choices import Course
from perdure.recovery import FailurePolicy
from perdure.session.rules.failing import Failing
from perdure.testing import crash_everywhere
from tests.instants import POINTS

done: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_done():
    done.clear()


@pytest.fixture
def store(tmp_path: Path):
    with perdure.open(tmp_path / "agents.db") as opened:
        yield opened


@perdure.action(effect="repeatable", cost=lambda _: {"usd": 0.5})
def dear(n: int) -> int:
    done.append(n)
    return n


@perdure.action(effect="repeatable")
def search(way: str) -> str:
    done.append(way)
    if way != "third":
        raise ValueError(f"nothing found the {way} way")
    return "found"


# --- money ------------------------------------------------------------------------------------------------------------


@perdure.action(effect="repeatable")
def research(s: perdure.Session, pages: int) -> int:
    return sum(s.call(dear, n) for n in range(pages))


@perdure.action(effect="repeatable")
def swallowing(s: perdure.Session, pages: int) -> str:
    for n in range(pages):
        try:
            s.call(dear, n)
        except Exception:  # noqa: BLE001, S112 - as agents do
            continue
    return "all read"


@pytest.mark.parametrize("parent", [research, swallowing])
def test_the_budget_holds_inside_of_an_action_and_once_it_is_raised_what_was_paid_for_is_answered(store, parent):
    def agent(usd: float) -> Any:
        @perdure.agent(failures=FailurePolicy(budget={"usd": usd}))
        def code(s: perdure.Session) -> Any:
            return s.call(parent, s, pages=6)

        return code

    outcome = store.run(agent(2.0), "s")
    assert (outcome.status, type(outcome.error), done) == ("failed", BudgetError, [0, 1, 2, 3])
    assert store.run(agent(2.0), "s").status == "failed"
    assert done == [0, 1, 2, 3], "a resume pays nothing more"
    assert store.run(agent(9.0), "s").status == "completed"
    assert done == [0, 1, 2, 3, 4, 5]


def test_the_budget_holds_inside_of_an_awaited_action(store):
    @perdure.action(effect="repeatable")
    async def reading(s: perdure.AsyncSession) -> None:
        for n in range(6):
            await s.call(dear, n)

    @perdure.agent(failures=FailurePolicy(budget={"usd": 1.0}))
    async def agent(s: perdure.AsyncSession) -> None:
        await s.call(reading, s)

    outcome = asyncio.run(store.arun(agent, "s"))
    assert (outcome.status, type(outcome.error), done) == ("failed", BudgetError, [0, 1])


def test_a_build_that_looks_only_at_the_agents_own_calls_spends_all_of_it(store, monkeypatch):
    right = Failing._check_budget

    def outside_only(self):
        return () if self._core.stack else (yield from right(self))

    monkeypatch.setattr(Failing, "_check_budget", outside_only)

    @perdure.agent(failures=FailurePolicy(budget={"usd": 2.0}))
    def agent(s: perdure.Session) -> Any:
        return s.call(research, s, pages=6)

    store.run(agent, "s")
    assert len(done) == 6, "the tests above would not see it"


# --- attempts ---------------------------------------------------------------------------------------------------------


@perdure.action(effect="repeatable")
def insisting(s: perdure.Session, way: str) -> str:
    """Swallows what its tool raises, and would go on for a long time."""
    for _ in range(20):
        try:
            return s.call(search, way)
        except ValueError:
            continue
    return "given up"


def insists(*strategies: Any, **options: Any) -> Any:
    @perdure.agent(failures=FailurePolicy(after=3, strategies=strategies, **options))
    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        s.state["way"] = s.strategy
        return s.call(insisting, s, s.strategy)

    return agent


def test_what_fails_again_and_again_inside_of_an_action_is_a_failure_and_the_next_strategy_is_tried(store):
    outcome = store.run(insists("first", "second", "third"), "s")
    assert (outcome.result, done) == ("found", ["first"] * 3 + ["second"] * 3 + ["third"])
    told = store.detail("s").choices
    assert [(c.do, c.strategy, c.failures) for c in told] == [("next", "second", 3), ("next", "third", 3)]
    assert [(c.failure.action, c.failure.kind) for c in told] == [("search", "tool_error")] * 2
    assert store.state_at("s") == {"way": "third"}


def test_with_no_strategy_left_it_is_failed_and_a_person_may_try_once_more(store):
    outcome = store.run(insists("first"), "s")
    assert (outcome.status, len(done)) == ("failed", 3)
    assert "search failed (tool_error): ValueError: nothing found the first way. That was 3 in a row" in outcome.reason
    assert store.run(insists("first"), "s").status == "failed"
    assert len(done) == 6, "the count begins anew when a person resumes it"


def test_a_success_in_between_ends_the_row(store):
    @perdure.action(effect="repeatable")
    def mixed(s: perdure.Session) -> str:
        for n in range(12):
            try:
                s.call(search, "third" if n % 3 == 2 else "first")
            except ValueError:
                continue
        return "through"

    @perdure.agent(failures=FailurePolicy(after=3))
    def agent(s: perdure.Session) -> str:
        return s.call(mixed, s)

    assert store.run(agent, "s").result == "through"


@pytest.mark.storm
def test_killed_anywhere_it_ends_the_same():
    crash_everywhere(insists("first", "third"), effects=Counter, points=POINTS)


def test_one_that_may_happen_only_once_is_asked_about_before_it_is_left_behind(store):
    @perdure.action(effect="once")
    def order(s: perdure.Session, way: str) -> str:
        done.append("order")
        return insisting(s, way)

    @perdure.agent(failures=FailurePolicy(after=3, strategies=("first", "third")))
    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        return s.call(order, s, s.strategy)

    outcome = store.run(agent, "s")
    assert (outcome.status, done.count("order")) == ("waiting", 1)
    (question,) = outcome.questions
    store.settle("s", question.seq, "not-done")
    assert store.run(agent, "s").result == "found"
    assert done.count("order") == 2


# --- time -------------------------------------------------------------------------------------------------------------


def test_what_fails_inside_for_too_long_is_given_up(store, monkeypatch):
    now_us, ahead_us = clock.now_us, [0]
    monkeypatch.setattr(clock, "now_us", lambda: now_us() + ahead_us[0])

    @perdure.action(effect="repeatable")
    def slow(s: perdure.Session) -> str:
        for _ in range(20):
            try:
                s.call(search, "first")
            except ValueError:
                ahead_us[0] += 40_000_000
        return "too late"

    @perdure.agent(failures=FailurePolicy(after=10, within_s=60))
    def agent(s: perdure.Session) -> str:
        return s.call(slow, s)

    outcome = store.run(agent, "s")
    assert (outcome.status, len(done)) == ("failed", 2)
    assert "failed for longer than 60 s" in outcome.reason


# --- the fold ---------------------------------------------------------------------------------------------------------


def test_rows_inside_are_folded_from_the_log_alone(store):
    store.run(insists("first", "third"), "s")
    entries = list(store.log("s"))
    ended = [at for at, e in enumerate(entries) if e.kind == "action_finished" and e["how"] == "error"]
    rows = [Course().take(entries[: at + 1]).inner for at in ended]
    assert [[row.most for row in rows.values()] for rows in rows] == [[1], [2], [3]]
    assert Course().take(entries).inner == {}
