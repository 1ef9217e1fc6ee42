"""A connection that breaks at any request of any operation: it is done, once, and says what it would have said."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

import pytest

from perdure.errors import DamageError, StoreFailedError
from perdure.stores import Batch, Store, open_store
from perdure.testing.broken import Passing
from tests.faults.operations import OPERATIONS, Operation, picture
from tests.servers.places import POOLER, REDIS, SERVERS, Place
from tests.servers.proxy import AFTER, BREAKS, Proxy
from tests.servers.server import fresh_name

pytestmark = pytest.mark.storm
FULL = os.environ.get("PERDURE_STORM") == "full"
PLACES = [*SERVERS, POOLER] if FULL else SERVERS
READY_S_MAX = 30.0
REQUESTS_MAX = 200
"""So many are made by an operation that has no end; fewer by one that waits and looks again, as deleting does."""

REQUESTS = range(1, REQUESTS_MAX + 1) if FULL else (1, 2, 5, 12, 30, 64)
"""At which request of an operation the connection breaks, as long as it makes so many."""


class Bench:
    """A place that is reached in two ways: directly, and by one that breaks."""

    def __init__(self, direct: Store, store: Store, proxy: Proxy) -> None:
        self.direct, self.store, self.proxy = direct, store, proxy
        self._sessions = (f"s{n:05d}" for n in count())

    def ready(self) -> None:
        """All is well, and the store knows it."""
        self.proxy.mend()
        until = time.monotonic() + READY_S_MAX
        while True:
            try:
                self.store.heads(prefix="nobody")
            except StoreFailedError:
                assert time.monotonic() < until
            else:
                return

    def unharmed(self, operation: Operation) -> tuple[str, str]:
        """What it says, and what comes of it."""
        session = next(self._sessions)
        log = operation.prepare(self.direct, session)
        self.ready()
        said = repr(operation.act(self.store, session, log)).replace(session, "S")
        return said, picture(self.direct, session)

    def broken(self, operation: Operation, at: int, how: str, *, stays: bool = False) -> tuple[str, str] | None:
        """The same, when the connection breaks at a request; None: it makes no so many requests."""
        session = next(self._sessions)
        log = operation.prepare(self.direct, session)
        self.ready()
        self.proxy.arm(at, how, stays=stays)
        try:
            said = repr(operation.act(self.store, session, log)).replace(session, "S")
        except Exception as error:  # noqa: BLE001 - compared with what is right
            said = f"{type(error).__name__}: {error}"
        if not self.proxy.fired:
            return None
        self.proxy.mend()
        return said, picture(self.direct, session)

    def untouched(self, operation: Operation) -> str:
        """A picture of what it is done to."""
        session = next(self._sessions)
        operation.prepare(self.direct, session)
        return picture(self.direct, session)

    def sweep(self, operation: Operation, hows: tuple[str, ...]) -> int:
        """Breaks it everywhere; how often that was. Raises `AssertionError` where it is not as it is unharmed."""
        right, broken = self.unharmed(operation), 0
        for how in hows:
            for at in REQUESTS:
                found = self.broken(operation, at, how)
                if found is None:
                    break
                broken += 1
                assert found == right, f"{operation}, broken {how} request {at}"
                assert at < REQUESTS_MAX, f"{operation} makes more and more requests"
        return broken


@contextmanager
def bench(place: Place, options: str = "") -> Iterator[Bench]:
    """A fresh place on its server."""
    assert place.server is not None
    name = fresh_name()
    with (
        Proxy(place.server.host, place.server.port) as proxy,
        open_store(place.server.url(name)) as direct,
        open_store(place.server.url(name, port=proxy.port) + options) as store,
    ):
        yield Bench(direct, store, proxy)


@pytest.mark.parametrize("place", PLACES, indirect=True, ids=repr)
def test_wherever_the_connection_breaks_it_is_done_once(place: Place) -> None:
    with bench(place) as one:
        found = {operation.name: one.sweep(operation, BREAKS if FULL else (AFTER,)) for operation in OPERATIONS}
    assert all(found.values()), found


@pytest.mark.parametrize("place", PLACES, indirect=True, ids=repr)
def test_if_it_stays_broken_all_is_done_or_nothing(place: Place) -> None:
    with bench(place, options="&busy_s=0.1") as one:
        for operation in (operation for operation in OPERATIONS if operation.writes):
            before, right = one.untouched(operation), one.unharmed(operation)
            for at in REQUESTS if FULL else (1,):
                found = one.broken(operation, at, AFTER, stays=True)
                if found is None:
                    break
                if found == right:
                    continue  # all was said before that request
                said, now = found
                assert said.startswith("StoreFailedError"), f"{operation}, broken for good after request {at}"
                ahead = with_chunks_of(right[1], before)
                assert now in (before, ahead, right[1]), f"{operation}, broken for good after request {at}"


def with_chunks_of(after: str, before: str) -> str:
    """A picture in which only the chunks are there: they may be kept ahead of the records that name them."""
    chunks = re.search(r"'chunks': .*?, 'envelope'", after)
    return re.sub(r"'chunks': .*?, 'envelope'", lambda _: chunks[0] if chunks else "", before, count=1)


class WritesAgain(Passing):
    """Takes an outcome that is unknown for none."""

    def __init__(self, right: Store, mend: Callable[[], None]) -> None:
        super().__init__(right)
        self._mend = mend

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        try:
            return super().append(session, batch, epoch=epoch, head=head)
        except StoreFailedError:
            self._mend()
            more = (replace(record, seq=self.head(session).seq + n) for n, record in enumerate(batch.records, 1))
            return super().append(session, Batch(tuple(more)), epoch=epoch, head=self.head(session).seq)

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        try:
            return super().send(session, content, mark=mark)
        except StoreFailedError:
            self._mend()
            return super().send(session, content)


@pytest.mark.parametrize("place", [REDIS], indirect=True, ids=repr)
@pytest.mark.parametrize("name", ["append", "send"])
def test_a_store_that_writes_again_after_an_unknown_outcome_is_caught(place: Place, name: str) -> None:
    (operation,) = (operation for operation in OPERATIONS if operation.name == name)
    with bench(place, options="&busy_s=0.1") as one:
        one.unharmed(operation)
        one.store = WritesAgain(one.store, one.proxy.mend)
        right = one.unharmed(operation)
        try:
            assert one.broken(operation, 1, AFTER, stays=True) != right
        except DamageError:
            assert name == "append"
