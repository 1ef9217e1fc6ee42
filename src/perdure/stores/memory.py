"""A store in this process's memory: the contract in dictionaries, for tests and for what may be lost.

It must not do anything that another store could not: the same conditions in the same order, everything or nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from perdure import faults
from perdure.log import Base, Record
from perdure.stores import refusals
from perdure.stores.conditions import (
    check_batch,
    check_change,
    check_fork,
    check_incarnation,
    check_opening,
    epoch_after,
)
from perdure.stores.contract import Batch, Change, Head, Held, Item, Lease, Point, Watch
from perdure.stores.ids import check_session_id
from perdure.stores.memory_copies import MemoryCopies
from perdure.stores.memory_rows import Opened, Place, Session, add, apply, record_at

_PLACES: Final[dict[str, Place]] = {}
_PLACES_LOCK: Final = threading.Lock()


def open_url(place: str, **options: Any) -> MemoryStore:
    """The store of "memory:" and "memory:name"."""
    return MemoryStore(place, **options)


class MemoryStore(MemoryCopies):
    """Sessions in memory. Stores of one `name` share them for the life of the process; "" is a fresh place each time.

    An acknowledged append is seen by every thread, and gone with the process.
    """

    durable = False

    def __init__(self, name: str = "") -> None:
        self.url = f"memory:{name}"
        self._closed = False
        with _PLACES_LOCK:
            self._place = _PLACES.setdefault(name, Place()) if name else Place()

    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """See `Store.create`."""
        check_session_id(session)
        check_session_id(family or session)
        with self._open() as place:
            self._check_new(session)
            epoch = epoch_after(epoch - 1, incarnation=place.incarnation)
            lease = Lease(session, epoch, refusals.named(owner), 0)
            place.sessions[session] = Session(family or session, lease, next(place.changes))
            return lease

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """See `Store.fork`."""
        check_session_id(session)
        with self._open() as place:
            self._check_new(session)
            source = self._session(base.session)
            check_fork(session, batch, base=base, own_from=source.seam + 1, head=source.end)
            made = Lease(session, epoch, "", 0)
            found = Session(source.family, made, next(place.changes), end=base.seq, base=base)
            add(place, found, batch)
            faults.reach("fork.inside")
            place.sessions[session] = found

    def claim(self, session: str, *, owner: str, seen: Lease) -> Lease:
        """See `Store.claim`."""
        with self._open() as place:
            found = self._session(session)
            if found.lease != seen:
                raise refusals.held(found.lease)
            epoch = epoch_after(seen.epoch, incarnation=place.incarnation)
            found.lease = Lease(session, epoch, refusals.named(owner), 0)
            place.bells.ring(session)
            return found.lease

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """See `Store.open`."""
        head = check_opening(check_session_id(session), batch, seen=seen)
        with self._open() as place:
            epoch = epoch_after(seen.epoch if seen else 0, incarnation=place.incarnation)
            lease = Lease(session, epoch, refusals.named(owner), 0)
            check_incarnation(session, batch, newest=epoch)
            if seen is None:
                self._check_new(session)
                if batch.envelope is not None and session in place.envelopes:
                    raise refusals.other_envelope(session)
                found = Session(session, lease, 0)
            else:
                found = self._as_seen(seen, head=head)
            self._write(place, found, batch, session=session)
            found.lease = lease
            place.sessions[session] = found
            if seen is None and batch.envelope is not None:
                place.envelopes[session] = batch.envelope
            place.bells.ring(session)
            return Held(lease, found.sent)

    def renew(self, lease: Lease) -> Lease:
        """See `Store.renew`."""
        with self._open():
            found = self._session(lease.session)
            if (found.lease.epoch, found.lease.owner) != (lease.epoch, lease.owner):
                raise refusals.fenced(found.lease, epoch=lease.epoch)
            found.lease = Lease(lease.session, lease.epoch, lease.owner, found.lease.counter + 1)
            return found.lease

    def release(self, lease: Lease) -> None:
        """See `Store.release`."""
        with self._open() as place:
            found = place.sessions.get(lease.session)
            if found and (found.lease.epoch, found.lease.owner) == (lease.epoch, lease.owner):
                found.lease = Lease(lease.session, lease.epoch, "", found.lease.counter + 1)
                place.bells.ring(lease.session)

    def lease(self, session: str) -> Lease:
        """See `Store.lease`."""
        with self._open():
            return self._session(session).lease

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """See `Store.append`."""
        check_batch(session, batch, head=head)
        with self._open() as place:
            found = self._held(session, epoch=epoch)
            check_incarnation(session, batch, newest=found.lease.epoch)
            if found.end != head:
                raise refusals.conflict(session, head=found.end, expected=head)
            self._write(place, found, batch, session=session)
            place.bells.ring(session)
            return found.sent

    @staticmethod
    def _write(place: Place, found: Session, batch: Batch, *, session: str) -> None:
        _check_taken(found, batch, session=session)
        faults.reach("append.inside")
        add(place, found, batch)
        found.changed = next(place.changes)
        for number in batch.taken:
            del found.inbox[number]

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        """See `Store.send`."""
        with self._open() as place:
            found = self._session(session)
            if mark in found.sent_marks:
                return None
            if mark is not None:
                found.sent_marks.add(mark)
            found.sent += 1
            found.inbox[found.sent] = Item(found.sent, content)
            place.bells.ring(session)
            return found.sent

    def inbox(self, session: str, *, after: int = 0) -> list[Item]:
        """See `Store.inbox`."""
        with self._open():
            return [item for number, item in self._session(session).inbox.items() if number > after]

    def watch(self, session: str) -> Watch:
        """See `Store.watch`. Whatever comes, comes from this process."""
        return self._place.bells.watch(session, polled=False)

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """See `Store.read`."""
        with self._open():
            end = self._session(session).end if upto is None else upto
            return chain.from_iterable([s.between(after, min(end, last)) for s, last in self._segments(session)])

    def read_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """See `Store.read_at`."""
        with self._open():
            segments = self._segments(session)
            return [record_at(session, segments, seq) for seq in seqs]

    def head(self, session: str) -> Head:
        """See `Store.head`."""
        with self._open():
            return self._head(session, self._session(session))

    def heads(self, *, prefix: str = "") -> list[Head]:
        """See `Store.heads`."""
        with self._open() as place:
            chosen = [(name, found) for name, found in place.sessions.items() if name.startswith(prefix)]
            chosen.sort(key=lambda pair: -pair[1].changed)
            return [self._head(name, found) for name, found in chosen]

    def points(self, session: str) -> list[Point]:
        """See `Store.points`."""
        with self._open():
            found: dict[int, Point] = {}
            for segment, last in self._segments(session):
                found |= {seq: point for seq, point in segment.points.items() if seq <= last}
            return [point for _, point in sorted(found.items())]

    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """See `Store.keyframes`."""
        with self._open():
            found: dict[int, int] = {}
            for segment, last in self._segments(session):
                found |= {of: record for of, record in segment.keyframes.items() if max(of, record) <= last}
            return sorted(found.items())

    def find(self, session: str, mark: bytes) -> list[int]:
        """See `Store.find`."""
        with self._open():
            found: set[int] = set()
            for segment, last in self._segments(session):
                found |= {seq for seq in segment.marks.get(mark, ()) if seq <= last}
            return sorted(found)

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """See `Store.marks`."""
        with self._open():
            found = {
                (mark, seq)
                for segment, last in self._segments(session)
                for mark, seqs in segment.marks.items()
                for seq in seqs
                if seq <= last
            }
            return list(found)

    def put_chunks(self, session: str, chunks: Mapping[bytes, bytes], *, epoch: int | None) -> None:
        """See `Store.put_chunks`."""
        with self._open() as place:
            family = self._held(session, epoch=epoch).family
            place.chunks.setdefault(family, {}).update(chunks)

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `Store.chunks`."""
        with self._open() as place:
            kept = place.chunks.get(self._session(session).family, {})
            wanted = list(digests)
            for digest in wanted:
                if digest not in kept:
                    raise refusals.missing_chunk(session, digest=digest)
            return {digest: kept[digest] for digest in wanted}

    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> None:
        """See `Store.amend`."""
        check_batch(session, batch, head=head)
        check_change(session, change, head=head)
        with self._open() as place:
            found = self._as_seen(seen, head=head)
            if set(self._kin(found.family)) != set(family):
                raise refusals.joined(session)
            _check_taken(found, batch, session=session)
            faults.reach("amend.inside")
            add(place, found, batch)
            for number in batch.taken:
                del found.inbox[number]
            apply(found, change)
            place.bells.ring(session)
            place.chunks.setdefault(found.family, {}).update(change.chunks)

    def chunk_sizes(self, session: str) -> dict[bytes, int]:
        """See `Store.chunk_sizes`."""
        with self._open() as place:
            kept = place.chunks.get(self._session(session).family, {})
            return {digest: len(content) for digest, content in kept.items()}

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """See `Store.drop_chunks`."""
        with self._open() as place:
            families = {self._as_seen(lease, head=head).family for lease, head in seen.items()}
            for family in families:
                if len(families) > 1 or set(self._kin(family)) != {lease.session for lease in seen}:
                    raise refusals.joined(family)
                faults.reach("sweep.inside")
                kept = place.chunks.get(family, {})
                place.chunks[family] = {digest: kept[digest] for digest in kept if digest not in digests}

    def envelope(self, session: str | None = None) -> bytes | None:
        """See `Store.envelope`."""
        with self._open() as place:
            return place.envelopes.get(None if session is None else self._session(session).family)

    def put_envelope(self, session: str | None, new: bytes, *, seen: bytes | None) -> None:
        """See `Store.put_envelope`."""
        with self._open() as place:
            family = None if session is None else self._session(session).family
            if place.envelopes.get(family) != seen:
                raise refusals.other_envelope(session or self.url)
            faults.reach("envelope.inside")
            place.envelopes[family] = new

    def incarnation(self) -> int:
        """See `Store.incarnation`."""
        with self._open() as place:
            return place.incarnation

    def begin_incarnation(self, number: int) -> None:
        """See `Store.begin_incarnation`."""
        with self._open() as place:
            place.incarnation = max(place.incarnation, number)

    def give_back(self, *, bytes_max: int) -> int:
        """See `Store.give_back`. Memory is given back by itself."""
        del bytes_max
        with self._open():
            return 0

    def delete(self, session: str) -> None:
        """See `Store.delete`."""
        with self._open() as place:
            if session in place.erased:
                return
            family = self._session(session).family
            forks = [name for name, found in place.sessions.items() if found.base and found.base.session == session]
            if forks:
                raise refusals.has_forks(session, forks=forks)
            faults.reach("erase.inside")
            del place.sessions[session]
            place.erased.add(session)
            place.bells.ring(session)
            if all(found.family != family for found in place.sessions.values()):
                place.chunks.pop(family, None)
                place.envelopes.pop(family, None)

    def close(self) -> None:
        """See `Store.close`. A named place stays for those who open it again."""
        self._closed = True

    def _open(self) -> Opened:
        if self._closed:
            raise refusals.closed(self.url)
        return Opened(self._place)

    def _session(self, session: str) -> Session:
        found = self._place.sessions.get(session)
        if found is not None:
            return found
        if session in self._place.erased:
            raise refusals.erased(session)
        raise refusals.unknown(session, url=self.url)

    def _as_seen(self, seen: Lease, *, head: int) -> Session:
        found = self._session(seen.session)
        if found.lease != seen:
            raise refusals.held(found.lease)
        if found.end != head:
            raise refusals.conflict(seen.session, head=found.end, expected=head)
        return found

    def _kin(self, family: str) -> list[str]:
        return [name for name, found in self._place.sessions.items() if found.family == family]

    def _check_new(self, session: str) -> None:
        if session in self._place.erased:
            raise refusals.erased(session)
        if session in self._place.sessions:
            raise refusals.exists(session)

    def _segments(self, session: str) -> list[tuple[Session, int]]:
        """Whose records the log is made of, the oldest first, each with the last of its records that count."""
        found = self._session(session)
        segments = [(found, found.end)]
        while found.base:
            last, found = found.seam, self._session(found.base.session)
            segments.insert(0, (found, last))
        return segments

    def _head(self, session: str, found: Session) -> Head:
        bases = tuple(s.base for s, _ in self._segments(session) if s.base)
        return Head(session, found.family, found.end, found.chain, found.lease.epoch, found.summary, bases)

    def _held(self, session: str, *, epoch: int | None) -> Session:
        found = self._session(session)
        if epoch is None:
            if found.lease.owner:
                raise refusals.held_by(found.lease)
            return found
        if found.lease.epoch != epoch or not found.lease.owner:
            raise refusals.fenced(found.lease, epoch=epoch)
        return found


def _check_taken(found: Session, batch: Batch, *, session: str) -> None:
    for number in batch.taken:
        if number not in found.inbox:
            raise refusals.taken(session, number=number)
