"""Who may write: a stopped owner that wakes up late is refused, a dead one replaced at once, of two one wins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import FencedError, HeldError, ProcessForkedError
from perdure.log.action import Actions
from perdure.runtime.store import AgentStore
from perdure.session import scope
from perdure.stores import Store, open_store
from perdure.testing.broken import Passing, UncheckedHead, Unfenced
from tests.crash import outside
from tests.crash.agents import book, look, send
from tests.crash.outside import happens
from tests.crash.process import Child, Talk

LEASE_S = 0.5
Wrap = Callable[[Store], Store]


def opened(path: Path, wrap: Wrap = lambda store: store, *, lease_s: float = LEASE_S) -> AgentStore:
    return AgentStore(wrap(open_store(path / "agents.db")), lease_s=lease_s)


def holder(path: Path, wrap: Wrap) -> Callable[[Talk], None]:
    """Saves once, and tries to go on when it is told to."""

    def work(talk: Talk) -> None:
        session = opened(path, wrap).session("s")
        session.state["n"] = 1
        session.save()
        talk.say("saved")
        talk.hear()
        session.state["n"] = 99
        for attempt in (session.save, lambda: send("late"), lambda: book("late"), session.save):
            with session_scope(session):
                talk.say_error_of(attempt)

    return work


def session_scope(session: perdure.Session) -> Any:
    return scope.running(session)


def taken_over(path: Path, wrap: Wrap) -> tuple[list[str], AgentStore]:
    """What an owner is told that was stopped past its lease, and the store as the new owner leaves it."""
    store = opened(path)
    with Child(holder(path, wrap)) as child:
        assert child.hear() == "saved"
        child.stop()
        with pytest.raises(HeldError, match=f"pid {child.pid}"):
            store.session("s")
        with store.session("s", wait_s=10) as mine:
            assert mine.state["n"] == 1
            mine.state["n"] = 2
            mine.save()
            child.go_on()
            child.say("go on")
            told = [child.hear() for _ in range(4)]
            mine.state["n"] = 3
        return told, store


def test_an_owner_stopped_past_its_lease_is_refused_and_stays_refused(tmp_path: Path) -> None:
    told, store = taken_over(tmp_path, Passing)
    assert told == ["FencedError"] * 4
    assert store.state_at("s") == {"n": 3}
    assert outside.effects() == {}, "a fenced owner had an effect"
    assert {entry.epoch for entry in store.log("s")} == {1, 2}
    store.close()


def test_without_the_fence_the_bench_fails(tmp_path: Path) -> None:
    told, store = taken_over(tmp_path, Unfenced)
    assert told != ["FencedError"] * 4
    store.close()


def test_without_fence_and_head_the_log_is_torn(tmp_path: Path) -> None:
    with pytest.raises(perdure.PerdureError):
        list(taken_over(tmp_path, lambda store: UncheckedHead(Unfenced(store)))[1].log("s"))


def test_an_action_of_a_stopped_owner_is_in_doubt_and_its_outcome_is_refused(tmp_path: Path) -> None:
    def work(talk: Talk) -> None:
        def pay(amount: int) -> str:
            happens("pay")
            talk.say("paid")
            talk.hear()
            return "receipt"

        talk.say_error_of(lambda: opened(tmp_path).run(lambda s: s.call(pay, 3), "s"))

    def pay(amount: int) -> str:
        raise AssertionError("it may have happened: nobody pays again unasked")

    with Child(work) as child, opened(tmp_path) as store:
        assert child.hear() == "paid"
        child.stop()
        outcome = store.run(lambda s: s.call(pay, 3), "s", wait_s=10)
        assert outcome.status == "waiting"
        store.settle("s", outcome.questions[0].seq, "done", result="seen by the bank")
        child.go_on()
        child.say("go on")
        assert child.hear() == "FencedError"
        assert store.run(lambda s: s.call(pay, 3), "s").result == "seen by the bank"
        assert [a.attempts for a in Actions(store.log("s")).values()] == [1]
    assert outside.effects() == {"pay": 1}


@pytest.mark.parametrize("collect", [True, False], ids=["gone", "zombie"])
def test_a_dead_owner_is_replaced_at_once(tmp_path: Path, *, collect: bool) -> None:
    def work(talk: Talk) -> None:
        session = perdure.open(tmp_path / "agents.db").session("s")
        session.state["n"] = 1
        session.save()
        talk.say("saved")
        talk.hear()

    with Child(work) as child, perdure.open(tmp_path / "agents.db", lease_s=3600) as store:
        assert child.hear() == "saved"
        with pytest.raises(HeldError):
            store.session("s")
        assert store.info("s").status == "running"
        child.kill(collect=collect)
        assert store.info("s").status == "interrupted"
        with store.session("s", wait_s=0) as session:
            assert session.state["n"] == 1


def test_of_many_openers_one_wins(tmp_path: Path) -> None:
    def work(talk: Talk) -> None:
        store = perdure.open(tmp_path / "agents.db")
        talk.say("ready")
        talk.hear()
        talk.say_error_of(lambda: store.session("s"))
        talk.hear()

    perdure.open(tmp_path / "agents.db").close()
    for _ in range(3):
        with Child(work) as a, Child(work) as b, Child(work) as c:
            children = (a, b, c)
            assert [child.hear() for child in children] == ["ready"] * 3
            for child in children:
                child.say("go")
            assert sorted(child.hear() for child in children) == ["HeldError", "HeldError", "no error"]


def test_a_session_is_opened_once_in_a_process_too(tmp_path: Path) -> None:
    with opened(tmp_path) as store, store.session("s") as first:
        with pytest.raises(HeldError):
            store.session("s")
        first.state["n"] = 1


def test_who_waits_gets_it_when_it_is_given_back(tmp_path: Path) -> None:
    def work(talk: Talk) -> None:
        talk.say("waiting")
        with perdure.open(tmp_path / "agents.db", lease_s=3600).session("s", wait_s=20) as session:
            talk.say(str(session.state["n"]))

    with perdure.open(tmp_path / "agents.db", lease_s=3600) as store:
        session = store.session("s")
        session.state["n"] = 1
        with Child(work) as child:
            assert child.hear() == "waiting"
            session.end()
            session.close()
            assert child.hear() == "1"


def test_a_long_action_keeps_its_lease(tmp_path: Path) -> None:
    lease_s = 1.0

    def work(talk: Talk) -> None:
        def lasts() -> str:
            talk.say("begun")
            return talk.hear()

        talk.say(str(opened(tmp_path, lease_s=lease_s).run(lambda s: s.call(lasts), "s").result))

    with Child(work) as child, opened(tmp_path, lease_s=lease_s) as store:
        assert child.hear() == "begun"
        with pytest.raises(HeldError, match=r"waited 2\.5 s"):
            store.session("s", wait_s=2.5 * lease_s)
        child.say("enough")
        assert child.hear() == "enough"


def test_a_fork_gets_no_handle(tmp_path: Path) -> None:
    with opened(tmp_path) as store, store.session("s") as session:
        session.state["n"] = 1
        session.save()

        def work(talk: Talk) -> None:
            for use in (
                session.save,
                lambda: session.state,
                lambda: session.call(look, 1),
                session.now,
                lambda: session.rollback(0),
                session.end,
                lambda: store.session("other"),
                lambda: store.run(lambda s: None, "other"),
            ):
                talk.say_error_of(use)
            talk.say_error_of(session.close)
            mine = opened(tmp_path)
            talk.say_error_of(lambda: mine.session("s"))
            with mine.session("other") as other:
                other.state["of"] = "the child"
            talk.say("saved")

        with Child(work) as child:
            assert [child.hear() for _ in range(8)] == [ProcessForkedError.__name__] * 8
            assert [child.hear() for _ in range(3)] == ["no error", HeldError.__name__, "saved"]
        session.state["n"] = 2
        session.save()
        assert store.state_at("other") == {"of": "the child"}
    assert outside.effects() == {}


def test_a_fenced_session_raises_the_same_in_a_finally(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        session = store.session("s")
        backend = store.backend
        backend.claim("s", owner="thief", seen=backend.lease("s"))
        with session_scope(session):
            with pytest.raises(FencedError):
                send("x")
            with pytest.raises(FencedError):
                look(1)
            with pytest.raises(FencedError):
                session.save()
        session.close()
        assert backend.lease("s").owner == "thief"
    assert outside.effects() == {}
