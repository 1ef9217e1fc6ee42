"""What a session saves by itself: when it is due, where it is in the log, how it is told of; and what it leaves be."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

import perdure
from perdure import clock
from perdure.errors import RefusedError, StoppedError
from perdure.log.branch import AUTOMATIC, is_automatic
from perdure.recovery import SavePolicy
from perdure.stores.observing import Committed, Judged


@perdure.action(effect="once")
def work(i: Any) -> str:
    return f"{i}".ljust(100, ".")


@perdure.action(effect="repeatable")
def look(i: Any) -> str:
    return f"{i}"


@pytest.fixture(params=["memory", "sqlite", "file"])
def store(request, tmp_path):
    url = {"memory": "memory:", "sqlite": str(tmp_path / "s.db"), "file": f"file:{tmp_path / 's'}"}[request.param]
    with perdure.open(url) as opened:
        yield opened


@pytest.fixture
def memory():
    with perdure.open("memory:") as opened:
        yield opened


def counting(policy, *, times=7, tool=work, save_at=()):
    @perdure.agent(saves=policy)
    def agent(s):
        done = s.state["done"] = []
        for i in range(times):
            done.append(tool(i))
            if i in save_at:
                s.save()
        return len(done)

    return agent


def automatic(store, session="a"):
    found = [one for one in store.detail(session).inspections if one.automatic]
    assert store.verify(session).ok
    return found


def reasons(store, session="a"):
    return [one.reason for one in automatic(store, session)]


def sizes(store, session="a"):
    return [len(store.state_at(session, one.seq)["done"]) for one in automatic(store, session)]


def test_one_is_made_after_so_many_actions_and_is_no_restore_point(store):
    assert store.run(counting(SavePolicy(every_actions=2)), "a").result == 7
    assert reasons(store) == ["every 2 actions"] * 3
    assert sizes(store) == [2, 4, 6]
    (end,) = store.detail("a").points
    assert len(store.state_at("a")["done"]) == 7
    assert all(point.flags & AUTOMATIC for point in store.snapshots("a") if point.seq != end.seq)
    assert [point.seq for point in store.snapshots("a", kind="restore-point")] == [end.seq]
    kinds = [point.kind for point in store.snapshots("a")]
    assert kinds == ["automatic"] * 3 + ["restore-point"]
    assert len(store.snapshots("a", kind="automatic")) == 3
    assert store.snapshots("a", kind="inspection") == []
    assert "automatic" in repr(store.snapshots("a"))
    with pytest.raises(perdure.errors.RefusedError, match="restore-point, inspection"):
        store.snapshots("a", kind="manual")
    with pytest.raises(perdure.errors.NoPointError):
        store.rollback("a", automatic(store)[0].seq)


def test_it_costs_no_commit_of_its_own(memory):
    def commits(policy, session):
        found = []
        undo = memory.observe(lambda event: found.append(event) if isinstance(event, Committed) else None)
        memory.run(counting(policy), session)
        undo()
        return len(found)

    assert commits(SavePolicy(every_actions=1), "a") == commits(None, "b")
    assert len(automatic(memory)) == 6


def test_one_is_made_after_so_many_bytes_of_results(memory):
    memory.run(counting(SavePolicy(on_bytes=250)), "a")
    assert sizes(memory) == [3, 6]
    assert reasons(memory) == ["every 250 bytes of results"] * 2


def test_one_is_made_after_so_many_seconds(memory, monkeypatch):
    now = [clock.now_us()]
    monkeypatch.setattr(clock, "now_us", lambda: now[0])

    @perdure.action(effect="once")
    def slow(i):
        now[0] += 20_000_000
        return i

    memory.run(counting(SavePolicy(every_s=60), tool=slow), "a")
    assert sizes(memory) == [3, 6]
    assert reasons(memory) == ["every 60 s"] * 2


def test_what_the_code_saves_counts_too(memory):
    memory.run(counting(SavePolicy(every_actions=3), save_at=(1, 3)), "a")
    assert sizes(memory) == []
    memory.run(counting(SavePolicy(every_actions=3), save_at=(1,)), "b")
    assert sizes(memory, "b") == [5]


def test_nothing_is_made_while_nothing_has_changed(memory):
    @perdure.agent(saves=SavePolicy(every_actions=1))
    def agent(s):
        s.state["done"] = []
        for i in range(5):
            work(i)

    memory.run(agent, "a")
    assert sizes(memory) == [0]


def test_the_count_goes_on_where_a_process_was_killed(memory):
    class Killed(BaseException):
        pass

    lives = []

    def agent_of(left):
        @perdure.agent(saves=SavePolicy(every_actions=3))
        def agent(s):
            done = s.state["done"] = []
            for i in range(6):
                if i == left:
                    raise Killed
                done.append(work(i))

        return agent

    for left in (2, 4):
        with pytest.raises(Killed):
            memory.run(agent_of(left), "a")
        lives.append(sizes(memory))
    memory.run(agent_of(None), "a")
    assert (*lives, sizes(memory)) == ([], [3], [3])


def test_a_handle_steps_and_a_typed_state_have_them(store):
    @dataclass
    class Notes:
        done: list[str] = field(default_factory=list)

    with store.session("h", saves=SavePolicy(every_actions=2), state=Notes) as s:
        for i in range(3):
            s.state.done.append(s.call(work, i))
    assert sizes(store, "h") == [2]

    @perdure.steps(saves=SavePolicy(every_actions=2))
    def steps(s):
        done = s.state.setdefault("done", [])
        done += [work(f"{len(done)} {i}") for i in range(1)]
        done += [work(f"{len(done)} {i}") for i in range(1)]
        done += [work(f"{len(done)} {i}") for i in range(1)]
        if len(done) >= 6:
            s.complete(len(done))

    assert store.run(steps, "t").result == 6
    assert sizes(store, "t") == [2, 5]


def test_an_event_loop_has_them(store):
    @perdure.agent(saves=SavePolicy(every_actions=2, on_signal=True))
    async def agent(s):
        done = s.state["done"] = []
        for i in range(5):
            done.append(await s.call(work, i))
            if i == 3 and stops:
                s.stop("SIGTERM")

    stops = True
    assert store.run(agent, "a").status == "paused"
    assert sizes(store) == [2, 4]
    stops = False
    assert store.run(agent, "a", accept_change=True).status == "completed"

    async def use():
        async with store.aio.session("h", saves=SavePolicy(every_actions=1)) as s:
            s.state["done"] = []
            for i in range(2):
                s.state["done"].append(await s.call(work, i))

    asyncio.run(use())
    assert sizes(store, "h") == [1]


def test_in_a_parallel_block_they_are_taken_where_a_call_begins(memory):
    @perdure.agent(saves=SavePolicy(every_actions=1))
    def agent(s):
        done = s.state["done"] = ["x"]
        with s.parallel() as p:
            found = [p.call(work, i) for i in range(3)]
        done += [one.result() for one in found]
        work(9)

    memory.run(agent, "a")
    assert sizes(memory) == [1, 4]


def stopped(memory, policy, *, how):
    seen = []

    @perdure.agent(saves=policy)
    def agent(s):
        done = s.state["done"] = []
        for i in range(4):
            done.append(work(i))
            if i == 1 and not seen:
                seen.append(how(s))
        return len(done)

    outcome = memory.run(agent, "a")
    assert outcome.status == "paused"
    found = sizes(memory)
    assert memory.run(agent, "a").result == 4
    return found


def sigterm(_session):
    os.kill(os.getpid(), signal.SIGTERM)


def test_one_is_made_before_a_deploy_in_the_commit_that_says_so(memory):
    committed = []
    memory.observe(lambda event: committed.append(event) if isinstance(event, Committed) else None)
    assert stopped(memory, SavePolicy(on_signal=True), how=sigterm) == [2]
    (made,) = automatic(memory)
    assert made.reason == "SIGTERM"
    together = next(c.entries for c in committed if any(e.seq == made.seq for e in c.entries))
    assert [entry.kind for entry in together] == ["saved", "status"]


def test_without_the_policy_a_signal_makes_none(memory):
    assert stopped(memory, SavePolicy(), how=sigterm) == []


def test_one_is_made_when_a_person_pauses(memory):
    person = threading.Thread(target=memory.pause, args=("a",), kwargs={"reason": "lunch", "by": "ann"})

    def pause(s):
        person.start()
        while not memory.backend.inbox(s.id):
            pass
        s.now()

    assert stopped(memory, SavePolicy(on_pause=True), how=pause) in ([2], [3])
    person.join()


def failing(policy):
    @perdure.agent(saves=policy)
    def agent(s):
        s.state["done"] = [1]
        raise ValueError("broken")

    return agent


def test_the_state_that_an_error_leaves_can_be_left_out(memory):
    memory.run(failing(SavePolicy()), "a")
    memory.run(failing(SavePolicy(on_error=False)), "b")
    assert [len(memory.detail(one).inspections) for one in "ab"] == [1, 0]
    assert automatic(memory) == []


def test_what_cannot_be_stored_stops_nothing_and_is_told(memory):
    judged = []
    memory.observe(lambda event: judged.append(event) if isinstance(event, Judged) else None)

    @perdure.agent(saves=SavePolicy(every_actions=1))
    def agent(s):
        s.state["lock"] = threading.Lock()
        work(0)
        work(1)
        del s.state["lock"]
        return "done"

    assert memory.run(agent, "a").result == "done"
    assert [(event.what, event.reason) for event in judged] == [("unsaved", "every 1 actions")]
    assert "$.lock" in judged[0].details["error"]
    assert automatic(memory) == []


def test_a_replay_makes_none_and_is_not_disturbed(memory):
    agent = counting(SavePolicy(every_actions=1, every_s=1e-6))
    memory.run(agent, "a")
    before = memory.info("a").records
    assert memory.replay("a", agent).same
    assert memory.run(agent, "a").result == 7
    assert memory.info("a").records == before


def test_they_are_what_retention_drops_first(store):
    agent = counting(SavePolicy(every_actions=1), times=4)

    @perdure.agent(saves=SavePolicy(every_actions=1))
    def left(s):
        s.state["done"] = []
        for i in range(5):
            s.state["done"] += [work(i)]
        s.ask("go on?", key="go")
        return len(s.state["done"])

    store.run(agent, "over")
    assert store.run(left, "a").status == "waiting"
    assert sizes(store) == [1, 2, 3, 4]
    store.gc(keep_s=3600, dry_run=False)
    assert sizes(store) == [1, 2, 3, 4]
    store.gc(keep_last=10, dry_run=False)
    assert sizes(store) == [4]
    (question,) = store.questions("a")
    store.answer("a", question.seq, "yes", by="ann")
    assert store.run(left, "a").result == 5
    assert sizes(store) == [4]


def test_secrets_are_masked_in_them_and_the_state_stays_as_it_is(tmp_path):
    token = "ghp_" + "a1B2" * 9

    @perdure.agent(saves=SavePolicy(every_actions=1))
    def agent(s):
        s.state["token"] = token
        look(0)
        look(1)
        return s.state["token"] == token

    with perdure.open(str(tmp_path / "s.db"), secrets="mask") as opened:
        assert opened.run(agent, "a").result is True
        (made,) = automatic(opened)
        assert token not in repr(opened.state_at("a", made.seq))


def test_a_policy_that_makes_no_sense_is_refused(memory):
    for bad in ({"every_actions": 0}, {"every_s": -1.0}, {"on_bytes": 0}):
        with pytest.raises(RefusedError, match=next(iter(bad))):
            SavePolicy(**bad)
    with pytest.raises(RefusedError, match="SavePolicy"):
        memory.run(counting(5), "a")


# --- asking all that runs to stop -------------------------------------------------------------------------------------


def test_a_signal_stops_every_run_of_an_event_loop_and_the_handler_goes(memory):
    arrived, all_here, go, before = [], asyncio.Event(), asyncio.Event(), signal.getsignal(signal.SIGTERM)

    @perdure.agent
    async def agent(s):
        for i in range(3):
            await s.call(work, i)
            arrived.append(s.id)
            if len(arrived) == 6:
                all_here.set()
            if i == 0:
                await go.wait()

    async def serve():
        runs = [asyncio.create_task(memory.arun(agent, f"r{n}")) for n in range(6)]
        await all_here.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        go.set()
        return [outcome.status for outcome in await asyncio.gather(*runs)]

    assert asyncio.run(serve()) == ["paused"] * 6
    assert len(arrived) == 6
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_store_stops_what_runs_in_threads_and_what_begins_later(memory):
    arrived, go, outcomes = threading.Semaphore(0), threading.Event(), {}

    @perdure.agent
    def agent(s):
        work(0)
        arrived.release()
        go.wait(10)
        work(1)

    def run(name):
        outcomes[name] = memory.run(agent, name).status

    threads = [threading.Thread(target=run, args=(f"r{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
        arrived.acquire(timeout=10)
    memory.stop("a deploy")
    go.set()
    for thread in threads:
        thread.join()
    run("later")
    assert set(outcomes.values()) == {"paused"}
    assert memory.info("r0").reason == "a deploy"
    with pytest.raises(StoppedError), memory.session("h") as s:
        s.call(work, 1)


def test_they_are_marked_in_the_log(memory):
    memory.run(counting(SavePolicy(every_actions=3)), "a")
    made = [entry for entry in memory.log("a") if is_automatic(entry)]
    assert [entry["flags"] for entry in made] == [12, 12]
