"""What the checks are made of: sessions to write to, odd bodies, ways to fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from perdure import faults
from perdure.errors import PerdureError
from perdure.log import GENESIS, Record, chained
from perdure.stores import Batch, Lease, Store

BODIES: Final = (b"", b"\0", bytes(range(256)), b"\xed\xa0\xbd", b"\xff" * 5000, b"'; DROP TABLE records; --", b"\r\n")
"""Bodies that a store might take for text."""


class Log:
    """A session with its lease, and what was appended to it as it must be found again."""

    def __init__(self, store: Store, session: str = "s", *, family: str | None = None) -> None:
        self.store, self.session = store, session
        self.lease = store.create(session, owner="writer", family=family)
        self.records: list[Record] = []

    def next(self, *bodies: bytes, kind: str = "note") -> tuple[Record, ...]:
        """Records that may be appended now."""
        return records_after(self.records, self.session, bodies, kind=kind)

    def append(self, *bodies: bytes, **parts: Any) -> None:
        """Appends them, with these other parts of the batch."""
        records = self.next(*bodies)
        self.store.append(self.session, Batch(records, **parts), epoch=self.lease.epoch, head=len(self.records))
        self.records += records

    def attempt(self, batch: Batch, *, epoch: int | None = None, head: int | None = None) -> None:
        """One append as given, which is expected to be refused."""
        epoch = self.lease.epoch if epoch is None else epoch
        self.store.append(self.session, batch, epoch=epoch, head=len(self.records) if head is None else head)

    def content(self) -> tuple[Any, ...]:
        """Everything that the store has of the session."""
        store, session = self.store, self.session
        points, keyframes = store.points(session), store.keyframes(session)
        return store.head(session), list(store.read(session)), points, keyframes, store.find(session, b"m")


def records_after(before: list[Record], session: str, bodies: tuple[bytes, ...], *, kind: str) -> tuple[Record, ...]:
    """Records with these bodies, chained to those before."""
    chain, seq, records = before[-1].chain if before else GENESIS, len(before), []
    for body in bodies:
        seq += 1
        record = chained(chain, session=session, seq=seq, epoch=1, kind=kind, time_us=1_700_000_000_000_000, body=body)
        records.append(record)
        chain = record.chain
    return tuple(records)


def same(found: object, expected: object) -> None:
    """Fails unless both are equal, and shows them."""
    if found != expected:
        raise AssertionError(f"expected {expected!r:.400}, found {found!r:.400}")


@contextmanager
def refused(kind: type[Exception], *, naming: str = "") -> Iterator[None]:
    """Fails unless the block raises exactly such an error, whose text holds `naming`."""
    try:
        yield
    except kind as error:
        if naming not in str(error):
            raise AssertionError(f"{error!r} does not name {naming!r}") from error
    else:
        raise AssertionError(f"expected {kind.__name__}, but it was done")


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What `count` threads return that start at the same moment."""
    barrier = threading.Barrier(count)

    def start(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


def every_use(store: Store, lease: Lease, *more: Callable[[], object]) -> list[Callable[[], object]]:
    """Every operation on a session that is there already, and these."""
    session = lease.session
    (first,) = records_after([], "s", (b"1",), kind="note")
    return [
        lambda: store.claim(session, owner="other", seen=lease),
        lambda: store.open(session, Batch((replace(first, session=session),)), owner="me", seen=lease),
        lambda: store.renew(lease),
        lambda: store.lease(session),
        lambda: store.append(session, Batch(()), epoch=lease.epoch, head=0),
        lambda: list(store.read(session)),
        lambda: store.read_at(session, [1]),
        lambda: store.head(session),
        lambda: store.points(session),
        lambda: store.keyframes(session),
        lambda: store.find(session, b"m"),
        lambda: store.send(session, b"c"),
        lambda: store.inbox(session),
        lambda: store.put_chunks(session, {b"d" * 32: b"c"}, epoch=lease.epoch),
        lambda: store.chunks(session, [b"d" * 32]),
        *more,
    ]


def outcome(work: Callable[[], object]) -> type[PerdureError] | None:
    """The class of the error with which the store refuses, None if it does not."""
    try:
        work()
    except PerdureError as error:
        return type(error)
    return None


@contextmanager
def interrupted(point: str) -> Iterator[None]:
    """Raises `InterruptedError` at this instant; fails if the store never reaches it."""
    reached = []

    def stop(name: str) -> None:
        if name == point:
            reached.append(name)
            raise InterruptedError(name)

    before, faults.hook = faults.hook, stop
    try:
        yield
    finally:
        faults.hook = before
    if not reached:
        raise AssertionError(f"the store does not call faults.reach({point!r}) before it commits")


class Place:
    """What a group of checks needs: how the store is opened."""

    def open(self, place: Path) -> Store:
        """The store at this place, made if it is not there. Given the same place again, the same sessions."""
        raise NotImplementedError
