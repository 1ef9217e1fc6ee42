"""Attempts whose time is over, or whose code did not wait for all it began: what is inside is not done twice (R11)."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

import perdure
from perdure.session import scope

TIME_S = 0.5
"""How long an attempt may take: the first blocks for as long, those after it have much less to do."""
WAIT_S = 30.0

DONE: Counter[str] = Counter()


class Stage:
    """What the attempts of one test tell each other."""

    def __init__(self) -> None:
        self.go_on, self.first = threading.Event(), list[threading.Thread]()
        self.refused: list[Exception] = []

    def enter(self) -> bool:
        """Whether this is the first attempt, which then waits until it is told to go on."""
        self.first.append(threading.current_thread())
        if len(self.first) > 1:
            return False
        assert self.go_on.wait(WAIT_S)
        return True

    def end_first(self) -> None:
        self.go_on.set()
        self.first[0].join(WAIT_S)
        assert not self.first[0].is_alive()


@pytest.fixture
def stage():
    DONE.clear()
    made = Stage()
    yield made
    made.go_on.set()


@pytest.fixture
def store():
    with perdure.open("memory:") as opened:
        yield opened


def here() -> perdure.Session:
    session = scope.current("a test")
    assert isinstance(session, perdure.Session)
    return session


def pay(amount: int) -> int:
    DONE["pay"] += 1
    return amount


def test_what_an_attempt_inside_is_left_to_cannot_pay_any_more(store, stage):
    def order() -> int:
        is_first = stage.enter()
        try:
            return here().action(pay, effect="once")(5)
        except perdure.errors.RefusedError as refused:
            assert is_first
            stage.refused.append(refused)
            raise

    def buy() -> int:
        return here().action(order, effect="repeatable", timeout_s=WAIT_S)()

    def agent(s):
        paid = s.action(buy, effect="repeatable", timeout_s=TIME_S, retries=1, backoff_s=0.0)()
        stage.end_first()
        return paid

    assert store.run(agent, "a").result == 5
    assert DONE == {"pay": 1}
    assert len(stage.refused) == 1


def test_a_late_result_does_not_take_the_place_of_the_one_that_counts(store, stage):
    def ask() -> str:
        return "late" if stage.enter() else "in time"

    attempts = []

    def answer() -> str:
        attempts.append(here().action(ask, effect="repeatable")())
        stage.end_first()
        if len(attempts) == 1:
            raise ConnectionError
        return attempts[-1]

    def agent(s):
        return s.action(answer, effect="repeatable", timeout_s=TIME_S, retries=2, backoff_s=0.0)()

    assert store.run(agent, "a").result == "in time"
    assert attempts == ["in time", "in time"]


def test_what_is_left_to_itself_is_not_tried_again_there(store, stage):
    by = []

    def order() -> str:
        by.append(threading.current_thread())
        if stage.enter():
            raise ConnectionError
        return "ordered"

    def buy() -> str:
        return here().action(order, effect="once", not_done=(ConnectionError,), retries=5, backoff_s=0.0)()

    def agent(s):
        try:
            s.action(buy, effect="repeatable", timeout_s=TIME_S)()
        except TimeoutError:
            stage.end_first()

    assert store.run(agent, "a").status == "completed"
    assert len(by) == 1


def test_nobody_is_asked_about_what_still_goes_on(store, stage):
    asked = []

    def look(amount: int) -> perdure.NotDone:
        asked.append(amount)
        return perdure.NotDone()

    def pay_slowly(amount: int) -> int:
        stage.enter()
        return pay(amount)

    def buy() -> int:
        return here().action(pay_slowly, effect="once", verify=look)(5)

    def agent(s):
        return s.action(buy, effect="repeatable", timeout_s=TIME_S, retries=1, backoff_s=0.0)()

    assert store.run(agent, "a").status == "waiting"
    assert (asked, DONE) == ([], {})
    stage.end_first()
    assert store.run(agent, "a").result == 5  # it is over, so it can be looked for
    assert asked == [5]


def test_an_attempt_after_one_whose_time_was_over_may_ask_another_one(store, stage):
    def ask(model: str) -> str:
        stage.enter()
        return model

    def answer() -> tuple[int, str]:
        paid = here().action(pay, effect="once")(5)
        model = "small" if stage.first else "large"
        return paid, here().action(ask, effect="repeatable")(model)

    def agent(s):
        return s.action(answer, effect="repeatable", timeout_s=TIME_S, retries=1, backoff_s=0.0)()

    outcome = store.run(agent, "a")
    assert (outcome.result, outcome.error) == ((5, "small"), None)
    assert DONE == {"pay": 1}


def test_one_that_may_have_paid_when_its_time_was_over_is_not_passed_by(store, stage):
    def order(what: str) -> str:
        stage.enter()
        return what

    def buy() -> str:
        return here().action(order, effect="once")("second" if stage.first else "first")

    def agent(s):
        return s.action(buy, effect="repeatable", timeout_s=TIME_S, retries=1, backoff_s=0.0)()

    assert isinstance(store.run(agent, "a").error, perdure.errors.DivergedError)
    assert len(stage.first) == 1


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("effect", ["repeatable", "idempotent", "once"])
def test_a_coroutine_whose_time_is_over_while_a_call_of_it_goes_on(store, stage, effect, grouped):
    async def ask() -> str:
        DONE["ask"] += 1
        if DONE["ask"] == 1:
            await asyncio.Event().wait()
        return "answer"

    async def answer() -> str:
        asking = scope.current("a test").action(ask, effect=effect)
        if not grouped:
            return await asking()
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(asking())
        return asked.result()

    async def agent(s):
        return await s.action(answer, effect="repeatable", timeout_s=TIME_S, retries=1, backoff_s=0.0)()

    outcome = asyncio.run(store.arun(agent, "a"))
    if effect == "once":
        assert (outcome.status, DONE["ask"]) == ("waiting", 1)
    else:
        assert (outcome.result, outcome.error, DONE["ask"]) == ("answer", None, 2)
    first = next(line for line in store.journal("a") if line["action"] == "answer")
    assert first["error"]["class"] == "builtins:TimeoutError"


@pytest.mark.parametrize("effect", ["repeatable", "idempotent", "once"])
def test_what_the_code_did_not_wait_for_ends_before_the_next_attempt(store, stage, effect):
    goes_on = {}

    async def order() -> str:
        session = scope.current("a test")
        first = await session.action(len, effect="repeatable")("one")
        goes_on["begun"].set()
        await goes_on["end"].wait()
        DONE["order"] += 1
        return f"{first} {await session.action(len, effect='repeatable')('three')}"

    async def fail() -> None:
        await goes_on["begun"].wait()
        asyncio.get_running_loop().call_later(0.05, goes_on["end"].set)
        raise ConnectionError

    async def buy() -> str:
        session = scope.current("a test")
        ordered = asyncio.ensure_future(session.action(order, effect=effect)())
        if not goes_on["end"].is_set():
            await session.action(fail, effect="repeatable")()
        return await ordered

    async def agent(s):
        goes_on.update(begun=asyncio.Event(), end=asyncio.Event())
        return await s.action(buy, effect="repeatable", retries=2, backoff_s=0.0)()

    outcome = asyncio.run(store.arun(agent, "a"))
    assert (outcome.result, outcome.error) == ("3 5", None)
    assert DONE == {"order": 1}
