"""Taking a log into a store, some at a time: what comes out of another store or a file.

Indexes and the summary are made anew from the records; the summary is written with the last of them, and until then it
stands there that the log is not whole. The sessions that a fork goes on from come first, each up to the place of the
next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from perdure import faults, values
from perdure.errors import DamageError, HeldError, SessionExistsError, SessionUnknownError, StoreFailedError
from perdure.log import dropped, readable, replaced
from perdure.log.action import Actions
from perdure.log.entry import Entry, opened
from perdure.log.marks import Marks
from perdure.log.origin import Base
from perdure.log.record import GENESIS, Record, is_replaced, is_stub, rechained, verified
from perdure.log.summary import Summary, unfinished
from perdure.ops.overtaken import Overtaken, left_over
from perdure.ops.transfer import Chunk, Item, Moved, Origin, Sent, mark_of, size
from perdure.session.keeping import needs
from perdure.session.keeping.lease import Keeper, acquire
from perdure.session.keeping.snapshot import Reader, gone, other
from perdure.session.keeping.writer import keyframes_of, points_of
from perdure.session.rules.shared import PREFIX
from perdure.stores.conditions import epoch_after
from perdure.stores.contract import Batch, Store
from perdure.stores.contract import Item as Waiting

if TYPE_CHECKING:
    from perdure.stores.contract import Head, Lease

BATCH_BYTES: Final = 8 << 20
"""Written in one commit: no more memory is held, and no other writer waits for longer."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who takes logs into a store: its name as an owner of sessions, and what keeps its leases."""

    store: Store
    keeper: Keeper
    owner: str
    lease_s: float


@dataclass(slots=True)
class _Session:
    """The session that is written now. Up to record `there` it was written in an earlier attempt, with this chain."""

    lease: Lease
    there: int
    chain: bytes
    written: int
    overtaken: Overtaken | None = None


def all_received(holder: Holder, logs: Iterable[Sent]) -> Moved:
    """Takes in a log with those that come before it. Raises as `received` does.

    Of those that are there already nothing is taken: they must have the same records, and more if they went on. One of
    a key of the whole store may be another, as long as it answers for all that this one answers for.
    """
    also, moved_bytes = list[str](), 0
    for log in logs:
        moved = received(holder, log.origin, log.items, beside=bool(log.follows))
        moved_bytes += moved.stored_bytes
        also += moved.also
        if not log.follows:
            return replace(moved, stored_bytes=moved_bytes, also=tuple(also))
        if moved.records:
            also.append(moved.session)
    raise DamageError("what was to be taken in ends before the session that was asked for")


def received(holder: Holder, origin: Origin, items: Iterable[Item], *, beside: bool = False) -> Moved:
    """Takes a log in; durable on return, and free for whoever opens it next, in an epoch above that of its origin.

    What is cut off half-way is refused by everything that reads sessions, and goes on when the same log is received
    again. One that is taken in `beside` another may be there already: then its records are 0. Raises
    `SessionExistsError`, `SessionErasedError`, `HeldError`, and `DamageError` when an item is not what
    was sent.
    """
    receiving = _Receiving(holder, origin, beside=beside)
    holder.keeper.give_back()
    try:
        return receiving.all(items)
    except StoreFailedError:
        holder.keeper.disown(receiving.session, owner=holder.owner)
        raise
    finally:
        receiving.let_go()


@dataclass(slots=True)
class _Receiving:
    """A log that is being taken in. `now` is None while its records are those of a session that is there already.

    `told` are the entries of a log of a key that is there already.
    """

    holder: Holder
    origin: Origin
    beside: bool = False
    told: list[Entry] = field(default_factory=list)
    now: _Session | None = None
    session: str = ""
    summary: Summary = field(default_factory=Summary)
    marks: Marks = field(default_factory=Marks)
    known: set[bytes] = field(default_factory=set)
    passed: set[bytes] = field(default_factory=set)
    chunks: dict[bytes, bytes] = field(default_factory=dict)
    records: list[tuple[Record, Entry, list[bytes]]] = field(default_factory=list)
    dictionary: values.Dictionary | None = None
    stubs: list[int] = field(default_factory=list)
    others: dict[int, bytes] = field(default_factory=dict)
    amended: list[Entry] = field(default_factory=list)
    also: list[str] = field(default_factory=list)
    waiting: list[bytes] = field(default_factory=list)
    chain_key: bytes | None = None
    waiting_bytes: int = 0
    moved_bytes: int = 0

    @property
    def store(self) -> Store:
        return self.holder.store

    def all(self, items: Iterable[Item]) -> Moved:
        """Every item. The last records of each session come in one commit with its summary."""
        origin, seq, chain = self.origin, 0, GENESIS
        self._check_new()
        self._begin(origin.bases[0].session if origin.bases else origin.session)
        told = GENESIS
        for sent in verified(
            self._chunks_aside(items),
            session=origin.session,
            after=0,
            previous=GENESIS,
            bases=origin.bases,
            key=origin.chain_key,
        ):
            told, record = sent.chain, self._rechained(sent, chain)
            if record.session != self.session:
                self._end(seq, chain)
                self._begin_fork(record, Base(self.session, seq))
            seq, chain = record.seq, record.chain
            self._take(record)
        if seq != origin.seq or origin.chain not in (told, None):
            raise DamageError(f"{origin.session}: its records end with {seq}, not with {origin.seq} as was announced")
        is_new = self.now is not None
        self._end(seq, chain)
        return Moved(origin.session, seq if is_new else 0, self.moved_bytes if is_new else 0, tuple(self.also))

    def _rechained(self, record: Record, previous: bytes) -> Record:
        """The record as it follows the one before it here: where chains have another key, or none, digests differ."""
        return record if self.chain_key == self.origin.chain_key else rechained(record, previous, key=self.chain_key)

    # --- the session that is written ----------------------------------------------------------------------------------

    def _check_new(self) -> None:
        """Raises `SessionExistsError` at once if the log is there, before the sessions that it goes on from come."""
        try:
            head = self.store.head(self.origin.session)
        except SessionUnknownError:
            return
        if not self.beside and (not is_half(head) or head.epoch <= self.origin.epoch):
            raise self._exists(self.origin.session)

    def _begin(self, session: str) -> None:
        """The first session: made, or gone on with if it was received half-way, or, for a fork, there already."""
        self.session = session
        origin, holder = self.origin, self.holder
        try:
            lease = self.store.create(session, owner=holder.owner, family=origin.family, epoch=origin.epoch + 1)
        except SessionExistsError:
            self.now = self._half(session)
        else:
            self._write_to(lease, there=0, chain=GENESIS)
        self.chain_key = self.store.chain_key(session)
        faults.reach("import.begun")

    def _begin_fork(self, first: Record, base: Base) -> None:
        """The next session, which begins with this record and goes on from there."""
        self.session = first.session
        try:
            batch = Batch((first,), summary=_more_to_come(first))
            epoch = epoch_after(self.origin.epoch, incarnation=self.store.incarnation())
            self.store.fork(first.session, batch, base=base, epoch=epoch)
        except SessionExistsError:
            self.now = self._half(first.session)
        else:
            lease = acquire(self.store, first.session, owner=self.holder.owner, wait_s=0.0, lease_s=self.holder.lease_s)
            self._write_to(lease, there=first.seq, chain=first.chain)

    def _write_to(self, lease: Lease, *, there: int, chain: bytes) -> None:
        self.holder.keeper.keep(lease)
        self.now = _Session(lease, there, chain, there)
        if self.session != self.origin.session:
            self.also.append(self.session)

    def _half(self, session: str) -> _Session | None:
        """The session that was received half-way; None if it is whole, as one that a fork goes on from may be."""
        head = self.store.head(session)
        if not is_half(head):
            if session == self.origin.session and not self.beside:
                raise self._exists(session)
            return None
        lease = acquire(self.store, session, owner=self.holder.owner, wait_s=0.0, lease_s=self.holder.lease_s)
        self._write_to(lease, there=head.seq, chain=head.chain)
        if self.now is not None:
            self.now.overtaken = Overtaken(head.seq)
        return self.now

    def _end(self, seq: int, chain: bytes) -> None:
        """The last record of this session has come."""
        if self.now is None:
            self.stubs.clear()  # what is there has bodies of its own
            self._check_same(seq, chain)
            return
        self._check_dropped()
        if seq < self.now.there:
            raise SessionExistsError(self._other(f"it has {self.now.there} records, this log {seq}"))
        self._write(self.summary.encoded(session=self.session, seq=seq, chain=chain), is_last=True)
        self.let_go()

    def let_go(self) -> None:
        """Gives the session back that is written now."""
        if self.now is not None:
            lease, self.now = self.now.lease, None
            self.holder.keeper.let_go(lease)

    def _check_same(self, seq: int, chain: bytes) -> None:
        head = self.store.head(self.session)
        if head.seq >= seq and self.store.read_at(self.session, [seq])[0].chain == chain:
            return
        if self.session == self.origin.session:
            self._check_answers()
        else:
            raise SessionExistsError(
                f"{self.origin.session} is a fork of {self.session} at record {seq}, and the {self.session} in "
                f"{self.store.url} has no such record; nothing was changed. Take another store"
            )

    def _check_answers(self) -> None:
        """A log of a key of the whole store is another one here: then its effect must stand here as it does there."""
        there = _answered(self.told)
        here = _answered(Reader(self.store, self.session).entries()) if self.told else set()
        if not self.told or there - here:
            what = "nothing is known here of an effect that it has" if self.told else "it has other records"
            raise SessionExistsError(
                f"there is a session {self.session} in {self.store.url} already, and {what}; nothing of it was "
                "changed. Take another store"
            )

    # --- items --------------------------------------------------------------------------------------------------------

    def _chunks_aside(self, items: Iterable[Item]) -> Iterator[Record]:
        """The records; chunks are taken on the way. Before one more comes, what has piled up is written."""
        for item in items:
            if self.waiting_bytes >= BATCH_BYTES:
                self._write(_more_to_come(self.records[-1][0]) if self.records else b"")
            self.moved_bytes += size(item)
            self.waiting_bytes += size(item) if self.now is not None else 0
            match item:
                case Chunk():
                    self._take_chunk(item)
                case Record():
                    yield item
                case Waiting():
                    self._send(item)

    def _send(self, item: Waiting) -> None:
        """Once, also when it was sent in an attempt before; it has another number here."""
        if self.now is not None:
            self.waiting.append(item.content)
            self.store.send(self.session, item.content, mark=mark_of(item))

    def _take_chunk(self, chunk: Chunk) -> None:
        if values.address(chunk.frame) != chunk.address:
            raise DamageError(f"{self.origin.session}: chunk {chunk.address.hex()} is not what was written")
        self.known.add(chunk.address)
        if self.now is None:
            self.passed.add(chunk.address)
        else:
            self.chunks[chunk.address] = chunk.frame

    def _take(self, record: Record) -> None:
        entry = self._opened(record)
        for address in (*needs.to_open(record), *needs.contents(entry)):
            self._check_there(record, address)
        marks = self.marks.of(entry)
        self.summary = self.summary.after(entry).marked(marks, seq=record.seq)
        if self.now is None:
            if self.beside and self.session.startswith(PREFIX):
                self.told.append(entry)
            return
        if self.now.overtaken is not None:
            self.now.overtaken.take(record, entry, marks)
        if record.seq > self.now.there:
            self.records.append((record, entry, marks))
        elif record.seq == self.now.there and record.chain != self.now.chain:
            raise SessionExistsError(self._other(f"its record {record.seq} is another"))

    def _check_there(self, record: Record, address: bytes) -> None:
        """A chunk of the base of a fork that was there already is there with it, and not stored again."""
        if address not in self.known:
            raise DamageError(f"{record.session}: record {record.seq} needs chunk {address.hex()}, which did not come")
        if self.now is not None and address in self.passed:
            self.store.chunks(self.session, [address])
            self.passed.discard(address)

    def _opened(self, record: Record) -> Entry:
        """The entry; of a body that was dropped what stands for it: whether lawfully, is known at the end."""
        if is_stub(record.body):
            self.stubs.append(record.seq)
            return dropped.entry_of(record)
        if is_replaced(record.body) and self.now is not None:
            self.others[record.seq] = replaced.digest_of(record.body)
        pickled = self.origin.is_own and self.store.protocol == values.PICKLE
        entry = opened(record, dictionary=self._dictionary, chunk=self._chunk, pickled=pickled)
        if entry.kind == "amended":
            self.amended.append(entry)
        return entry

    def _check_dropped(self) -> None:
        lawful = dropped.Dropped(self.amended) | Reader(self.store, self.session).dropped_by_bases()
        lost = dropped.ranges(seq for seq in self.stubs if seq not in lawful)
        if lost:
            raise DamageError(gone(self.session, *lost[0]))
        here = replaced.Replaced(self.amended)
        for seq, digest in self.others.items():
            if not here.says(seq, digest):
                raise DamageError(
                    f"{other(self.session, seq)}. If it was, after the place of a fork that is brought here: bring the "
                    "session that it goes on from first"
                )

    def _dictionary(self, address: bytes) -> values.Dictionary:
        """A chunk that came as the dictionary of a body: the last one is kept, as the next bodies need the same."""
        if self.dictionary is None or self.dictionary.digest != address:
            self.dictionary = values.Dictionary.from_chunk(self._chunk(address))
        return self.dictionary

    def _chunk(self, address: bytes) -> bytes:
        """A chunk that came, and that a body needs to be read."""
        if address not in self.known:
            raise DamageError(f"{self.session}: chunk {address.hex()}, which a body needs, did not come")
        return self.chunks.get(address) or self.store.chunks(self.session, [address])[address]

    def _write(self, summary: bytes, *, is_last: bool = False) -> None:
        if self.now is None:
            return
        epoch = self.now.lease.epoch
        if self.chunks:
            self.store.put_chunks(self.session, self.chunks, epoch=epoch)
            faults.reach("import.chunks")
        entries = [entry for _, entry, _ in self.records]
        batch = Batch(
            tuple(record for record, _, _ in self.records),
            points_of(entries),
            tuple((mark, entry.seq) for _, entry, marks in self.records for mark in marks),
            keyframes_of(entries),
            summary,
            views=tuple(map(readable.view, entries)) if self.store.readable else (),
        )
        if summary or batch.records:
            self._append(self.now, batch, is_last=is_last)
            faults.reach("import.whole" if is_last else "import.part")
        self.now.written += len(batch.records)
        self.chunks, self.records, self.waiting_bytes = {}, [], 0

    def _append(self, now: _Session, batch: Batch, *, is_last: bool) -> None:
        """The last batch of a session that was received half-way brings what has changed of that half, too."""
        lease, overtaken, head = now.lease, now.overtaken, now.written
        if is_last and overtaken is not None:
            batch = replace(batch, taken=left_over(self.store, self.session, self.waiting))
        if not (is_last and overtaken is not None and overtaken.is_amended):
            self.store.append(self.session, batch, epoch=lease.epoch, head=head)
            return
        batch, change = overtaken.change(self.store, self.session, batch)
        family = [head.session for head in self.store.heads() if head.family == self.origin.family]
        while True:
            with suppress(HeldError):  # it is ours: its counter has moved
                self.store.amend(self.session, batch, change, seen=self._newest(lease), head=head, family=family)
                return

    def _newest(self, lease: Lease) -> Lease:
        """Our lease as it is now. Raises `FencedError` when it is another's."""
        now = self.store.lease(self.session)
        return now if (now.epoch, now.owner) == (lease.epoch, lease.owner) else self.store.renew(lease)

    # --- refusing -----------------------------------------------------------------------------------------------------

    def _exists(self, session: str) -> SessionExistsError:
        return SessionExistsError(
            f"there is a session {session} in {self.store.url} already; nothing was changed. "
            "Its id is part of its log: to have both, take another store"
        )

    def _other(self, why: str) -> str:
        return (
            f"{self.session} was once received half-way in {self.store.url}, from another log ({why}). "
            "Receive that one again, or take another store"
        )


def _answered(entries: Iterable[Entry]) -> set[bytes]:
    """The keys whose effects stand, or may."""
    return {action.key for action in Actions(entries).values() if action.key is not None and action.standing}


def _more_to_come(last: Record) -> bytes:
    """What stands in place of the summary while this is not the last record of its session."""
    return unfinished(session=last.session, seq=last.seq, chain=last.chain)


def is_half(head: Head) -> bool:
    """Whether more of this log is to come. Where the head is damaged nothing is known, so nothing is gone on with."""
    if head.seq == 0:
        return (head.chain, head.summary) == (GENESIS, b"")
    return head.summary == unfinished(session=head.session, seq=head.seq, chain=head.chain)
