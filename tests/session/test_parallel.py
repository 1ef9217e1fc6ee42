"""Calls made in parallel blocks: what is claimed, what waits, what is drained, what is refused."""

from __future__ import annotations

import itertools
import threading
from collections import Counter

import pytest

import perdure
from perdure import errors
from perdure.errors import Leaving


class Killed(BaseException):
    """Stands for the end of the process inside of a tool."""


class Office:
    """Tools that count how often they ran; `dying` are the arguments with which a tool does not come to its end."""

    def __init__(self) -> None:
        self.ran: Counter[int] = Counter()
        self.dying: set[int] = set()

    def work(self, n: int) -> str:
        if n in self.dying:
            raise Killed
        self.ran[n] += 1
        return f"done {n}"


@pytest.fixture
def store():
    with perdure.open("memory:") as opened:
        yield opened


def repeatable(fn):
    return perdure.action(effect="repeatable")(fn)


def entries(store, kind):
    return [entry for entry in store.log("s") if entry.kind == kind]


@pytest.mark.parametrize("effect", ["repeatable", "idempotent", "once"])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_whatever_part_of_the_calls_had_ended_only_the_others_run_again(effect, k):
    for ended in itertools.chain.from_iterable(itertools.combinations(range(k), n) for n in range(k + 1)):
        office = Office()

        def agent(s, office=office):
            with s.parallel() as p:
                promises = [p.action(office.work, effect=effect)(n) for n in range(k)]
            return [promise.result() for promise in promises]

        with perdure.open("memory:") as store:
            office.dying = set(range(k)) - set(ended)
            if office.dying:
                with pytest.raises(Killed):
                    store.run(agent, "s")
            office.dying = set()
            outcome = store.run(agent, "s")
            if effect == "once" and len(ended) < k:
                assert [question.kind for question in outcome.questions] == ["doubt"] * (k - len(ended))
                for question in outcome.questions:
                    store.settle("s", question.seq, "not-done")
                outcome = store.run(agent, "s")
            assert outcome.result == [f"done {n}" for n in range(k)]
        assert office.ran == Counter(range(k))


def test_calls_run_at_the_same_time(store):
    barrier = threading.Barrier(3, timeout=30)

    @repeatable
    def meet(n):
        barrier.wait()
        return n

    def agent(s):
        with s.parallel() as p:
            promises = [p.call(meet, n) for n in range(3)]
        return [promise.result() for promise in promises]

    assert store.run(agent, "s").result == [0, 1, 2]


def test_no_more_than_so_many_run_at_once(store):
    running, most = [], []

    @repeatable
    def count(n):
        running.append(n)
        most.append(len(running))
        running.remove(n)

    with store.session("s") as s, s.parallel(at_once=1) as p:
        for n in range(6):
            p.call(count, n)
    assert max(most) == 1
    with store.session("s") as s, pytest.raises(errors.RefusedError, match="at least one"):
        s.parallel(at_once=0)


def test_the_first_error_in_the_order_of_the_calls_is_raised_and_the_others_are_recorded(store):
    second_failed = threading.Event()

    @repeatable
    def fail(n):
        if n == 1:
            second_failed.wait(30)
        else:
            second_failed.set()
        raise ValueError(n)

    def agent(s):
        try:
            with s.parallel() as p:
                promises = [p.call(fail, 1), p.call(fail, 2), p.call(len, "abc")]
        except ValueError as error:
            with pytest.raises(ValueError, match="2"):
                promises[1].result()
            return error.args[0], promises[2].result()

    assert store.run(agent, "s").result == (1, 3)
    assert [e["how"] for e in entries(store, "action_finished")].count("error") == 2


def test_an_error_that_the_code_took_inside_of_the_block_is_not_raised_again(store):
    def fail():
        raise KeyError

    with store.session("s") as s, s.parallel() as p:
        promise = p.call(fail)
        with pytest.raises(KeyError):
            promise.result()


def test_when_one_waits_for_a_person_the_others_end_and_are_recorded(store):
    office = Office()
    office.dying = {0}

    def agent(s):
        with s.parallel() as p:
            p.call(office.work, 0)
            p.action(office.work, effect="repeatable")(1)

    with pytest.raises(Killed):
        store.run(agent, "s")
    office.dying = set()
    assert store.run(agent, "s").status == "waiting"

    def longer(s):
        with s.parallel() as p:
            p.call(office.work, 0)
            p.action(office.work, effect="repeatable")(1)
            p.call(office.work, 2)

    assert store.run(longer, "s").status == "waiting"
    assert office.ran == Counter({1: 1, 2: 1})
    assert len(entries(store, "action_finished")) == 2


def test_a_handle_says_so_with_an_error_and_everything_that_waits_is_asked_at_once(store):
    office = Office()
    office.dying = {0, 1}

    def code():
        with store.session("s") as s, s.parallel() as p:
            promises = [p.call(office.work, n) for n in (0, 1)]
            promises[0].result()

    with pytest.raises(Killed):
        code()
    office.dying = set()
    with pytest.raises(errors.SuspendedError) as raised:
        code()
    assert len(raised.value.seqs) == 2
    assert len(store.questions("s")) == 2


def test_what_the_code_no_longer_calls_is_told_at_the_join(store):
    office = Office()

    def agent(s):
        with s.parallel() as p:
            p.call(office.work, 1)
            p.call(office.work, 2)
        raise RuntimeError

    store.run(agent, "s")

    def other(s):
        with s.parallel() as p:
            p.call(office.work, 3)
            p.call(office.work, 2)

    outcome = store.run(other, "s")
    assert isinstance(outcome.error, perdure.DivergedError)
    assert office.ran == Counter({1: 1, 2: 1})


def test_calls_in_another_order_are_answered_all_the_same(store):
    office = Office()

    def agent(s, order=(1, 2, 3)):
        with s.parallel() as p:
            promises = {n: p.call(office.work, n) for n in order}
        if order == (1, 2, 3):
            raise RuntimeError
        return {n: promise.result() for n, promise in promises.items()}

    store.run(agent, "s")
    assert store.run(lambda s: agent(s, (3, 1, 2)), "s").result == {n: f"done {n}" for n in (3, 1, 2)}
    assert office.ran == Counter({1: 1, 2: 1, 3: 1})


def test_a_call_with_the_key_of_one_in_flight_waits_for_it(store):
    office = Office()
    with store.session("s") as s:
        with s.parallel() as p:
            promises = [p.action(office.work, key="k")(7) for _ in range(3)]
        assert [promise.result() for promise in promises] == ["done 7"] * 3
    assert office.ran == Counter({7: 1})


def test_a_keyed_call_inside_of_itself_is_refused(store):
    def outer(depth):
        return s.action(outer, key="k")(depth)

    with store.session("s") as s, pytest.raises(errors.RefusedError, match="inside of itself"):
        s.action(outer, key="k")(1)


def test_declared_actions_find_the_session_in_the_threads_of_a_block(store):
    @repeatable
    def inner(n):
        return n + 1

    @repeatable
    def outer(n):
        return inner(n)

    with store.session("s") as s, s.parallel() as p:
        promises = [p.call(outer, n) for n in range(3)]
    assert [promise.result() for promise in promises] == [1, 2, 3]
    started = entries(store, "action_started")
    outers = {e.seq for e in started if e["parent"] is None}
    assert {e["parent"] for e in started if e.seq not in outers} == outers


def test_a_block_is_used_by_the_thread_that_opened_it(store):
    raised = []

    def elsewhere(p):
        try:
            p.call(len, "")
        except errors.RefusedError as error:
            raised.append(error)

    with store.session("s") as s:
        with s.parallel() as p:
            thread = threading.Thread(target=elsewhere, args=(p,))
            thread.start()
            thread.join()
        with pytest.raises(errors.RefusedError):
            p.call(len, "")
    assert len(raised) == 1


def test_an_error_of_the_block_itself_waits_for_its_calls(store):
    release = threading.Event()

    @repeatable
    def slow():
        release.wait(30)
        return "slow"

    def code(s):
        with s.parallel() as p:
            promises.append(p.call(slow))
            release.set()
            raise KeyError

    promises = []
    with store.session("s") as s:
        with pytest.raises(KeyError):
            code(s)
        assert promises[0].done()
    assert len(entries(store, "action_finished")) == 1


def test_a_save_lists_what_was_not_handed_out_and_a_handle_goes_on_from_there(store):
    office = Office()
    go = threading.Event()

    @repeatable
    def slow(n):
        go.wait(30)
        return office.work(n)

    def code(s):
        with s.parallel() as p:
            first, second = p.call(office.work, 1), p.call(slow, 2)
            s.state["seen"] = True
            s.save()
            go.set()
            return first.result(), second.result()

    office.dying = {2}
    with pytest.raises(Killed), store.session("s") as s:
        code(s)
    (saved,) = entries(store, "saved")
    assert saved["open"] == [e.seq for e in entries(store, "action_started")]
    office.dying = set()
    with store.session("s") as s:
        assert {call.name for call in s.pending} == {"Office.work", slow.__qualname__.rsplit("<locals>.", 1)[-1]}
        assert code(s) == ("done 1", "done 2")
    assert office.ran == Counter({1: 1, 2: 1})


def test_values_and_calls_inside_of_an_open_call_are_answered_after_a_re_entry(store):
    drawn, inner_ran, ready, go = [], [], threading.Event(), threading.Event()
    dying = [True]

    def inner(value):
        inner_ran.append(value)
        return value

    def outer():
        value = s.uuid()
        drawn.append(value)
        s.call(inner, value)
        ready.set()
        go.wait(30)
        if dying[0]:
            raise Killed
        return value

    def code():
        with s.parallel() as p:
            promise = p.action(outer, effect="repeatable")()
            ready.wait(30)
            s.state["seen"] = True
            s.save()
            go.set()
        return promise.result()

    with pytest.raises(Killed), store.session("s") as s:
        code()
    dying[0] = False
    with store.session("s") as s:
        assert code() == drawn[0] == drawn[1]
    assert inner_ran == drawn[:1]


def test_a_rollback_inside_of_a_block_lets_the_calls_end_first(store):
    release, started = threading.Event(), threading.Event()

    def slow():
        started.set()
        release.wait(30)
        return "slow"

    def agent(s):
        s.checkpoint("a")
        if s.strategy is None:
            with s.parallel() as p:
                p.call(slow)
                started.wait(30)
                threading.Timer(0, release.set).start()
                s.rollback("a", strategy="b")
        return s.strategy

    assert store.run(agent, "s").result == "b"
    kinds = [entry.kind for entry in store.log("s")]
    assert kinds.index("action_finished") < kinds.index("rolled_back")


def test_a_handle_does_not_roll_back_inside_of_a_block(store):
    with store.session("s") as s, s.parallel() as p:
        p.call(len, "")
        with pytest.raises(errors.RefusedError, match="leave the block"):
            s.rollback(0)


def test_a_stop_takes_effect_at_the_next_call_of_a_block_and_the_others_end(store):
    office = Office()

    def agent(s):
        with s.parallel() as p:
            p.call(office.work, 1)
            s.stop("told to")
            try:
                p.call(office.work, 2)
            except Leaving:
                s.state["left"] = True
                raise

    assert store.run(agent, "s").status == "paused"
    assert office.ran == Counter({1: 1})
    assert len(entries(store, "action_finished")) == 1


def test_an_interrupt_does_not_wait_for_the_calls(store):
    release = threading.Event()

    def slow():
        release.wait(30)

    def code():
        with store.session("s") as s, s.parallel() as p:
            p.call(slow)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        code()
    release.set()


def test_two_calls_whose_errors_end_the_run_are_settled_together(store):
    lost = [True]

    def pay(n):
        if lost[0]:
            raise OSError(n)
        return n

    def agent(s):
        with s.parallel() as p:
            promises = [p.call(pay, n) for n in (1, 2)]
        return [promise.result() for promise in promises]

    assert store.run(agent, "s").status == "failed"
    lost[0] = False
    doubts = store.run(agent, "s").questions
    for n, doubt in enumerate(doubts, 1):
        store.settle("s", doubt.seq, "done", result=f"paid {n}")
    assert store.run(agent, "s").result == ["paid 1", "paid 2"]
