"""The contract around another store: what comes in is sealed, what comes out is opened, and nothing else is different.

The other store sees ids, numbers, kinds, times, chain digests and lengths, and no content. Whatever is in clear there,
or is not where it was sealed for, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Final, TypeVar

from perdure.errors import ConflictError, DamageError, MissingError, SessionError, SessionUnknownError, StorePlainError
from perdure.log import Base, Record
from perdure.stores import refusals
from perdure.stores.around import Around
from perdure.stores.conditions import check_change
from perdure.stores.contract import Batch, Change, Head, Held, Item, Lease, Point, Store
from perdure.stores.keys import Given, Keys, keys_from
from perdure.stores.sealed import envelope
from perdure.stores.sealed.families import Families
from perdure.stores.sealed.family import OVERHEAD_BYTES, Family
from perdure.values.guard import ALLOW

T = TypeVar("T")


class SealedStore(Around):
    """Another store, any that keeps the contract, with everything in it sealed under `keys`: see `stores.keys`.

    It closes the other one with itself. Raises `StorePlainError` when there are sessions in clear, `KeyWrongError` when
    the key that the store was made with is not given.
    """

    def __init__(self, inner: Store, keys: Given) -> None:
        super().__init__(inner)
        ring = keys_from(keys)
        self.readable, self.keys, self.guard = False, ring, ALLOW
        self.ring: Final = ring
        self.families = Families(inner, ring)
        stored = inner.envelope()
        if stored is None:
            stored = self._begun(ring)
        envelope.opened(stored, ring, bound=envelope.OF_STORE)

    def _begun(self, keys: Keys) -> bytes:
        """Makes a store that has no sessions a sealed one, for good; unless another process has done so since."""
        if self.inner.heads():
            since = self.inner.envelope()
            if since is not None:
                return since
            raise StorePlainError(
                f"{self.url}: has sessions in clear, and a store is sealed whole or not at all; nothing was changed. "
                "Open it without keys, or bring them to a new one: perdure copy FROM TO --to-key KEY, "
                "all of them: perdure convert URL --protocol msgpack --to-key KEY"
            )
        new = envelope.closed(envelope.new_secrets(), keys.first, bound=envelope.OF_STORE)
        try:
            self.inner.put_envelope(None, new, seen=None)
        except ConflictError:  # another process was faster
            return self.inner.envelope() or new
        return new

    def chain_key(self, session: str) -> bytes | None:
        """See `Store.chain_key`. That of the family; of a session that is not there, of the one that it will found."""
        try:
            return self.families.sure(session).chain
        except SessionUnknownError:
            return self.families.pending(session).chain

    # --- sessions -----------------------------------------------------------------------------------------------------

    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """See `Store.create`. The first session of a family makes its keys, in a commit of its own."""
        lease = self.inner.create(session, owner=owner, family=family, epoch=epoch)
        self.families.again(session, name=family or session)
        return lease

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """See `Store.open`. A new session's keys come with it, in the same commit."""
        if seen is None:
            sealed = _sealed(self.families.pending(session), session, batch)
            sealed = replace(sealed, envelope=self.families.settled(session))
        else:
            sealed = _sealed(self.families.current(session), session, batch)
        return self.inner.open(session, sealed, owner=owner, seen=seen)

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """See `Store.fork`. It has the keys of its family."""
        sealed = _sealed(self.families.current(base.session), session, batch)
        self.inner.fork(session, sealed, base=base, epoch=epoch)

    def delete(self, session: str) -> None:
        """See `Store.delete`. With the last of a family its keys go: what a copy has of its rows is noise then."""
        self.inner.delete(session)
        self.families.forget(session)

    def head(self, session: str) -> Head:
        """See `Store.head`."""
        return self._with_summary(self.inner.head(session))

    def heads(self, *, prefix: str = "") -> list[Head]:
        """See `Store.heads`. A summary that cannot be opened is given as it is: it is that of no session."""
        found = []
        for head in self.inner.heads(prefix=prefix):
            try:
                found.append(self._with_summary(head))
            except DamageError:
                found.append(head)
            except SessionError:
                continue  # it was erased since
        return found

    def _with_summary(self, head: Head) -> Head:
        if not head.summary:
            return head
        name = head.session
        return replace(head, summary=self._opened(name, lambda family: family.open_summary(name, head.summary)))

    # --- the log ------------------------------------------------------------------------------------------------------

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """See `Store.append`."""
        sealed = _sealed(self.families.current(session), session, batch)
        return self.inner.append(session, sealed, epoch=epoch, head=head)

    def submit(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Future[int]:
        """See `Store.submit`."""
        sealed = _sealed(self.families.current(session), session, batch)
        return self.inner.submit(session, sealed, epoch=epoch, head=head)

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """See `Store.read`."""
        records = self.inner.read(session, after=after, upto=upto)
        return (self._record(session, record) for record in records)

    def read_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """See `Store.read_at`."""
        return [self._record(session, record) for record in self.inner.read_at(session, seqs)]

    def _record(self, session: str, record: Record) -> Record:
        return self._opened(session, lambda family: family.open_record(record))

    def points(self, session: str) -> list[Point]:
        """See `Store.points`."""
        found = self.inner.points(session)
        if all(point.name is None for point in found):
            return found
        return self._opened(session, lambda family: [_named(family, session, point) for point in found])

    def find(self, session: str, mark: bytes) -> list[int]:
        """See `Store.find`."""
        return self.inner.find(session, self.families.of(session).seal_mark(mark))

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """See `Store.marks`."""
        found = self.inner.marks(session)
        return self._opened(session, lambda family: [(family.open_mark(session, mark), seq) for mark, seq in found])

    # --- the inbox ----------------------------------------------------------------------------------------------------

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        """See `Store.send`."""
        family = self.families.sure(session) if self.forgets else self.families.current(session)
        sealed = None if mark is None else family.seal_sent(session, mark)
        return self.inner.send(session, family.seal_item(session, content), mark=sealed)

    def inbox(self, session: str, *, after: int = 0) -> list[Item]:
        """See `Store.inbox`."""
        return [Item(item.number, self._item(session, item)) for item in self.inner.inbox(session, after=after)]

    def _item(self, session: str, item: Item) -> bytes:
        return self._opened(session, lambda family: family.open_item(session, item.number, item.content))

    # --- chunks -------------------------------------------------------------------------------------------------------

    def put_chunks(self, session: str, chunks: Mapping[bytes, bytes], *, epoch: int | None) -> None:
        """See `Store.put_chunks`."""
        self.inner.put_chunks(session, _chunks(self.families.current(session), chunks), epoch=epoch)

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `Store.chunks`."""
        family, kept = self.families.of(session), {}
        for digest in digests:
            sealed = family.seal_address(digest)
            try:
                stored = self.inner.chunks(session, [sealed])[sealed]
            except MissingError as error:
                raise refusals.missing_chunk(session, digest=digest) from error
            kept[digest] = self._chunk(session, digest, stored)
        return kept

    def _chunk(self, session: str, digest: bytes, stored: bytes) -> bytes:
        return self._opened(session, lambda family: family.open_chunk(session, digest, stored))

    def chunk_sizes(self, session: str) -> dict[bytes, int]:
        """See `Store.chunk_sizes`. The lengths are those of what is sealed."""
        found = self.inner.chunk_sizes(session)
        family = self.families.of(session)
        return {family.open_address(session, sealed): size - OVERHEAD_BYTES for sealed, size in found.items()}

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """See `Store.drop_chunks`."""
        if seen:
            family = self.families.of(next(iter(seen)).session)
            digests = [family.seal_address(digest) for digest in digests]
        self.inner.drop_chunks(digests, seen=seen)

    # --- keeping house ------------------------------------------------------------------------------------------------

    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> None:
        """See `Store.amend`. What stands in the place of a body is bound to its record as the body was."""
        check_change(session, change, head=head)
        keys = self.families.current(session)
        bodies = dict(change.bodies)
        sealed = replace(
            change,
            bodies=tuple(
                (record.seq, keys.seal_record(record, bodies[record.seq]).body)
                for record in self.inner.read_at(session, list(bodies))
            ),
            marks=tuple((keys.seal_mark(mark), seq) for mark, seq in change.marks),
            chunks=_chunks(keys, change.chunks),
        )
        self.inner.amend(session, _sealed(keys, session, batch), sealed, seen=seen, head=head, family=family)

    def _opened(self, session: str, opening: Callable[[Family], T]) -> T:
        """What it gives for the session's keys; tried again with those that somebody may have added meanwhile."""
        family = self.families.of(session)
        try:
            return opening(family)
        except DamageError:
            newest = self.families.again(session, name=family.name)
            if newest is family:
                raise
        return opening(newest)


def _sealed(family: Family, session: str, batch: Batch) -> Batch:
    """The batch as the other store gets it. Whether it is right, that one judges."""
    return Batch(
        tuple(map(family.seal_record, batch.records)),
        tuple(
            Point(p.seq, p.parent, p.flags, family.seal_name(p.seq, p.name), p.time_us) if p.name is not None else p
            for p in batch.points
        ),
        tuple((family.seal_mark(mark), seq) for mark, seq in batch.marks),
        batch.keyframes,
        family.seal_summary(session, batch.summary),
        batch.taken,
        _chunks(family, batch.chunks),
    )


def _chunks(family: Family, chunks: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return {family.seal_address(address): family.seal_chunk(address, content) for address, content in chunks.items()}


def _named(family: Family, session: str, point: Point) -> Point:
    return replace(point, name=family.open_name(session, point.seq, point.name))
