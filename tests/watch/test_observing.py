"""Those who look on are told what was done, once it is done; nothing that they do or raise reaches the run."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
from concurrent.futures import Future
from dataclasses import fields
from pathlib import Path

import pytest

import perdure
from perdure import limits
from perdure.errors import ConflictError, DamageError, FencedError, HeldError, StoreFailedError
from perdure.runtime.store import AgentStore
from perdure.session.keeping.lease import new_owner
from perdure.stores import Store, open_store
from perdure.stores.observing import (
    AttemptBegan,
    AttemptEnded,
    CommitFailed,
    Committed,
    Event,
    LeaseLost,
    Opened,
    OpenFailed,
    RenewalFailed,
    RunEnded,
    Waiting,
)
from perdure.testing.broken import Passing

PAGE = Path(__file__).resolve().parents[2] / "docs/observing.md"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "agents.db")


class Seen(list[Event]):
    """An observer that keeps what it is told."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, *kinds: type[Event]) -> list:
        return [event for event in self if isinstance(event, kinds)]

    @property
    def records(self) -> list[int]:
        return [entry.seq for event in self.of(Committed) for entry in event.entries]


@pytest.fixture
def watched(url: str):
    with perdure.open(url) as store:
        seen = Seen()
        store.observe(seen)
        yield store, seen


@perdure.action(effect="once")
def pay(amount: int) -> int:
    return amount


@perdure.agent
def paying(s: perdure.Session) -> int:
    s.state["paid"] = s.call(pay, 3)
    s.save()
    if s.ask("more?", key="more") == "yes":
        with s.parallel() as p:
            calls = [p.call(pay, n) for n in (4, 5)]
        s.state["paid"] += sum(call.result() for call in calls)
    return s.state["paid"]


def test_every_record_of_the_log_is_told_once_in_order_and_after_it_is_durable(watched, url):
    store, seen = watched
    found = []

    def looks(event: Event) -> None:
        if isinstance(event, Committed):
            with perdure.open(url) as other:
                found.append(other.backend.head(event.session).seq == event.entries[-1].seq)

    store.observe(looks)
    store.run(paying, "a")
    store.answer("a", "more", "yes", by="Ann")
    assert store.run(paying, "a").result == 12
    assert seen.records == [entry.seq for entry in store.log("a")]
    assert found == [True] * len(seen.of(Committed))
    assert all(event.seconds > 0 and event.bytes > 0 for event in seen.of(Committed))


def test_a_run_its_session_and_its_attempts_are_told_of(watched):
    store, seen = watched
    store.run(paying, "a")
    store.answer("a", "more", "no")
    store.run(paying, "a")
    told = [event for event in seen if not isinstance(event, Committed)]
    assert [type(event).__name__ for event in told] == [
        *("Opened", "RunBegan", "AttemptBegan", "AttemptEnded", "RunEnded", "Released"),
        "Released",  # of whoever answered
        *("Opened", "RunBegan", "RunEnded", "Released"),
    ]
    first, again = seen.of(Opened)
    assert (first.is_new, again.is_new, again.status, again.is_taken_over) == (True, False, "waiting", False)
    assert [event.status for event in seen.of(RunEnded)] == ["waiting", "completed"]
    (ended,) = seen.of(AttemptEnded)
    assert (ended.name, ended.effect, ended.attempt, ended.how, ended.error) == ("pay", "once", 1, "result", None)


def test_an_attempt_that_fails_and_the_next_one_are_told_with_their_number(watched):
    store, seen = watched
    errors = [OSError("no"), OSError("no")]

    def flaky() -> None:
        if errors:
            raise errors.pop()

    with store.session("a") as s:
        s.action(flaky, effect="repeatable", retries=2, backoff_s=0.0)()
    ended = [(event.attempt, event.how, type(event.error)) for event in seen.of(AttemptEnded)]
    assert ended == [(1, "error", OSError), (2, "error", OSError), (3, "result", type(None))]


def test_an_attempt_that_is_interrupted_is_told_as_left(watched):
    store, seen = watched

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.run(lambda s: s.call(interrupted), "a")
    assert [event.how for event in seen.of(AttemptEnded)] == ["left"]
    assert [type(event.error) for event in seen.of(RunEnded)] == [KeyboardInterrupt]


def test_in_an_event_loop_it_is_the_same_and_a_stream_is_one_attempt(watched):
    store, seen = watched

    async def words():
        yield "a"
        yield "b"

    @perdure.agent
    async def agent(s: perdure.AsyncSession) -> list[str]:
        await s.call(pay, 1)
        return [word async for word in s.stream(words)]

    assert asyncio.run(store.arun(agent, "a")).result == ["a", "b"]
    begun = [(event.name, event.is_stream) for event in seen.of(AttemptBegan)]
    assert [name.rpartition(".")[2] for name, _ in begun] == ["pay", "words"]
    assert [stream for _, stream in begun] == [False, True]
    assert [event.how for event in seen.of(AttemptEnded)] == ["result", "result"]
    assert seen.records == [entry.seq for entry in store.log("a")]
    assert [event.status for event in seen.of(RunEnded)] == ["completed"]


def test_a_stream_that_is_left_or_breaks_has_an_end_that_is_told(watched):
    store, seen = watched

    def words():
        yield "a"
        raise ValueError("no more")

    def agent(s: perdure.Session) -> None:
        for _ in s.stream(words):
            break
        with pytest.raises(ValueError, match="no more"):
            list(s.stream(words))

    store.run(agent, "a")
    assert len(seen.of(AttemptBegan)) == 2
    assert [event.how for event in seen.of(AttemptEnded)] == ["result", "error"]


def test_handles_with_and_without_a_lease_are_told_of(watched):
    store, seen = watched
    with store.session("a") as s:
        s.state["n"] = 1
    with store.session("a", optimistic=True) as s:
        s.state["n"] = 2
    assert [(event.is_new, event.is_shared) for event in seen.of(Opened)] == [(True, False), (False, True)]
    assert seen.records == [entry.seq for entry in store.log("a")]


def test_a_person_who_decides_is_told_of_as_records(watched):
    store, seen = watched

    @perdure.action(effect="once")
    def hangs() -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.run(lambda s: s.call(hangs), "a")
    start = next(entry.seq for entry in store.log("a") if entry.kind == "action_started")
    store.settle("a", start, "done", result=1, by="Ann")
    kinds = [entry.kind for event in seen.of(Committed) for entry in event.entries]
    assert "settled" in kinds
    assert seen.records == [entry.seq for entry in store.log("a")]


def test_several_sessions_that_share_commits_are_each_told_of_their_own(watched):
    store, seen = watched

    def work(name: str) -> None:
        with store.session(name) as s:
            for n in range(20):
                s.state["n"] = n
                s.save()

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in "abc":
        told = [e.seq for event in seen.of(Committed) if event.session == name for e in event.entries]
        assert told == [entry.seq for entry in store.log(name)]


# --- what goes wrong ------------------------------------------------------------------------------------------------


def test_one_that_raises_reaches_nobody_and_is_logged_once(watched, caplog):
    store, seen = watched

    def broken(_event: Event) -> None:
        raise ZeroDivisionError

    store.observe(broken)
    with caplog.at_level(logging.WARNING, "perdure.observing"):
        assert store.run(paying, "a").status == "waiting"
    assert [record.name for record in caplog.records] == ["perdure.observing"]
    assert store.backend.observers.errors["ZeroDivisionError"] == len(seen)


def test_one_that_was_undone_is_told_nothing_more(watched):
    store, seen = watched
    other = Seen()
    undo = store.observe(other)
    store.run(paying, "a")
    undo()
    before = len(other)
    store.answer("a", "more", "no")
    assert len(other) == before < len(seen)


class Failing(Passing):
    """A store whose appends fail while `error` is set."""

    error: Exception | None = None

    def append(self, *args, **kwargs):
        if self.error is not None:
            raise self.error
        return super().append(*args, **kwargs)

    def submit(self, *args, **kwargs):
        if self.error is not None:
            future: Future[int] = Future()
            future.set_exception(self.error)
            return future
        return super().submit(*args, **kwargs)


def watched_failing(url: str) -> tuple[AgentStore, Failing, Seen]:
    backend = Failing(open_store(url))
    store, seen = AgentStore(backend), Seen()
    store.observe(seen)
    return store, backend, seen


def test_a_save_that_fails_is_told_and_so_is_its_success_later(url):
    store, backend, seen = watched_failing(url)
    with store, store.session("a") as s:
        s.state["n"] = 1
        backend.error = StoreFailedError("the disk is full")
        with pytest.raises(StoreFailedError):
            s.save()
        backend.error = None
        s.save()
    assert [type(event.error) for event in seen.of(CommitFailed)] == [StoreFailedError]
    assert [entry.kind for event in seen.of(Committed) for entry in event.entries].count("saved") == 1


def test_in_an_event_loop_a_save_that_fails_is_told_too(url):
    store, backend, seen = watched_failing(url)

    async def work() -> None:
        async with store.aio.session("a") as s:
            s.state["n"] = 1
            backend.error = StoreFailedError("the disk is full")
            with pytest.raises(StoreFailedError):
                await s.save()
            backend.error = None

    with store:
        asyncio.run(work())
    assert [type(event.error) for event in seen.of(CommitFailed)] == [StoreFailedError]


def test_a_writer_that_was_replaced_and_one_that_came_too_late_are_told(watched, url):
    store, seen = watched
    with store.session("a") as s:
        s.state["n"] = 1
    first = store.session("a", optimistic=True)
    with store.session("a", optimistic=True) as second:
        second.state["n"] = 2
    first.state["n"] = 3
    with pytest.raises(ConflictError):
        first.save()
    first.close()
    held = store.session("a")
    lease = store.backend.lease("a")
    store.backend.claim("a", owner="somebody else", seen=lease)
    held.state["n"] = 4
    with pytest.raises(FencedError):
        held.save()
    held.close()
    assert [type(event.error) for event in seen.of(CommitFailed)] == [ConflictError, FencedError]


def takes(backend: Store, session: str) -> None:
    """Somebody takes it from its owner, who renews meanwhile."""
    while True:
        try:
            backend.claim(session, owner="somebody else", seen=backend.lease(session))
        except HeldError:
            continue
        return


def test_a_lease_that_is_lost_is_told_once_and_one_that_cannot_be_renewed_each_time(url):
    backend = Failing(open_store(url))
    seen, told = Seen(), threading.Semaphore(0)

    def observer(event: Event) -> None:
        seen(event)
        if isinstance(event, LeaseLost | RenewalFailed):
            told.release()

    with AgentStore(backend, lease_s=0.04) as store:
        store.observe(observer)
        store.session("a").close()
        lost, kept = store.session("a"), store.session("b")
        takes(backend, "a")
        assert told.acquire(timeout=30)
        backend.renew_all = lambda _leases: (_ for _ in ()).throw(StoreFailedError("gone"))
        assert told.acquire(timeout=30)
        assert told.acquire(timeout=30)
        lost.close()
        del backend.renew_all
        kept.close()
    assert [event.session for event in seen.of(LeaseLost)] == ["a"]
    assert {event.count for event in seen.of(RenewalFailed)} == {2}


def test_who_waits_for_a_session_is_told_with_its_owner(watched, url):
    store, seen = watched
    with perdure.open(url, lease_s=30) as other, other.session("a"), pytest.raises(HeldError):
        store.session("a", wait_s=0.05)
    assert [event.session for event in seen.of(Waiting)] == ["a"]


def test_a_session_whose_owner_was_killed_is_told_as_taken_over(watched, url):
    store, seen = watched
    store.session("a").close()
    lease = store.backend.lease("a")
    store.backend.claim("a", owner=_dead_owner(), seen=lease)
    with store.session("a"):
        pass
    assert [event.is_taken_over for event in seen.of(Opened)] == [False, True]


def _dead_owner() -> str:
    told = json.loads(new_owner())
    return json.dumps(told | {"pid": 2**22 - 1, "started": "1"})


def test_a_session_that_cannot_be_restored_is_told(watched):
    store, seen = watched
    with store.session("a") as s:
        s.state["n"] = 1
    _damage(store)
    with pytest.raises(DamageError):
        store.session("a")
    (failed,) = seen.of(OpenFailed)
    assert isinstance(failed.error, DamageError)


def _damage(store: AgentStore) -> None:
    path = store.url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE records SET body = x'00'")


# --- aside ----------------------------------------------------------------------------------------------------------


def test_one_aside_is_told_in_a_thread_of_its_own_in_order_and_all_of_it_before_the_store_is_closed(url):
    seen, threads = Seen(), set()

    def observer(event: Event) -> None:
        seen(event)
        threads.add(threading.current_thread().name)

    with perdure.open(url) as store:
        store.observe(observer, aside=True)
        store.run(paying, "a")
        records = [entry.seq for entry in store.log("a")]
    assert seen.records == records
    assert threads == {"perdure-observer"}


def test_one_aside_that_hangs_holds_nobody_up_and_what_is_too_much_is_counted(url, monkeypatch):
    monkeypatch.setattr(limits, "OBSERVED_COUNT_MAX", 2)
    go_on = threading.Event()
    with perdure.open(url) as store:
        store.observe(lambda _event: go_on.wait(), aside=True)
        store.run(paying, "a")
        assert store.backend.observers.dropped > 0
        go_on.set()


def test_one_that_is_slow_is_warned_of_once(url, monkeypatch, caplog):
    monkeypatch.setattr(limits, "OBSERVER_S", 1e-9)
    with perdure.open(url) as store, caplog.at_level(logging.WARNING, "perdure.observing"):
        store.observe(lambda _event: None)
        store.run(paying, "a")
    assert ["aside=True" in record.getMessage() for record in caplog.records] == [True]


# --- the page -------------------------------------------------------------------------------------------------------

KINDS = sorted(Event.__subclasses__(), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_and_each_of_its_fields_is_on_the_page(kind: type[Event]):
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{kind.__name__}` |")]
    assert [field.name for field in fields(kind) if f"`{field.name}`" not in row and field.name != "session"] == []


def test_the_example_of_the_page_prints_what_is_done(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    block = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
    exec(compile(block, "example", "exec"), {})  # noqa: S102 - it is our own page
    assert capsys.readouterr().out.startswith("chat-7 ['opened', 'owned']")
