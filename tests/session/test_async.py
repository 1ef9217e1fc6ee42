"""The session of an event loop: the same rules, awaited; what cancelling leaves behind; what never blocks the loop."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import itertools
import threading
from collections import Counter
from concurrent.futures import Future

import pytest

import perdure
from perdure import errors, limits, values
from perdure.log.action import Actions
from perdure.runtime.aio import AsyncStore
from perdure.runtime.store import AgentStore
from perdure.session.waiting import in_thread
from tests.session.test_parallel import Killed, Office, entries


class AsyncOffice(Office):
    """The tools of an office, to be awaited."""

    async def work(self, n: int) -> str:
        await asyncio.sleep(0)
        return super().work(n)


@pytest.fixture
def store():
    with perdure.open("memory:") as opened:
        yield opened


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch):
    monkeypatch.setattr(limits, "SIBLINGS_WAIT_S", 0.2)


def run_or_die(store, agent):
    """None when a tool was killed, in whatever the tasks have wrapped that."""
    try:
        return store.run(agent, "s")
    except (Killed, BaseExceptionGroup):
        return None


def settle(store, office, outcome):
    """By what is true."""
    for question in outcome.questions:
        n = values.decode(Actions(store.log("s"))[question.seq].args["n"])
        if office.ran[n]:
            store.settle("s", question.seq, "done", result=f"done {n}")
        else:
            store.settle("s", question.seq, "not-done")


async def in_a_block(s, make, k):
    async with s.parallel() as p:
        promises = [make(p)(n) for n in range(k)]
    return [await promise for promise in promises]


async def in_a_gather(s, make, k):
    return await asyncio.gather(*(make(s)(n) for n in range(k)))


async def in_a_group(s, make, k):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(make(s)(n)) for n in range(k)]
    return [task.result() for task in tasks]


@pytest.mark.parametrize("together", [in_a_block, in_a_gather, in_a_group])
@pytest.mark.parametrize("effect", ["repeatable", "once"])
def test_whatever_part_of_the_calls_had_ended_only_the_others_run_again(effect, together):
    k = 3
    for ended in itertools.chain.from_iterable(itertools.combinations(range(k), n) for n in range(k + 1)):
        office = AsyncOffice()

        async def agent(s, office=office):
            return await together(s, lambda maker: maker.action(office.work, effect=effect), k)

        with perdure.open("memory:") as store:
            office.dying = set(range(k)) - set(ended)
            if office.dying:
                assert run_or_die(store, agent) is None
            office.dying = set()
            outcome = store.run(agent, "s")
            while outcome.status == "waiting":
                settle(store, office, outcome)
                outcome = store.run(agent, "s")
            assert outcome.result == [f"done {n}" for n in range(k)], outcome
        assert office.ran == Counter(range(k))


def test_all_that_waits_for_a_person_in_a_block_is_asked_at_once(store):
    office = AsyncOffice()
    office.dying = {0, 1}

    async def agent(s):
        return await in_a_block(s, lambda p: lambda n: p.call(office.work, n), 3)

    with pytest.raises(Killed):
        store.run(agent, "s")
    office.dying = set()
    assert len(store.run(agent, "s").questions) == 2
    assert office.ran == Counter({2: 1})


def test_an_agent_of_each_form(store):
    async def script(s):
        s.state["n"] = await s.call(len, s.input)
        at = s.now()
        await s.checkpoint("a")
        return s.state["n"], at

    done = store.run(script, "script", input="abc").result
    assert done[0] == 3
    assert isinstance(done[1], dt.datetime)
    assert store.run(script, "script").result == done

    @perdure.steps
    async def steps(s):
        s.state["n"] = s.state.get("n", 0) + await s.call(len, "x")
        if s.state["n"] == 3:
            s.complete(s.state["n"])

    assert store.run(steps, "steps").result == 3

    async def handle():
        async with store.aio.session("handle") as s:
            s.state["n"] = 1
            await s.save()
            s.state["n"] = await s.call(len, "xy")
        session = await store.aio.session("handle", state=dict)
        state = await session.rollback(0)
        await session.close()
        return dict(state)

    assert asyncio.run(handle()) == {"n": 2}
    assert asyncio.run(store.aio.state_at("handle")) == {"n": 2}


def test_a_rollback_and_a_question_in_a_loop(store):
    async def agent(s):
        await s.checkpoint("a")
        if s.strategy is None:
            await s.call(len, "x")
            await s.rollback("a", strategy="b")
        return s.strategy, await s.ask("Which?", key="k")

    assert store.run(agent, "s").status == "waiting"
    asyncio.run(store.aio.answer("s", "k", "that one"))
    assert asyncio.run(store.aio.run(agent, "s")).result == ("b", "that one")


def test_a_plain_agent_runs_beside_the_loop_and_no_run_blocks_it(store):
    async def awaited(s):
        return "awaited"

    async def main():
        plain = await store.arun(lambda s: threading.get_ident(), "plain")
        with pytest.raises(errors.EntryError, match="arun"):
            store.run(awaited, "s")
        return plain.result, (await store.arun(awaited, "s")).result

    thread, result = asyncio.run(main())
    assert thread != threading.get_ident()
    assert result == "awaited"


def test_declared_actions_find_the_session(store):
    @perdure.action(effect="repeatable")
    async def outer(n):
        return await in_thread(middle, n)

    @perdure.action(effect="repeatable")
    def middle(n):
        return inner(n) + 1

    @perdure.action(effect="repeatable")
    def inner(n):
        return n + 1

    async def agent(s):
        with pytest.raises(errors.RefusedError, match="stop the event loop"):
            inner(1)
        return await outer(1)

    assert inspect.iscoroutinefunction(outer)
    assert asyncio.run(outer(1)) == 3
    assert store.run(agent, "s").result == 3
    parents = {e["name"].rsplit(">.")[-1]: e["parent"] for e in entries(store, "action_started")}
    assert parents == {"outer": None, "middle": 3, "inner": 4}


def test_a_session_of_a_thread_refuses_a_coroutine_function(store):
    async def waits():
        return 1

    with store.session("s") as s, pytest.raises(errors.RefusedError, match="async session"):
        s.call(waits)


def test_verify_undo_and_keys_in_a_loop(store):
    office = AsyncOffice()
    office.dying = {1}

    async def happened(n):
        return perdure.Done(f"verified {n}")

    async def agent(s):
        pay = s.action(office.work, key="k", verify=happened)
        return await asyncio.gather(pay(1), pay(1))

    with pytest.raises(Killed):
        store.run(agent, "s")
    assert store.run(agent, "s").result == ["verified 1"] * 2


# --- parts ------------------------------------------------------------------------------------------------------------


def test_parts_are_loaded_at_the_opening_or_when_awaited(store):
    with store.session("s") as s:
        s.state.update(a=1, b=[2], c=3)

    async def main():
        async with store.aio.session("s", parts=["a"]) as s:
            assert s.state["a"] == 1
            with pytest.raises(errors.RefusedError, match=r"await s\.load\('b'\)"):
                s.state["b"]
            await s.load("b")
            s.state["b"].append(4)
        return await store.aio.state_at("s")

    assert asyncio.run(main()) == {"a": 1, "b": [2, 4], "c": 3}


# --- commits ----------------------------------------------------------------------------------------------------------


class SlowStore:
    """Holds back the next commit of a store until it is let go."""

    def __init__(self, store, monkeypatch):
        self.right, self.held, self.outside = store.backend.submit, None, Future()
        monkeypatch.setattr(store.backend, "submit", self.submit)

    def submit(self, session, batch, *, epoch, head):
        if self.held is None:
            self.held = lambda: self.right(session, batch, epoch=epoch, head=head)
            return self.outside
        return self.right(session, batch, epoch=epoch, head=head)

    def let_go(self):
        self.outside.set_running_or_notify_cancel()
        self.outside.set_result(self.held().result())


def test_a_slow_commit_does_not_stop_the_loop(store, monkeypatch):
    async def main():
        async with store.aio.session("s") as s:
            slow = SlowStore(store, monkeypatch)
            s.state["n"] = 1
            saving = asyncio.create_task(s.save())
            for _ in range(10):
                await asyncio.sleep(0)
            assert not saving.done()
            slow.let_go()
            return await saving

    assert asyncio.run(main()) == 3


@pytest.mark.parametrize("written", [True, False])
def test_a_cancelled_save_is_resolved_before_the_next(store, monkeypatch, written):
    async def main():
        async with store.aio.session("s") as s:
            slow = SlowStore(store, monkeypatch)
            if written:
                slow.outside.set_running_or_notify_cancel()
            s.state["n"] = 1
            saving = asyncio.create_task(s.save())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            saving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await saving
            if written:
                slow.outside.set_result(slow.held().result())
            s.state["m"] = 2
            assert await s.save() == (4 if written else 3)
        return await store.aio.state_at("s")

    assert asyncio.run(main()) == {"n": 1, "m": 2}
    assert [entry.kind for entry in store.log("s")].count("saved") == (2 if written else 1)
    assert store.verify("s", read_data=True).ok


def test_a_save_while_other_calls_are_in_flight_is_refused(store):
    async def agent(s):
        go = asyncio.Event()

        async def slow():
            await go.wait()

        task = asyncio.create_task(s.action(slow, effect="repeatable")())
        await asyncio.sleep(0.01)
        with pytest.raises(errors.RefusedError, match="in flight"):
            await s.save()
        go.set()
        await task
        await s.save()
        forgotten.append(asyncio.create_task(s.action(long, effect="repeatable")()))
        await begun.wait()
        return "too early"  # in the very turn of the loop that comes next

    async def long():
        begun.set()
        await asyncio.sleep(0.1)

    forgotten, begun = [], asyncio.Event()

    outcome = store.run(agent, "s")
    assert isinstance(outcome.error, errors.RefusedError)


# --- cancelling -------------------------------------------------------------------------------------------------------


def timing_out(office, effect):
    """An agent whose first call is cut off by a time-out; `office.ran` counts how often it came to its end."""

    async def slow(n):
        office.begun += 1
        await office.never.wait()
        return await office.work(n)

    async def agent(s):
        office.never = asyncio.Event()
        try:
            async with asyncio.timeout(0.05):
                first = await s.action(slow, effect=effect)(1)
        except TimeoutError:
            first = "timed out"
        return first, await s.call(office.work, 2)

    office.begun = 0
    return agent


@pytest.mark.parametrize("effect", ["repeatable", "idempotent"])
def test_a_call_that_was_cut_short_is_cut_short_again(store, effect):
    office = AsyncOffice()
    office.dying = {2}
    agent = timing_out(office, effect)
    with pytest.raises(Killed):
        store.run(agent, "s")
    office.dying = set()
    (doubt,) = store.run(agent, "s").questions
    store.settle("s", doubt.seq, "not-done")
    assert store.run(agent, "s").result == ("timed out", "done 2")
    assert office.begun == 1
    assert [e["value"]["class"] for e in entries(store, "action_finished") if e["how"] == "error"] == [
        "asyncio.exceptions:CancelledError"
    ]


def test_what_may_not_run_twice_waits_for_a_person_when_it_is_cut_short(store):
    office = AsyncOffice()
    agent = timing_out(office, "once")
    (doubt,) = store.run(agent, "s").questions
    assert doubt.kind == "doubt"
    assert office.ran == Counter()
    store.settle("s", doubt.seq, "done", result="it was done")
    assert store.run(agent, "s").result == ("it was done", "done 2")
    assert office.begun == 1


def test_a_run_that_is_cancelled_from_outside_goes_on_later(store):
    office = AsyncOffice()
    begun, started = [], asyncio.Event()

    async def slow(n):
        begun.append(n)
        started.set()
        await asyncio.Event().wait() if len(begun) == 1 else None
        return n

    async def agent(s):
        return await s.call(office.work, 1), await s.action(slow, effect="repeatable")(2)

    async def main():
        run = asyncio.create_task(store.arun(agent, "s"))
        await started.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return (await store.aio.info("s")).status, await store.arun(agent, "s")

    status, outcome = asyncio.run(main())
    assert status == "failed"
    assert outcome.result == ("done 1", 2)
    assert office.ran == Counter({1: 1})


def test_a_function_in_a_thread_comes_to_its_end_before_a_cancellation_is_seen(store):
    go, begun = threading.Event(), threading.Event()

    def slow():
        begun.set()
        go.wait(30)
        return "whole"

    async def agent(s):
        async def one():
            got.append(await s.call(slow))
            await s.call(len, "")

        got = []
        task = asyncio.create_task(one())
        await in_thread(begun.wait, 30)
        task.cancel()
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return got

    assert store.run(agent, "s").result == ["whole"]
    assert len(entries(store, "action_started")) == 1


def test_a_cancelled_block_cancels_its_calls_and_all_of_them_are_recorded(store):
    async def slow(n):
        await asyncio.Event().wait()

    async def agent(s):
        try:
            async with asyncio.timeout(0.05), s.parallel() as p:
                for n in range(3):
                    p.action(slow, effect="repeatable")(n)
        except TimeoutError:
            return "timed out"

    assert store.run(agent, "s").result == "timed out"
    assert [e["how"] for e in entries(store, "action_finished")] == ["error"] * 3


def test_a_group_whose_task_waits_for_a_person_waits_and_the_others_end(store):
    office = AsyncOffice()

    async def agent(s):
        go = asyncio.Event()

        async def slow(n):
            await go.wait()
            return await office.work(n)

        async def ask():
            await asyncio.sleep(0.01)
            asyncio.get_running_loop().call_later(0.01, go.set)
            return await s.ask("Which?", key="k")

        async with asyncio.TaskGroup() as group:
            first = group.create_task(s.action(slow, effect="once")(1))
            second = group.create_task(ask())
        return first.result(), second.result()

    outcome = store.run(agent, "s")
    assert [question.kind for question in outcome.questions] == ["question"]
    assert office.ran == Counter({1: 1})
    store.answer("s", "k", "that")
    assert store.run(agent, "s").result == ("done 1", "that")
    assert office.ran == Counter({1: 1})


def test_an_error_in_a_group_ends_the_run_and_is_tried_again(store):
    office = AsyncOffice()
    broken = [True]

    async def fail(n):
        await asyncio.sleep(0.01)
        if broken[0]:
            raise ValueError(n)
        return n

    async def agent(s):
        async with asyncio.TaskGroup() as group:
            one = group.create_task(s.call(office.work, 1))
            other = group.create_task(s.action(fail, effect="repeatable")(2))
        return one.result(), other.result()

    assert store.run(agent, "s").status == "failed"
    broken[0] = False
    assert store.run(agent, "s").result == ("done 1", 2)
    assert office.ran == Counter({1: 1})


# --- siblings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [in_a_block, in_a_gather])
def test_what_the_code_no_longer_calls_is_told(store, together):
    office = AsyncOffice()

    async def agent(s):
        await together(s, lambda maker: lambda n: maker.call(office.work, n), 2)
        raise RuntimeError

    store.run(agent, "s")

    async def other(s):
        await together(s, lambda maker: lambda n: maker.call(office.work, n + 1), 2)

    assert isinstance(store.run(other, "s").error, perdure.DivergedError)
    assert office.ran == Counter({0: 1, 1: 1})


def test_branches_of_several_calls_each(store):
    office = AsyncOffice()

    async def agent(s):
        async def branch(first):
            return [await s.call(office.work, n) for n in range(first, first + 3)]

        return await asyncio.gather(branch(0), branch(10), branch(20))

    for dying in ({2, 11}, {12, 22}, {21}, set()):
        office.dying = dying
        while (outcome := run_or_die(store, agent)) is not None and outcome.status == "waiting":
            settle(store, office, outcome)
    assert outcome.result == [[f"done {n}" for n in range(first, first + 3)] for first in (0, 10, 20)]
    assert set(office.ran.values()) == {1}


def test_values_are_not_drawn_by_tasks_that_race(store):
    async def agent(s):
        async with s.parallel() as p:
            s.now()

            async def draws():
                return s.uuid()

            inside = p.action(draws, effect="repeatable")()
            with pytest.raises(errors.RefusedError, match="before the block"):
                await asyncio.create_task(draws())
        return await inside

    assert store.run(agent, "s").status == "completed"


def test_a_block_is_used_by_the_task_that_opened_it(store):
    async def agent(s):
        async with s.parallel() as p:

            async def elsewhere():
                p.call(len, "")

            with pytest.raises(errors.RefusedError, match="task that opened it"):
                await asyncio.create_task(elsewhere())
        return "refused"

    assert store.run(agent, "s").result == "refused"


def test_no_more_than_so_many_run_at_once(store):
    running, most = [], []

    async def count(n):
        running.append(n)
        most.append(len(running))
        await asyncio.sleep(0.001)
        running.remove(n)

    async def agent(s):
        async with s.parallel(at_once=2) as p:
            for n in range(6):
                p.action(count, effect="repeatable")(n)

    assert store.run(agent, "s").status == "completed"
    assert max(most) == 2


def test_the_first_error_in_the_order_of_the_calls_is_raised(store):
    async def fail(n):
        await asyncio.sleep(0.01 * (2 - n))
        raise KeyError(n)

    async def agent(s):
        try:
            async with s.parallel() as p:
                for n in range(3):
                    p.call(fail, n)
        except KeyError as error:
            return error.args[0]

    assert store.run(agent, "s").result == 0


def test_every_method_of_a_store_is_there_to_be_awaited():
    public = {name for name in dir(AgentStore) if not name.startswith("_")}
    missing = public - {name for name in dir(AsyncStore) if not name.startswith("_")}
    # Those of the store itself; `arun` is called `run` there.
    own = {"aio", "arun", "url", "backend", "entry_of", "open_async", "settings", "configured", "ending"}
    assert missing <= own


def test_what_is_awaited_takes_what_its_namesake_takes():
    """But for those that pass on whatever they are given."""
    lacks = {}
    for name in [name for name in dir(AsyncStore) if not name.startswith("_")]:
        there, here = getattr(AsyncStore, name), getattr(AgentStore, name, None)
        if inspect.isfunction(there) and inspect.isfunction(here):
            takes = inspect.signature(there).parameters
            if all(each.kind is not each.VAR_KEYWORD for each in takes.values()):
                lacks[name] = [each for each in inspect.signature(here).parameters if each not in takes]
    assert {name: found for name, found in lacks.items() if found} == {"follow": ["stop"]}  # it is cancelled instead
