"""Trying again, and time limits: each attempt is a record, and none is unknown to the log."""

from __future__ import annotations

import asyncio
import threading

import pytest

import perdure
from perdure import limits
from perdure.errors import RefusedError
from perdure.log.action import Actions
from perdure.session.rules import backoff
from perdure.session.rules.backoff import backoff_s


@pytest.fixture
def store():
    with perdure.open("memory:") as opened:
        yield opened


@pytest.fixture
def ended():
    """Lets everything that a test left hanging come to its end."""
    event = threading.Event()
    yield event
    event.set()


def journal(store, session="s"):
    return [e for e in store.log(session) if e.kind in ("action_started", "action_finished")]


def test_the_wait_doubles_up_to_a_bound_and_is_never_the_same():
    for failures in range(1, 30):
        waits = {backoff_s(failures, first_s=0.5) for _ in range(8)}
        least = min(0.5 * 2 ** (failures - 1), limits.BACKOFF_S_MAX)
        assert all(least <= wait <= min(least + 0.5, limits.BACKOFF_S_MAX) for wait in waits)
        assert len(waits) > 1 or least == limits.BACKOFF_S_MAX
    assert backoff_s(3, first_s=0.0) == 0.0


def test_the_tries_of_a_call_wait_longer_each_time(store, monkeypatch):
    waits = []

    def noted(failures, *, first_s):
        waits.append(failures)
        return 0.0

    monkeypatch.setattr("perdure.session.rules.core.backoff_s", noted)
    tried = []

    def flaky():
        tried.append(1)
        if len(tried) < 4:
            raise ConnectionError
        return "up"

    with store.session("s") as s:
        assert s.action(flaky, effect="repeatable", retries=5)() == "up"
    assert waits == [1, 2, 3]
    assert backoff.backoff_s(2, first_s=0.001) > 0


def test_a_run_that_is_stopped_while_it_waits_goes_on_later(store):
    tried = []

    def flaky():
        tried.append(1)
        if len(tried) == 1:
            running[0].stop("enough for today")
            raise ConnectionError
        return "up"

    running = []

    def agent(s):
        running.append(s)
        return s.action(flaky, effect="repeatable", retries=1, backoff_s=3600)()

    assert store.run(agent, "s").status == "paused"
    assert store.run(agent, "s").result == "up"
    assert len(tried) == 2


def test_a_command_is_obeyed_while_it_waits(store):
    def flaky():
        store.cancel("s", reason="not needed")
        raise ConnectionError

    outcome = store.run(lambda s: s.action(flaky, effect="repeatable", retries=1, backoff_s=3600)(), "s")
    assert outcome.status == "cancelled"


@pytest.mark.parametrize("effect", ["repeatable", "idempotent"])
def test_what_takes_too_long_and_may_run_again_is_an_error_of_that_call(store, ended, effect):
    def hangs():
        ended.wait()

    def agent(s):
        try:
            s.action(hangs, effect=effect, timeout_s=0.01)()
        except TimeoutError as error:
            return str(error)
        return "done"

    assert store.run(agent, "s").result == "hangs() took longer than 0.01 s"
    (finished,) = [e for e in journal(store) if e.kind == "action_finished"]
    assert finished["how"] == "error"


def test_it_is_raised_again_on_a_replay_and_nothing_runs(store, ended):
    ran = []

    def hangs():
        ran.append(1)
        ended.wait()

    def agent(s):
        with pytest.raises(TimeoutError):
            s.action(hangs, effect="repeatable", timeout_s=0.01)()
        if len(ran) == 1 and not again:
            again.append(1)
            raise ValueError("later")
        return "done"

    again = []
    assert store.run(agent, "s").status == "failed"
    assert store.run(agent, "s").result == "done"
    assert ran == [1]


def test_what_takes_too_long_is_tried_again(store, ended):
    ran = []

    def hangs_once():
        ran.append(1)
        if len(ran) == 1:
            ended.wait()
        return "done"

    with store.session("s") as s:
        assert s.action(hangs_once, effect="idempotent", timeout_s=0.05, retries=1, backoff_s=0)() == "done"
    assert [e.kind for e in journal(store)] == ["action_started", "action_finished"] * 2


def test_what_takes_too_long_and_must_not_run_twice_is_in_doubt(store, ended):
    def hangs():
        ended.wait()

    def agent(s):
        try:
            s.action(hangs, effect="once", timeout_s=0.01)()
        except Exception:  # noqa: BLE001 - the code must not see it before a person has decided
            return "the code saw it"
        return "done"

    outcome = store.run(agent, "s")
    assert outcome.status == "waiting"
    store.settle("s", outcome.questions[0].seq, "done")
    assert store.run(agent, "s").result == "done"


def test_an_attempt_that_was_left_to_itself_can_call_nothing(store, ended):
    told = []
    tried = threading.Event()

    def inner():
        told.append("ran")

    def hangs(s):
        ended.wait()
        try:
            s.call(inner)
        except RefusedError as error:
            told.append(str(error))
        tried.set()

    with store.session("s") as s:
        with pytest.raises(TimeoutError):
            s.action(hangs, effect="repeatable", timeout_s=0.01)(s)
        ended.set()
        assert tried.wait(30)
    assert told == ["s: the time of this attempt is over; it cannot call anything any more"]


def test_calls_inside_of_one_with_a_limit_are_recorded_as_ever(store):
    def inner(n):
        return n + 1

    def outer(s):
        return s.call(inner, 1)

    with store.session("s") as s:
        assert s.action(outer, effect="repeatable", timeout_s=60)(s) == 2
    outer_, inner_ = Actions(store.log("s")).values()
    assert inner_.parent == outer_.seq


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
def test_in_an_event_loop(store, ended, kind):
    cancelled = []

    async def hangs():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    def waits():
        ended.wait()

    async def agent(s):
        fn = hangs if kind == "coroutine" else waits
        try:
            await s.action(fn, effect="repeatable", timeout_s=0.01, retries=1, backoff_s=0.001)()
        except TimeoutError as error:
            return str(error)
        return "done"

    assert "took longer than 0.01 s" in asyncio.run(store.arun(agent, "s")).result
    assert len(cancelled) == (2 if kind == "coroutine" else 0)
    assert [e.kind for e in journal(store)] == ["action_started", "action_finished"] * 2


def test_the_deadline_is_recorded_and_a_doubt_is_decided_after_it(store, monkeypatch):
    """The former owner may still be at it, if it is not provably gone."""
    asked = []

    def verify():
        asked.append(1)
        return perdure.NotDone()

    def die():
        raise KeyboardInterrupt

    def agent(s):
        return s.action(ran.pop(0), effect="once", timeout_s=0.2, verify=verify, name="pay")()

    ran = [die, lambda: "paid"]
    with pytest.raises(KeyboardInterrupt):
        store.run(agent, "s")
    waited = []

    def noted(request, *, go_on):
        waited.append(request)

    monkeypatch.setattr("perdure.session.driver.pass_time", noted)
    assert store.run(agent, "s").result == "paid"
    assert asked == [1]
    assert all(0 < request.wait_s <= 0.2 and "pid" in request.owner for request in waited)
    assert len(waited) == 1


@pytest.mark.parametrize("wrong", [{"timeout_s": 0}, {"timeout_s": -1.0}, {"retries": -1}, {"backoff_s": -0.1}])
def test_options_that_make_no_sense_are_refused(store, wrong):
    with store.session("s") as s, pytest.raises(RefusedError, match=next(iter(wrong))):
        s.action(print, **wrong)
