"""What happens at the worst instant: another process of the place comes between the preparation and the one change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from perdure import faults
from perdure.errors import ConflictError, HasForksError, SessionErasedError, SessionExistsError
from perdure.log import GENESIS, Base, verified
from perdure.stores import Batch, Change, Item, Lease, Point, Store, open_store
from perdure.stores.mongo.amendments import Amendments
from perdure.stores.mongo.layout import INLINE_BYTES
from perdure.testing.conformance.tools import Log, records_after

LONG = b"long" * INLINE_BYTES
CHUNK = {b"d" * 32: b"content"}


@pytest.fixture
def url(mongo_server) -> str:
    return mongo_server.start().fresh_url()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as found:
        yield found


@pytest.fixture
def other(url: str) -> Iterator[Store]:
    """Another process, as far as the store can tell."""
    with open_store(url) as found:
        yield found


@contextmanager
def at(point: str, come: Callable[[], object]) -> Iterator[None]:
    """Somebody comes at this instant, once."""
    came = []

    def hook(reached: str) -> None:
        if reached == point and not came:
            came.append(point)
            come()

    faults.hook = hook
    try:
        yield
    finally:
        faults.hook = None
    assert came


def released(store: Store, session: str = "s") -> tuple[Log, Lease]:
    log = Log(store, session)
    log.append(b"1", LONG, points=(Point(1, 0, 1, "one", 0),))
    store.release(log.lease)
    return log, store.lease(session)


def forked(store: Store, log: Log, session: str = "f", **parts: Any) -> None:
    first = records_after(log.records[:1], session, (b"first",), kind="opened")
    store.fork(session, Batch(first, **parts), base=Base("s", 1), epoch=1)


# -------------------------------------------------------------------------------------------------------------- chunks


def test_a_chunk_that_comes_while_it_is_dropped_stays(store: Store, other: Store) -> None:
    log, seen = released(store)
    store.put_chunks("s", CHUNK, epoch=None)
    with at("sweep.inside", lambda: other.append("s", Batch(log.next(b"3"), chunks=CHUNK), epoch=None, head=2)):
        store.drop_chunks(CHUNK, seen={seen: 2})
    assert store.chunks("s", CHUNK) == CHUNK


def test_a_chunk_that_is_dropped_while_its_commit_is_under_way_is_put_again(store: Store, other: Store) -> None:
    log, seen = released(store)
    store.put_chunks("s", CHUNK, epoch=None)
    with at("append.inside", lambda: other.drop_chunks(CHUNK, seen={seen: 2})):
        store.append("s", Batch(log.next(b"3"), chunks=CHUNK), epoch=None, head=2)
    assert store.chunks("s", CHUNK) == CHUNK


def test_a_fork_whose_chunks_are_dropped_while_it_is_made_has_them(store: Store, other: Store) -> None:
    log, seen = released(store)
    with at("fork.inside", lambda: other.drop_chunks(CHUNK, seen={seen: 2})):
        forked(store, log, chunks=CHUNK)
    assert store.chunks("f", CHUNK) == CHUNK


def test_what_nothing_needs_goes_whatever_else_is_written(store: Store, other: Store) -> None:
    log, seen = released(store)
    store.put_chunks("s", {**CHUNK, b"e" * 32: b"kept"}, epoch=None)
    with at("sweep.inside", lambda: other.append("s", Batch(log.next(b"3")), epoch=None, head=2)):
        store.drop_chunks(CHUNK, seen={seen: 2})
    assert store.chunk_sizes("s") == {b"e" * 32: 4}


def test_the_last_of_a_family_leaves_what_a_new_one_needs(store: Store, other: Store, monkeypatch) -> None:
    """It comes when the one that deletes has just seen that nobody is left."""
    store.create("s", owner="me")
    store.put_chunks("s", CHUNK, epoch=1)
    store.put_envelope("s", b"keys", seen=None)
    chunks: Any = store._chunks  # type: ignore[attr-defined]
    drop_dead = chunks.drop_dead

    def come(*args: Any, **kwargs: Any) -> None:
        other.create("late", owner="me", family="s")
        other.put_chunks("late", CHUNK, epoch=1)
        assert other.envelope("late") == b"keys"
        drop_dead(*args, **kwargs)

    monkeypatch.setattr(chunks, "drop_dead", come)
    store.delete("s")
    assert (store.chunks("late", CHUNK), store.envelope("late")) == (CHUNK, b"keys")


# --------------------------------------------------------------------------------------------------------------- forks


def test_a_base_that_is_deleted_while_it_is_forked_has_no_fork(store: Store, other: Store) -> None:
    log, _ = released(store)
    with at("fork.inside", lambda: other.delete("s")), pytest.raises(SessionErasedError):
        forked(store, log)
    assert store.heads() == []


def test_a_base_that_is_forked_while_it_is_deleted_stays(store: Store, other: Store) -> None:
    log, _ = released(store)
    with at("erase.inside", lambda: forked(other, log)), pytest.raises(HasForksError):
        store.delete("s")
    assert [record.body for record in store.read("f")] == [b"1", b"first"]


def test_what_is_forked_while_it_is_amended_is_not_amended(store: Store, other: Store) -> None:
    log, seen = released(store)
    change = Change(bodies=((1, b""),), points=(1,))
    with at("amend.inside", lambda: forked(other, log)), pytest.raises(ConflictError):
        store.amend("s", Batch(log.next(b"amended")), change, seen=seen, head=2, family=["s"])
    assert [record.body for record in store.read("f")] == [b"1", b"first"]
    assert [point.name for point in store.points("f")] == ["one"]


def test_of_two_that_make_one_session_one_does(store: Store, other: Store) -> None:
    batch = Batch(records_after([], "s", (b"mine",), kind="opened"), chunks=CHUNK)
    theirs = Batch(records_after([], "s", (b"theirs",), kind="opened"))
    with (
        at("append.inside", lambda: other.open("s", theirs, owner="other", seen=None)),
        pytest.raises(SessionExistsError),
    ):
        store.open("s", batch, owner="me", seen=None)
    assert [record.body for record in store.read("s")] == [b"theirs"]


# ---------------------------------------------------------------------------------------- long bodies, and what is left


def test_a_long_body_is_not_taken_for_what_a_crash_has_left(store: Store, other: Store) -> None:
    log, _ = released(store)
    with at("append.inside", lambda: other.purge("s")):
        store.append("s", Batch(log.next(LONG, b"4")), epoch=None, head=2)
    assert [record.body for record in store.read("s")] == [b"1", LONG, LONG, b"4"]


def test_what_a_crash_has_left_goes_with_a_purge(store: Store) -> None:
    log, _ = released(store)
    with pytest.raises(InterruptedError), at("append.inside", interrupt):
        store.append("s", Batch(log.next(LONG)), epoch=None, head=2)
    parts = store._link.parts  # type: ignore[attr-defined]
    assert parts.count_documents({}) == 2
    store.purge("s")
    assert parts.count_documents({}) == 1
    assert [record.body for record in store.read("s")] == [b"1", LONG]


def interrupt() -> None:
    raise InterruptedError


def test_a_late_amendment_changes_nothing_that_came_after(store: Store, other: Store, monkeypatch) -> None:
    """Who carries one over stands still, and another one is made meanwhile."""
    log, seen = released(store)
    right, came = Amendments._is_undone, []

    def is_undone(self: Amendments, doc: Any) -> bool:
        found = right(self, doc)
        if not came:
            came.append(self)
            second = records_after([*log.records, *amended], "s", (b"second",), kind="amended")
            other.amend("s", Batch(second), Change(bodies=((2, b"second"),)), seen=seen, head=3, family=["s"])
        return found

    monkeypatch.setattr(Amendments, "_is_undone", is_undone)
    amended = log.next(b"amended", kind="amended")
    store.amend("s", Batch(amended), Change(bodies=((2, b"first"),)), seen=seen, head=2, family=["s"])
    for one in (store, other):
        assert [record.body for record in one.read("s")] == [b"1", b"second", b"amended", b"second"]


def test_a_reader_sees_a_log_before_or_after_an_amendment(store: Store, other: Store) -> None:
    log, seen = released(store)
    reading = other.read("s")
    assert next(reading).body == b"1"
    store.amend("s", Batch(log.next(b"a")), Change(bodies=((2, LONG[1:]),)), seen=seen, head=2, family=["s"])
    assert next(reading).body in (LONG, LONG[1:])


# --------------------------------------------------------------------------------------------------------- the inbox


def test_a_mark_is_sent_once_though_its_item_is_taken_meanwhile(store: Store, other: Store, monkeypatch) -> None:
    log, _ = released(store)
    inbox: Any = store._inbox  # type: ignore[attr-defined]
    right, came = inbox._was_sent, []

    def was_sent(*args: Any) -> bool:
        found: bool = right(*args)
        if not came:
            came.append(other.send("s", b"theirs", mark=b"m"))
            other.append("s", Batch(log.next(b"taken"), taken=(1,)), epoch=None, head=2)
        return found

    monkeypatch.setattr(inbox, "_was_sent", was_sent)
    assert store.send("s", b"mine", mark=b"m") is None
    assert (came, store.inbox("s")) == ([1], [])


def test_what_is_sent_while_a_commit_is_under_way_is_there(store: Store, other: Store) -> None:
    log, _ = released(store)
    store.send("s", b"one")
    with at("append.inside", lambda: other.send("s", LONG)):
        sent = store.append("s", Batch(log.next(b"3"), taken=(1,)), epoch=None, head=2)
    assert (sent, store.inbox("s")) == (2, [Item(2, LONG)])
    assert len(list(verified(store.read("s"), session="s", after=0, previous=GENESIS))) == 3
