"""The strategy in force outlives whoever goes back without naming one; and being cancelled is no failure."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pytest

import perdure
from perdure import Strategy
from perdure.log.choices import Course
from perdure.recovery import FailurePolicy
from tests.restoring.damaged import Rows, seqs_of

tried: list[Any] = []
CAREFUL = Strategy("careful", model="large")
POLICY = FailurePolicy(after=1, strategies=("quick", CAREFUL))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tried.clear()
    return tmp_path / "agents.db"


def course(store: perdure.AgentStore) -> Course:
    return Course().take(store.log("s"))


@perdure.action(effect="repeatable")
def build(how: Any) -> str:
    tried.append(how)
    if how == "quick":
        raise ValueError("quick does not build")
    return "built"


@perdure.agent(failures=POLICY)
def agent(s: perdure.Session) -> Any:
    s.checkpoint("start")
    s.state["n"] = 1
    s.checkpoint("middle")
    s.state["built"] = build(s.strategy)
    s.checkpoint("built")
    return s.ask("Is it good?", key="good")


# --- who goes back and names none -------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["start", "middle", "built", -1, 0])
def test_a_person_who_names_no_strategy_keeps_the_one_in_force(path: Path, to: str | int) -> None:
    with perdure.open(path) as store:
        assert store.run(agent, "s").status == "waiting"
        store.rollback("s", to, by="alex")
        store.rollback("s", to, by="alex")
        store.answer("s", "good", "yes") if store.run(agent, "s").status == "waiting" else None
        assert store.run(agent, "s").result == "yes"
        assert tried == ["quick", *[CAREFUL] * (1 if to in ("built", -1) else 2)]
        assert course(store).strategies == [CAREFUL]
        assert [choice.do for choice in course(store).choices] == ["next"], "the policy has not chosen again"


def test_a_person_may_name_the_first(path: Path) -> None:
    with perdure.open(path) as store:
        store.run(agent, "s")
        store.rollback("s", "start", strategy="quick")
        assert "every strategy was tried" in store.run(agent, "s").reason
        assert tried == ["quick", CAREFUL, "quick"]


def test_cancelled_as_the_policy_goes_back_and_taken_back_by_a_person_it_tries_the_next(path: Path) -> None:
    @perdure.action(effect="repeatable")
    def build_and_be_cancelled(how: Any) -> str:
        if how == "quick":
            with perdure.open(path) as beside:
                beside.cancel("s")
        return build(how)

    @perdure.agent(failures=POLICY)
    def stopped(s: perdure.Session) -> str:
        s.checkpoint("start")
        return build_and_be_cancelled(s.strategy)

    with perdure.open(path) as store:
        assert store.run(stopped, "s").status == "cancelled"
        store.rollback("s", -1, by="alex")
        assert store.run(stopped, "s").result == "built"
        assert tried == ["quick", CAREFUL]


def test_the_policy_that_goes_back_further_keeps_it(path: Path) -> None:
    said = iter(["x", "x", "x", "x"])

    @perdure.agent(failures=FailurePolicy(after=3, strategies=("quick", "careful"), rollback_to={"tool_error": -1}))
    def reading(s: perdure.Session) -> Any:
        s.checkpoint("one")
        s.checkpoint("two")
        tried.append(s.strategy)
        if s.strategy == "quick":
            return [build("quick") for _ in range(3)]
        return json.loads(next(said, "7"))

    with perdure.open(path) as store:
        outcome = store.run(reading, "s")
        backs = [entry["to"] for entry in store.log("s") if entry.kind == "rolled_back"]
        assert len(set(backs)) > 1, "it went back behind the place where the strategy began"
    assert outcome.status == "failed"
    assert {*tried[1:]} - {"quick"} == {"careful"}
    assert "quick" not in tried[tried.index("careful") :]


@pytest.mark.parametrize("damaged", ["asked", "rolled_back", "note", ""])
def test_a_restore_keeps_it_as_far_as_it_can_be_read(path: Path, damaged: str) -> None:
    with perdure.open(path) as store:
        store.run(agent, "s")
        store.rollback("s", "start", by="alex")
        store.run(agent, "s")
        found = seqs_of(store, "s", damaged)
    if damaged:
        Rows(path, "s").spoil(found[0])
    with perdure.open(path) as store:
        outcome = store.run(agent, "s", restore="latest_valid" if damaged else "at:start")
        assert outcome.status == "waiting"
        assert outcome.restored is not None
        store.answer(outcome.restored.session, "good", "yes")
        assert store.run(agent, outcome.restored.session).result == "yes"
        assert tried[:2] == ["quick", CAREFUL]
        assert "quick" not in tried[1:]


@perdure.action(effect="repeatable", cost=lambda _: {"usd": 0.5})
def ask_model(n: int) -> int:
    tried.append(n)
    if n == 2:
        raise PaidForError
    return n


class PaidForError(Exception):
    """An answer that is none, and was paid for."""

    cost: ClassVar = {"usd": 0.25}


@perdure.agent(failures=FailurePolicy(budget={"usd": 4.0}))
def script(s: perdure.Session) -> None:
    for n in range(20):
        s.state["n"] = n
        with contextlib.suppress(PaidForError):
            ask_model(n)
        s.save()
        if n == 4:
            s.ask("Go on?", key="go")


@perdure.steps(failures=FailurePolicy(budget={"usd": 4.0}))
def steps(s: perdure.Session) -> None:
    n = s.state["n"] = s.state.get("n", -1) + 1
    with contextlib.suppress(PaidForError):
        ask_model(n)
    if n == 4:
        s.ask("Go on?", key="go")


@pytest.mark.parametrize("damaged", [1, 3, -1], ids=["the first save", "an early one", "the last"])
@pytest.mark.parametrize("code", [script, steps])
def test_what_was_spent_behind_damage_stays_spent(path: Path, code: Any, damaged: int) -> None:
    with perdure.open(path) as store:
        assert store.run(code, "s").status == "waiting"
        assert course(store).spent == {"usd": 2.25}
        found = seqs_of(store, "s", "saved")
    Rows(path, "s").spoil(found[damaged])
    with perdure.open(path) as store:
        outcome = store.run(code, "s")
        assert outcome.restored is not None
        other = outcome.restored.session
        while outcome.status == "waiting":
            for question in outcome.questions:
                store.answer(other, question.seq, "yes")
            outcome = store.run(code, other)
        assert outcome.status == "failed"
        assert "are spent" in outcome.reason
        paid = sum(0.25 if n == 2 else 0.5 for n in tried)
        assert 4.0 <= paid < 4.5
        assert Course().take(store.log(other)).spent == {"usd": paid}


def test_what_was_tried_behind_damage_is_not_tried_again(path: Path) -> None:
    @perdure.agent(failures=FailurePolicy(after=1, strategies=("quick", "clever", CAREFUL, "last")))
    def code(s: perdure.Session) -> str:
        s.checkpoint("start")
        tried.append(s.strategy)
        if s.strategy == CAREFUL:
            s.ask("Go on?", key="go")
        return fail(s.strategy)

    with perdure.open(path) as store:
        assert store.run(code, "s").status == "waiting"
        first, *_ = seqs_of(store, "s", "note")
    Rows(path, "s").spoil(first)
    with perdure.open(path) as store:
        outcome = store.run(code, "s")
        assert outcome.restored is not None
        other = outcome.restored.session
        store.answer(other, "go", "yes")
        outcome = store.run(code, other)
        assert outcome.status == "failed"
        assert tried == ["quick", "clever", CAREFUL, CAREFUL, CAREFUL, "last"]


@perdure.action(effect="repeatable")
def fail(how: Any) -> str:
    raise ValueError(f"{how} does not work")


def test_without_a_policy_a_strategy_is_what_the_newest_rollback_says(path: Path) -> None:
    @perdure.agent
    def plain(s: perdure.Session) -> Any:
        s.checkpoint("start")
        if s.strategy is None:
            s.rollback("start", strategy="short")
        tried.append(s.strategy)
        return s.ask("Good?", key="good")

    with perdure.open(path) as store:
        store.run(plain, "s")
        store.rollback("s", "start", strategy="other")
        store.run(plain, "s")
        store.rollback("s", "start")  # it comes to its own first way again
        store.run(plain, "s")
        assert tried == ["short", "other", "short"]


def test_driven_on_from_a_place_it_has_the_strategy_of_that_place(path: Path) -> None:
    @perdure.agent
    def plain(s: perdure.Session) -> Any:
        s.checkpoint("start")
        if s.strategy is None:
            s.rollback("start", strategy="short")
        build("careful")
        first = s.strategy
        s.ask("Good?", key="good")
        return first, s.strategy

    with perdure.open(path) as store:
        store.run(plain, "s")
        (built,) = [action.seq for action in store.detail("s").actions]
        store.answer("s", "good", "yes")
        assert store.run(plain, "s").result == ("short", "short")
        store.drive("s", fn=plain, into="d", result={built: "other"})
        store.answer("d", "good", "yes")
        assert store.run(plain, "d").result == ("short", "short")


# --- cancelled --------------------------------------------------------------------------------------------------------


async def cancelled(store: perdure.AgentStore, code: Any, *, at: asyncio.Event) -> None:
    at.clear()
    task = asyncio.ensure_future(store.arun(code, "s"))
    await at.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def waiting(there: asyncio.Event, *, times: int, inner: bool) -> Any:
    """An agent whose tool, or the tool of its tool, waits for ever the first times."""
    ran = Counter[str]()

    @perdure.action(effect="repeatable")
    async def look() -> str:
        ran["look"] += 1
        there.set()
        if ran["look"] <= times:
            await asyncio.Event().wait()
        return "seen"

    @perdure.action(effect="repeatable")
    async def outer(s: perdure.AsyncSession) -> Any:
        return await s.call(look)

    @perdure.agent(failures=FailurePolicy(after=2, strategies=("quick", "careful")))
    async def code(s: perdure.AsyncSession) -> Any:
        await s.checkpoint("start")
        return await (s.call(outer, s) if inner else s.call(look)), s.strategy

    return code


@pytest.mark.parametrize("inner", [False, True], ids=["of the agent", "inside of an action"])
def test_a_call_that_is_cut_short_has_not_failed(path: Path, inner: bool) -> None:  # noqa: FBT001
    async def run() -> perdure.Outcome:
        there = asyncio.Event()
        code = waiting(there, times=3, inner=inner)
        for _ in range(3):
            await cancelled(store, code, at=there)
        return await store.arun(code, "s")

    with perdure.open(path) as store:
        assert asyncio.run(run()).result == ("seen", "quick")
        assert (course(store).choices, course(store).last) == ([], None)


def test_a_run_that_is_cancelled_between_its_calls_has_not_failed(path: Path) -> None:
    async def run() -> perdure.Outcome:
        there = asyncio.Event()

        @perdure.agent(failures=POLICY)
        async def code(s: perdure.AsyncSession) -> Any:
            await s.checkpoint("start")
            tried.append(s.strategy)
            if len(tried) <= 2:
                there.set()
                await asyncio.Event().wait()
            return await s.call(build, s.strategy)

        for _ in range(2):
            await cancelled(store, code, at=there)
        assert course(store).last is None
        return await store.arun(code, "s")

    with perdure.open(path) as store:
        assert asyncio.run(run()).result == "built"
        assert [choice.do for choice in course(store).choices] == ["next"]


def test_what_had_failed_inside_of_a_call_that_was_cut_short_counts_when_it_runs_again(path: Path) -> None:
    """As it does after a kill; where the code itself has cut it short it is over."""

    async def run() -> perdure.Outcome:
        there, stopped = asyncio.Event(), []

        @perdure.action(effect="repeatable")
        async def swallowing(s: perdure.AsyncSession) -> str:
            for at in range(3):
                with pytest.raises(ValueError, match="quick"):
                    await s.call(build, "quick")
                if at == 0 and not stopped:
                    stopped.append(at)
                    there.set()
                    await asyncio.Event().wait()
            return "all swallowed"

        @perdure.agent(failures=FailurePolicy(after=2))
        async def code(s: perdure.AsyncSession) -> Any:
            return await s.call(swallowing, s)

        await cancelled(store, code, at=there)
        return await store.arun(code, "s")

    with perdure.open(path) as store:
        assert asyncio.run(run()).status == "failed"
        assert tried == ["quick", "quick"]
