"""Copies of sessions that are kept elsewhere, in a store in memory. It knows no session of the place itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence

from perdure.log import Record
from perdure.stores import refusals
from perdure.stores.contract import Head, Lease
from perdure.stores.hot import Copy, HotStore
from perdure.stores.memory_rows import Opened, Session


class MemoryCopies(HotStore):
    """The part of `MemoryStore` that makes it one to stand in front."""

    @abstractmethod
    def _open(self) -> Opened: ...

    @abstractmethod
    def _check_new(self, session: str) -> None: ...

    @abstractmethod
    def _head(self, session: str, found: Session) -> Head: ...

    def adopt(self, head: Head, lease: Lease) -> None:
        """See `HotStore.adopt`."""
        with self._open() as place:
            self._check_new(head.session)
            place.sessions[head.session] = Session(
                head.family,
                lease,
                next(place.changes),
                end=head.seq,
                chain=head.chain,
                summary=head.summary,
                is_copy=True,
            )

    def hand(self, seen: Lease, lease: Lease) -> None:
        """See `HotStore.hand`."""
        with self._open() as place:
            _as_seen(place.sessions.get(seen.session), seen).lease = lease

    def fill(self, seen: Lease, *, records: Sequence[Record] = (), chunks: Mapping[bytes, bytes] | None = None) -> None:
        """See `HotStore.fill`."""
        with self._open() as place:
            found = _as_seen(place.sessions.get(seen.session), seen)
            for record in records:
                if record.seq <= found.end:
                    found.records.setdefault(record.seq, record)
            kept = place.chunks.setdefault(found.family, {})
            for digest, content in (chunks or {}).items():
                kept.setdefault(digest, content)

    def thin(self, seen: Lease, *, below: int, chunks: Collection[bytes] = ()) -> None:
        """See `HotStore.thin`."""
        with self._open() as place:
            found = _as_seen(place.sessions.get(seen.session), seen)
            found.records = {seq: record for seq, record in found.records.items() if seq >= below}
            for digest in chunks:
                place.chunks.get(found.family, {}).pop(digest, None)

    def forget(self, seen: Lease, *, head: int) -> None:
        """See `HotStore.forget`."""
        with self._open() as place:
            if seen.session not in place.sessions:
                return
            found = _as_seen(place.sessions[seen.session], seen)
            if found.end != head:
                raise refusals.conflict(seen.session, head=found.end, expected=head)
            del place.sessions[seen.session]
            if all(other.family != found.family for other in place.sessions.values()):
                place.chunks.pop(found.family, None)

    def wipe(self) -> None:
        """See `HotStore.wipe`. Memory has nothing left."""

    def copy(self, session: str) -> Copy | None:
        """See `HotStore.copy`."""
        with self._open() as place:
            found = place.sessions.get(session)
            return Copy(found.lease, self._head(session, found)) if found and found.is_copy else None

    def copies(self) -> list[tuple[Copy, int]]:
        """See `HotStore.copies`."""
        with self._open() as place:
            found = [(name, one) for name, one in place.sessions.items() if one.is_copy]
            found.sort(key=lambda pair: -pair[1].changed)
            return [(Copy(one.lease, self._head(name, one)), _size(one)) for name, one in found]


def _as_seen(found: Session | None, seen: Lease) -> Session:
    if found is None or not found.is_copy or found.lease != seen:
        raise refusals.held(Lease(seen.session, 0, "", 0) if found is None else found.lease)
    return found


def _size(found: Session) -> int:
    return sum(len(record.body) for record in found.records.values())
