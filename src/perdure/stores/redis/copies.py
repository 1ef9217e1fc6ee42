"""Copies of sessions that are kept elsewhere, on a Redis server: sessions that say where they began, and have no base.

It knows the scripts, and no session of the place itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from perdure.log import Record
from perdure.stores.contract import Head, Lease
from perdure.stores.hot import Copy, HotStore
from perdure.stores.redis import rows
from perdure.stores.redis.reader import Reader
from perdure.stores.redis.scripts import Word

_FILLED_BYTES: Final = 4 << 20
_FIELDS: Final = ("epoch", "owner", "counter", "family", "seq", "chain", "epoch", "summary", "base", "seam")


class RedisCopies(Reader, HotStore):
    """The part of `RedisStore` that makes it one to stand in front."""

    @abstractmethod
    def _write(
        self,
        name: str,
        session: str,
        args: tuple[Word, ...],
        *,
        receipt: bool = True,
        lasts: bool = True,
        point: str | None = None,
        epoch: int = 0,
        head: int = 0,
    ) -> list[Any]: ...

    @abstractmethod
    def _scrub(self, done: str) -> None: ...

    def adopt(self, head: Head, lease: Lease) -> None:
        """See `HotStore.adopt`."""
        place = (self._id(head.session), self._id(head.family), head.seq, head.chain, head.summary)
        self._write("adopt", head.session, (*place, *lease_words(lease)))

    def hand(self, seen: Lease, lease: Lease) -> None:
        """See `HotStore.hand`."""
        self._write("hand", seen.session, (self._id(seen.session), *lease_words(seen), *lease_words(lease)))

    def fill(self, seen: Lease, *, records: Sequence[Record] = (), chunks: Mapping[bytes, bytes] | None = None) -> None:
        """See `HotStore.fill`. Some megabytes at a time."""
        place = (self._id(seen.session), *lease_words(seen))
        for some in _slices([*rows.stored(records)]):
            self._write("fill", seen.session, (*place, len(some), *some), receipt=False)
        for some in _slices([word for pair in (chunks or {}).items() for word in pair]):
            self._write("fill", seen.session, (*place, 0, *some), receipt=False)

    def thin(self, seen: Lease, *, below: int, chunks: Collection[bytes] = ()) -> None:
        """See `HotStore.thin`."""
        args = (self._id(seen.session), *lease_words(seen), below, *chunks)
        self._write("thin", seen.session, args, receipt=False, lasts=False)

    def forget(self, seen: Lease, *, head: int) -> None:
        """See `HotStore.forget`."""
        args = (self._id(seen.session), *lease_words(seen), head)
        self._write("forget", seen.session, args, receipt=False, lasts=False, head=head)

    def wipe(self) -> None:
        """See `HotStore.wipe`. Memory has nothing left; the server's files are written anew."""
        self._scrub("forgotten")

    def copy(self, session: str) -> Copy | None:
        """See `HotStore.copy`."""
        told = self._ask("copy", session)
        return _copy(session, told) if told else None

    def copies(self) -> list[tuple[Copy, int]]:
        """See `HotStore.copies`. Bytes are those of the server's memory."""
        listed = self._plain(("ZREVRANGE", self._key("sessions"), 0, -1))
        names = [rows.text(name, f"{self.url}: the name of a session") for name in listed]
        commands: list[tuple[Word, ...]] = [("HMGET", self._key(f"session:{name}"), *_FIELDS) for name in names]
        found = zip(names, self._link.look(*commands) if commands else (), strict=True)
        there = [_copy(name, row[:8]) for name, row in found if row[0] is not None and not row[8] and row[9]]
        sizes = [("MEMORY", "USAGE", self._key(f"records:{copy.lease.session}")) for copy in there]
        used = self._link.look(*sizes) if sizes else []
        return [
            (copy, rows.number(size or 0, f"{self.url}: what it uses")) for copy, size in zip(there, used, strict=True)
        ]


def lease_words(lease: Lease) -> tuple[Word, ...]:
    """A lease as arguments of a script."""
    return lease.epoch, rows.blob(lease.owner), lease.counter


def _copy(session: str, told: Sequence[Any]) -> Copy:
    return Copy(rows.lease(session, *told[:3]), rows.head(session, told[3:8], ()))


def _slices(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Pairs of words, a few megabytes of them at a time."""
    some: list[Word] = []
    size = 0
    for place in range(0, len(words), 2):
        pair = words[place : place + 2]
        some += pair
        size += sum(len(word) for word in pair if isinstance(word, bytes))
        if size > _FILLED_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
