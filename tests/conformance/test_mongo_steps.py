"""A process that ends after any command that it sends: all of the operation is done or nothing, and it can be done."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pymongo.collection
import pytest

from perdure.errors import SessionUnknownError
from perdure.log import Base
from perdure.stores import Batch, Change, Store, open_store
from perdure.stores.mongo.amendments import Amendments
from perdure.stores.mongo.commits import Commits
from perdure.stores.mongo.layout import INLINE_BYTES, TAIL_BYTES, key_of
from perdure.stores.mongo.store import MongoStore
from perdure.testing.conformance.tools import Log, records_after
from tests.faults.operations import OPERATIONS, Operation, first_batch, free, held, nothing, picture

FULL = os.environ.get("PERDURE_STORM") == "full"
EVERY = 1 if FULL else 3
COMMANDS = ("find_one", "find", "insert_one", "insert_many", "update_one", "update_many", "replace_one", "delete_one")
COMMANDS += ("delete_many", "find_one_and_update", "bulk_write")
LONG = b"long" * INLINE_BYTES


class EndedError(BaseException):
    """Stands for the end of the process: nobody handles it."""


class Steps:
    """Counts the commands that are sent, and ends the process after one of them."""

    def __init__(self) -> None:
        self.sent, self.end_after = 0, 0

    def wrapped(self, command: Callable[..., Any]) -> Callable[..., Any]:
        def send(*args: Any, **kwargs: Any) -> Any:
            answer = command(*args, **kwargs)
            self.sent += 1
            if self.sent == self.end_after:
                raise EndedError
            return answer

        return send


@pytest.fixture
def steps(monkeypatch) -> Steps:
    found = Steps()
    for name in COMMANDS:
        method = getattr(pymongo.collection.Collection, name)
        monkeypatch.setattr(pymongo.collection.Collection, name, found.wrapped(method))
    return found


@pytest.fixture
def store(mongo_server) -> Iterator[Store]:
    with open_store(mongo_server.start().fresh_url()) as found:
        yield found


# ---------------------------------------------------------------------------------- operations that have more to them


def full(store: Store, session: str) -> Log:
    """A session whose document is as full as it gets, with an item in its inbox that has a mark and a long content."""
    log = held(store, session)
    store.send(session, LONG, mark=b"mark")
    while log.store._sessions.look(session).doc["size"] < TAIL_BYTES:  # type: ignore[attr-defined]
        log.append(bytes(INLINE_BYTES), LONG)
    return log


def full_and_free(store: Store, session: str) -> Log:
    log = full(store, session)
    store.release(log.lease)
    log.lease = store.lease(session)
    return log


def amended(store: Store, session: str, log: Log) -> None:
    """Both a body in the document's place and one elsewhere, to either."""
    last = len(log.records)
    bodies = ((1, b"short"), (2, LONG), (last - 1, LONG), (last, b""))
    change = Change(bodies, points=(1,), marks=((b"m", 1),), chunks={b"f" * 32: LONG})
    batch = Batch(log.next(b"amended"), taken=(2,), summary=b"after")
    store.amend(session, batch, change, seen=log.lease, head=last, family=[session])


def unheld(store: Store, session: str) -> None:
    """An amendment that nobody has carried over, and what a crash has left."""
    log = full_and_free(store, session)
    mine: Any = store
    there = mine._amendments.carry_over
    mine._keeping._amendments.carry_over = lambda _: None
    amended(store, session, log)
    mine._keeping._amendments.carry_over = there
    mine._parts.put(key_of(session), {7: LONG}, attempt=b"nobody's...!")


def forked(store: Store, session: str, log: Log) -> None:
    batch = Batch(records_after(log.records[:2], f"{session}f", (LONG,), kind="opened"), chunks={b"f" * 32: b"new"})
    store.fork(f"{session}f", batch, base=Base(session, 2), epoch=1)


def opened(store: Store, session: str, _: object) -> None:
    batch = replace(first_batch(session), chunks={b"f" * 32: LONG}, envelope=b"envelope")
    store.open(session, batch, owner="me", seen=None)


def appended(store: Store, session: str, log: Log) -> None:
    batch = Batch(log.next(b"more", LONG), taken=(2,), chunks={b"f" * 32: LONG})
    store.append(session, batch, epoch=1, head=len(log.records))


MORE = [
    Operation("open with all", nothing, opened),
    Operation("append to a full one", full, appended),
    Operation("fork with all", free, forked),
    Operation("amend all", full_and_free, amended),
    Operation("send long once", held, lambda store, s, _: store.send(s, LONG, mark=b"mark")),
    Operation("purge", unheld, lambda store, s, _: store.purge(s)),
    Operation("renew all", held, lambda store, s, log: store.renew_all([log.lease])),
]


# ------------------------------------------------------------------------------------------------------------ the walk


def without_chunks(found: str) -> str:
    """Those of a batch are there before its records: nobody sees one that nothing names."""
    return re.sub(r"'chunks': \[.*?\]", "", found)


class Walk:
    """Ends one operation after each of its commands, on a session of its own each time."""

    def __init__(self, store: Store, steps: Steps) -> None:
        self._store, self._steps = store, steps
        self.made: list[str] = []
        self.ended = 0

    def _next(self) -> str:
        self.made.append(f"s{len(self.made):05d}")
        return self.made[-1]

    def through(self, operation: Operation, *, first: int) -> None:
        """Raises `AssertionError` where it is neither done nor undone, or cannot be done then."""
        session = self._next()
        log = operation.prepare(self._store, session)
        before = picture(self._store, session)
        with self._ending(0):
            operation.act(self._store, session, log)
        commands, after = self._steps.sent, picture(self._store, session)
        for end_after in range(first, commands + 1, EVERY):
            self._end(operation, end_after, before=before, after=after)

    def _end(self, operation: Operation, end_after: int, *, before: str, after: str) -> None:
        session, where = self._next(), f"{operation}, ended after command {end_after}"
        log = operation.prepare(self._store, session)
        with pytest.raises(EndedError), self._ending(end_after):
            operation.act(self._store, session, log)
        self.ended += 1
        now = without_chunks(picture(self._store, session))
        assert now in map(without_chunks, (before, after)), where
        if now != without_chunks(after):
            operation.act(self._store, session, log)
            assert picture(self._store, session) == after, where
        self._go_on(session, after)

    def _go_on(self, session: str, after: str) -> None:
        """It is claimed and written to as ever."""
        if "Erased" not in after:
            seen, head = self._store.lease(session), self._store.head(session)
            lease = self._store.claim(session, owner="next", seen=seen)
            self._store.append(session, Batch((), summary=b"on", taken=()), epoch=lease.epoch, head=head.seq)

    @contextmanager
    def _ending(self, end_after: int) -> Iterator[None]:
        self._steps.sent, self._steps.end_after = 0, end_after
        try:
            yield
        finally:
            self._steps.end_after = 0


@pytest.mark.storm
def test_ended_after_any_command_it_is_done_or_can_be_done(store: Store, steps: Steps) -> None:
    walk = Walk(store, steps)
    for number, operation in enumerate([one for one in OPERATIONS if one.writes] + MORE):
        walk.through(operation, first=1 + number % EVERY)
    assert walk.ended > 40
    everything_goes(store, walk.made)


def everything_goes(store: Store, sessions: list[str]) -> None:
    """Whatever was ended in the middle, deletions too: deleting all leaves no document but tombstones."""
    forks = [head.session for head in store.heads() if head.bases]
    for session in [*forks, *sessions]:
        with suppress(SessionUnknownError):
            store.delete(session)
    assert isinstance(store, MongoStore)
    link = store._link
    left = {documents.name: documents.count_documents({}) for documents in store._place._documents()}
    assert {name: number for name, number in left.items() if number} == {
        "perdure_place": 1,
        "perdure_sessions": link.sessions.count_documents({"erased": True}),
    }


# --------------------------------------------------------------------------------------------- stores that are wrong


def test_an_amendment_that_changes_before_it_is_shown_is_caught(store: Store, steps: Steps, monkeypatch) -> None:
    right = Amendments.put

    def put(self: Amendments, key: bytes, change: Change, chunks: dict[bytes, bytes]) -> Any:
        self._link.index.update_many({"s": key}, {"$set": {"i": []}})
        return right(self, key, change, chunks)

    monkeypatch.setattr(Amendments, "put", put)
    (operation,) = (one for one in MORE if one.name == "amend all")
    walk = Walk(store, steps)
    with pytest.raises(AssertionError, match="amend all, ended after"):
        walk.through(operation, first=1)


def test_a_commit_that_counts_before_its_bodies_are_there_is_caught(store: Store, steps: Steps, monkeypatch) -> None:
    right, late = Commits.put_bodies, []

    def put_bodies(self: Commits, key: bytes, batch: Batch) -> Any:
        insert = self._parts._link.parts.insert_many
        monkeypatch.setattr(self._parts._link.parts, "insert_many", lambda docs, **_: late.append((insert, docs)))
        return right(self, key, batch)

    monkeypatch.setattr(Commits, "put_bodies", put_bodies)
    (operation,) = (one for one in MORE if one.name == "append to a full one")
    with pytest.raises(Exception, match="bytes 0 are there"):
        Walk(store, steps).through(operation, first=1)
