"""Sessions that a session starts: their results and failures, what reaches them through it, and the links."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import perdure
from perdure.errors import (
    ChildFailedError,
    KeyReusedError,
    RefusedError,
    SessionErasedError,
    SessionExistsError,
    SuspendedError,
)

DONE: list[str] = []


@perdure.action(effect="idempotent")
def pay(what: Any) -> Any:
    DONE.append(f"pay {what}")
    return what


@perdure.action(effect="repeatable")
def look(what: Any) -> Any:
    DONE.append(f"look {what}")
    return what


def payer(s: perdure.Session) -> Any:
    return pay(s.input)


def looker(s: perdure.Session) -> Any:
    return look(s.input)


def asker(s: perdure.Session) -> Any:
    pay("before")
    return s.ask("Go on?", key="q")


def receiver(s: perdure.Session) -> Any:
    return s.receive()


class OutOfMoneyError(Exception):
    pass


BROKEN = [True]


def breaks(s: perdure.Session) -> str:
    pay("first")
    if BROKEN[0]:
        raise OutOfMoneyError("nothing left")
    return "it works now"


@pytest.fixture
def store(tmp_path) -> Iterator[perdure.AgentStore]:
    DONE.clear()
    BROKEN[0] = True
    with perdure.open(str(tmp_path / "agents.db")) as opened:
        yield opened


# --- results and failures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 3])
def test_results_are_in_order_and_answered_from_then_on(store, count: int) -> None:
    def agent(s: perdure.Session) -> list[int]:
        children = [s.spawn(payer, input=n, key=f"n{n}") for n in range(count)]
        return [child.result() + child.result() for child in children]

    assert store.run(agent, "q").result == [2 * n for n in range(count)]
    assert sorted(DONE) == [f"pay {n}" for n in range(count)]
    assert {i.id: i.parent for i in store.sessions() if i.id != "q"} == {f"q/n{n}": "q" for n in range(count)}
    names = [a.call for a in store.detail("q").actions]
    assert names.count("wait(child='q/n0')") == min(count, 1)
    assert all(store.verify(info.id, read_data=True).ok for info in store.sessions())


def test_they_run_at_once(store) -> None:
    all_there = threading.Barrier(3)

    def child(s: perdure.Session) -> str:
        s.action(all_there.wait, effect="repeatable", name="meet")()
        return s.id

    def agent(s: perdure.Session) -> list[str]:
        children = [s.spawn(child, key=str(n)) for n in range(3)]
        return [one.result() for one in children]

    assert store.run(agent, "q").result == ["q/0", "q/1", "q/2"]


def test_children_of_children(store) -> None:
    def middle(s: perdure.Session) -> int:
        return sum(s.spawn(payer, input=s.input + n, key=f"leaf{n}").result() for n in range(2))

    def agent(s: perdure.Session) -> list[int]:
        children = [s.spawn(middle, input=10 * n, key=f"m{n}") for n in range(2)]
        return [child.result() for child in children]

    assert store.run(agent, "q").result == [1, 21]
    assert {i.id for i in store.sessions(parent="q")} == {"q/m0", "q/m1"}
    assert {i.id for i in store.sessions(parent="q/m1")} == {"q/m1/leaf0", "q/m1/leaf1"}


def test_a_child_beside_the_calls_of_a_block(store) -> None:
    def agent(s: perdure.Session) -> list[int]:
        with s.parallel() as p:
            one = p.call(look, 1)
            child = s.spawn(payer, input=2, key="k")
            three = p.call(look, 3)
            return [one.result(), child.result(), three.result()]

    assert store.run(agent, "q").result == [1, 2, 3]
    assert store.run(agent, "q").result == [1, 2, 3]


def test_steps_meet_the_child_of_a_key_again(store) -> None:
    @perdure.steps
    def worker(s: perdure.Session) -> None:
        child = s.spawn(payer, input=4, key="k")
        s.state["steps"] = s.state.get("steps", 0) + 1
        if s.state["steps"] == 3:
            s.complete(child.result())

    assert store.run(worker, "q").result == 4
    assert DONE == ["pay 4"]


def test_an_async_session_awaits_children_of_both_kinds(store) -> None:
    async def child(s: perdure.AsyncSession) -> Any:
        return await s.call(pay, s.input)

    async def agent(s: perdure.AsyncSession) -> list[Any]:
        one = await s.spawn(child, input=1, key="one")
        two = await s.spawn(payer, input=2, key="two")
        return [*await asyncio.gather(one, two), await two.result()]

    assert asyncio.run(store.arun(agent, "q")).result == [1, 2, 2]
    assert asyncio.run(store.arun(agent, "q")).result == [1, 2, 2]
    assert sorted(DONE) == ["pay 1", "pay 2"]


def test_a_failure_is_raised_the_same_live_and_replayed(store) -> None:
    def agent(s: perdure.Session) -> Any:
        try:
            s.spawn(breaks, key="b").result()
        except ChildFailedError as error:
            s.state["why"] = [type(error).__name__, str(error), error.child, error.status, error.kind, error.text]
        look("after")
        if BROKEN[0]:
            raise RuntimeError("once more from the top")
        return s.state["why"]

    assert store.run(agent, "q").status == "failed"
    BROKEN[0] = False  # what the code caught is the outcome: nothing runs the child again
    told = ["ChildFailedError", "q/b failed: OutOfMoneyError: nothing left", "q/b", "failed"]
    assert store.run(agent, "q").result == [*told, "OutOfMoneyError", "nothing left"]
    assert store.info("q/b").status == "failed"
    assert DONE == ["pay first", "look after"]


def test_a_failure_that_ends_the_run_is_tried_again_with_it(store) -> None:
    def agent(s: perdure.Session) -> Any:
        return s.spawn(breaks, key="b").result()

    outcome = store.run(agent, "q")
    assert outcome.status == "failed"
    assert isinstance(outcome.error, ChildFailedError)
    BROKEN[0] = False
    assert store.run(agent, "q").result == "it works now"
    assert DONE == ["pay first"]


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_a_child_that_waits_for_a_person_makes_its_parent_wait(store) -> None:
    def agent(s: perdure.Session) -> Any:
        return s.spawn(asker, key="a").result()

    outcome = store.run(agent, "q")
    assert outcome.status == store.info("q").status == "waiting"
    (question,) = outcome.questions
    assert (question.session, question.prompt) == ("q/a", "Go on?")
    store.answer(question.session, question.seq, "yes")
    assert store.run(agent, "q").result == "yes"
    assert DONE == ["pay before"]


def test_while_one_waits_the_others_come_to_their_end(store) -> None:
    def agent(s: perdure.Session) -> Any:
        asks, pays = s.spawn(asker, key="a"), s.spawn(payer, input=1, key="p")
        return [asks.result(), pays.result()]

    assert store.run(agent, "q").status == "waiting"
    assert store.info("q/p").status == "completed"


def test_a_child_without_messages_makes_its_parent_idle(store) -> None:
    def agent(s: perdure.Session) -> Any:
        return s.spawn(receiver, key="r").result()

    assert store.run(agent, "q").status == store.info("q").status == "idle"
    store.send("q/r", "hello")
    assert store.run(agent, "q").result == "hello"


def test_a_handle_says_that_it_waits(store) -> None:
    with pytest.raises(SuspendedError, match="q/a"), store.session("q") as s:
        s.spawn(asker, key="a").result()
    store.answer("q/a", "q", "yes")
    with store.session("q") as s:
        assert s.spawn(asker, key="a").result() == "yes"


def test_a_session_is_not_completed_while_a_child_is_not_over(store) -> None:
    def agent(s: perdure.Session) -> str:
        s.spawn(asker, key="a")
        s.spawn(breaks, key="b")
        return "done"

    assert store.run(agent, "q").status == "waiting"
    store.answer("q/a", "q", "no")
    assert store.run(agent, "q").result == "done"
    assert {i.id: i.status for i in store.sessions(parent="q")} == {"q/a": "completed", "q/b": "failed"}


# --- keys and ids -----------------------------------------------------------------------------------------------------


def test_a_key_is_one_child(store) -> None:
    def agent(s: perdure.Session) -> Any:
        return [s.spawn(payer, input=1, key="k").result(), s.spawn(payer, input=1, key="k").result()]

    assert store.run(agent, "q").result == [1, 1]
    assert DONE == ["pay 1"]


@pytest.mark.parametrize(("fn", "given"), [(payer, 2), (looker, 1)])
def test_another_child_under_the_same_key_is_refused(store, fn, given) -> None:
    def agent(s: perdure.Session) -> Any:
        s.spawn(payer, input=1, key="k").result()
        return s.spawn(fn, input=given, key="k").result()

    assert isinstance(store.run(agent, "q").error, KeyReusedError)


@pytest.mark.parametrize("key", ["", "a/b", "a~2", "x" * 300])
def test_what_is_no_key_is_refused(store, key: str) -> None:
    with store.session("q") as s, pytest.raises(RefusedError, match="key"):
        s.spawn(payer, input=1, key=key)


def test_a_session_of_that_id_that_came_from_elsewhere_is_left_alone(store) -> None:
    store.run(payer, "q/k", input=1)

    def agent(s: perdure.Session) -> Any:
        return s.spawn(payer, input=1, key="k").result()

    assert isinstance(store.run(agent, "q").error, SessionExistsError)
    assert DONE == ["pay 1"]


def test_inside_an_action_it_is_refused(store) -> None:
    def agent(s: perdure.Session) -> str:
        child = s.spawn(payer, input=1, key="k")

        @perdure.action(effect="repeatable")
        def tool(what: str) -> str:
            with pytest.raises(RefusedError, match="inside an action"):
                s.spawn(payer, input=1, key="l") if what == "spawn" else child.result()
            return what

        return tool("spawn") + tool("wait")

    assert store.run(agent, "q").result == "spawnwait"


# --- rollback ---------------------------------------------------------------------------------------------------------


def test_a_rollback_cancels_what_was_started_since(store) -> None:
    def agent(s: perdure.Session) -> Any:
        first = s.spawn(looker, input=1, key="first").result()
        s.checkpoint("start")
        if s.strategy is None:
            s.spawn(receiver, key="second")
            s.rollback("start", strategy="other")
        return [first, s.spawn(looker, input=2, key="second").result()]

    assert store.run(agent, "q").result == [1, 2]
    found = {info.id: info.status for info in store.sessions(parent="q")}
    assert found == {"q/first": "completed", "q/second": "cancelled", "q/second~2": "completed"}
    assert "rolled back" in store.info("q/second").reason
    assert store.detail("q").standing == ()


def test_a_child_whose_effects_stand_stays_the_child_of_its_key(store) -> None:
    def agent(s: perdure.Session) -> Any:
        s.checkpoint("start")
        child = s.spawn(payer, input=1, key="k").result()
        if s.strategy is None:
            s.rollback("start", strategy="other")
        return child

    assert store.run(agent, "q").result == 1
    assert DONE == ["pay 1"]
    (stands,) = store.detail("q").standing
    assert "spawn" in stands.call


def test_it_is_started_again_where_the_code_says_so(store) -> None:
    def agent(s: perdure.Session) -> Any:
        s.checkpoint("start")
        child = s.spawn(payer, input=s.strategy, key="k", after_rollback="again")
        if s.strategy is None:
            child.result()
            s.rollback("start", strategy="other")
        return child.id, child.result()

    assert store.run(agent, "q").result == ("q/k~2", "other")
    assert DONE == ["pay None", "pay other"]


def test_a_cancelled_child_whose_effects_stand_is_not_started_again_by_itself(store) -> None:
    def agent(s: perdure.Session) -> Any:
        s.checkpoint("start")
        child = s.spawn(asker, key="k")
        if s.strategy is None:
            while store.info("q").id and not any(i.status == "waiting" for i in store.sessions(parent="q")):
                threading.Event().wait(0.01)
            s.rollback("start", strategy="other")
        try:
            return child.result()
        except ChildFailedError as error:
            return error.status

    assert store.run(agent, "q").result == "cancelled"
    assert DONE == ["pay before"]
    assert "spawn" in store.detail("q").standing[0].call


def test_a_person_rolls_back_and_the_children_are_cancelled_before_it_goes_on(store) -> None:
    def agent(s: perdure.Session) -> Any:
        s.checkpoint("start")
        return s.spawn(receiver, key="r").result()

    assert store.run(agent, "q").status == "idle"
    store.rollback("q", "start")
    assert store.run(agent, "q").status == "idle"
    found = {info.id: info.status for info in store.sessions(parent="q")}
    assert found == {"q/r": "cancelled", "q/r~2": "idle"}


# --- what reaches them through their parent ---------------------------------------------------------------------------


@pytest.mark.parametrize(("what", "status"), [("pause", "paused"), ("cancel", "cancelled")])
def test_pause_and_cancel_reach_the_children(store, what: str, status: str) -> None:
    def middle(s: perdure.Session) -> Any:
        return s.spawn(receiver, key="r").result()

    def agent(s: perdure.Session) -> Any:
        return s.spawn(middle, key="m").result()

    assert store.run(agent, "q").status == "idle"
    getattr(store, what)("q", reason="enough", by="ada")
    assert {info.id: info.status for info in store.sessions()} == dict.fromkeys(["q", "q/m", "q/m/r"], status)
    assert store.info("q/m/r").reason == f"{status} by ada: with q: enough"
    if what == "pause":
        store.send("q/m/r", "hello")
        assert store.run(agent, "q").result == "hello"


@pytest.mark.parametrize(("what", "status"), [("pause", "paused"), ("cancel", "cancelled")])
def test_they_reach_children_that_run(store, what: str, status: str) -> None:
    there = threading.Event()

    def child(s: perdure.Session) -> Any:
        s.action(there.set, effect="repeatable", name="there")()
        return s.receive(wait_s=60)

    def agent(s: perdure.Session) -> Any:
        return s.spawn(child, key="c").result()

    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(store.run(agent, "q")))
    thread.start()
    there.wait()
    getattr(store, what)("q", by="ada")
    thread.join()
    assert outcomes[0].status == status
    assert {info.id: info.status for info in store.sessions()} == dict.fromkeys(["q", "q/c"], status)


def test_a_stop_of_the_run_reaches_the_children(store) -> None:
    there = threading.Event()

    def child(s: perdure.Session) -> Any:
        s.action(there.set, effect="repeatable", name="there")()
        return s.receive(wait_s=60)

    def agent(s: perdure.Session) -> Any:
        one = s.spawn(child, key="c")
        there.wait()
        s.stop("SIGTERM")
        return one.result()

    assert store.run(agent, "q").status == "paused"
    assert {info.id: info.status for info in store.sessions()} == {"q": "paused", "q/c": "paused"}
    store.send("q/c", 5)
    assert store.info("q/c").status == "paused"


def test_a_child_that_was_cancelled_by_itself_is_an_error_of_its_parent(store) -> None:
    def agent(s: perdure.Session) -> Any:
        return s.spawn(receiver, key="r").result()

    assert store.run(agent, "q").status == "idle"
    store.cancel("q/r", reason="not needed")
    outcome = store.run(agent, "q")
    assert isinstance(outcome.error, ChildFailedError)
    assert outcome.error.status == "cancelled"


def test_erase_reaches_the_children(store) -> None:
    def middle(s: perdure.Session) -> Any:
        return s.spawn(payer, input=1, key="p").result()

    def agent(s: perdure.Session) -> Any:
        return s.spawn(middle, key="m").result()

    store.run(agent, "q")
    assert store.would_erase("q") == ("q/m/p", "q/m", "q")
    assert store.erase("q").sessions == ("q/m/p", "q/m", "q")
    assert store.sessions() == []
    for session in ("q", "q/m", "q/m/p"):
        with pytest.raises(SessionErasedError):
            store.info(session)


# --- forks ------------------------------------------------------------------------------------------------------------


def test_a_fork_shares_the_children_of_its_base_and_has_its_own(store) -> None:
    def agent(s: perdure.Session) -> Any:
        first = s.spawn(payer, input=1, key="first")
        s.checkpoint("middle")
        return [first.result(), s.spawn(payer, input=2, key="second").result()]

    assert store.run(agent, "q").result == [1, 2]
    store.fork("q", at="middle", into="f")
    assert store.run(agent, "f").result == [1, 2]
    assert DONE == ["pay 1", "pay 2", "pay 2"]
    assert [info.id for info in store.sessions(parent="q")] == ["q/second", "q/first"]
    assert [info.id for info in store.sessions(parent="f")] == ["f/second"]


def test_a_rollback_in_a_fork_leaves_the_children_of_its_base(store) -> None:
    def agent(s: perdure.Session) -> Any:
        s.checkpoint("start")
        if s.strategy is not None:
            return s.strategy
        return s.spawn(receiver, key="r").result()

    assert store.run(agent, "q").status == "idle"
    store.fork("q", into="f")
    store.rollback("f", "start")
    assert store.run(agent, "f").status == "idle"
    assert store.info("q/r").status == "idle"


def test_a_rollback_by_a_person_ends_a_child_that_runs_elsewhere_at_once(store) -> None:
    """Through its inbox, not only when the parent is opened again."""
    there, go_on = threading.Event(), threading.Event()

    def long(s: perdure.Session) -> None:
        s.receive()
        s.action(there.set, effect="repeatable", name="arrive")()
        s.action(lambda: go_on.wait(60), effect="repeatable", name="work")()
        pay("too late")

    def agent(s: perdure.Session) -> None:
        s.checkpoint("start")
        s.spawn(long, key="k").result()

    def owner() -> None:
        with perdure.open(store.url) as other:
            ended.append(other.run(long, "q/k").status)

    ended: list[str] = []
    assert store.run(agent, "q").status == "idle"
    store.send("q/k", "go")
    runs = threading.Thread(target=owner)
    runs.start()
    there.wait(60)
    assert store.info("q/k").owner
    store.rollback("q", "start", reason="another way")
    go_on.set()
    runs.join(60)
    assert ended == ["cancelled"]
    assert store.info("q/k").status == "cancelled"
    assert DONE == []
