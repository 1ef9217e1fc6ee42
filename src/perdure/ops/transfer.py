"""One session on its way from one place to another: a stream of its records, each after the chunks that it needs.

Nothing is translated: records and chunks stay what they are, so the log has the same digests everywhere. Indexes and
the summary are made anew from the records; the summary is written with the last of them, and a log without one is not
whole. It must not know what the stream comes out of or goes into but a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from perdure import faults, values
from perdure.errors import ConflictError, DamageError, SessionExistsError, SessionUnknownError
from perdure.log import dropped
from perdure.log.entry import Entry, opened
from perdure.log.marks import Marks
from perdure.log.record import GENESIS, Record, is_stub, verified
from perdure.log.summary import Summary
from perdure.session import needs
from perdure.session.lease import Keeper, acquire
from perdure.session.opening import summary_of
from perdure.session.snapshot import Reader, gone
from perdure.session.writer import keyframes_of, points_of
from perdure.stores.contract import Batch, Head, Lease, Store

BATCH_BYTES: Final = 8 << 20
"""Written in one commit: no more memory is held, and no other writer waits for longer."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Which log it is, and the record that it goes up to. `epoch` is that of the newest lease where it comes from."""

    session: str
    family: str
    seq: int
    chain: bytes
    epoch: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk under its address."""

    address: bytes
    frame: bytes


Item: TypeAlias = Chunk | Record


@dataclass(frozen=True, slots=True)
class Moved:
    """What was brought somewhere: the session, up to which record, and its bytes (bodies and chunks as stored)."""

    session: str
    records: int
    stored_bytes: int


def size(item: Item) -> int:
    """The bytes of an item, as stored."""
    return len(item.frame) if isinstance(item, Chunk) else len(item.body)


# --- out of a store ---------------------------------------------------------------------------------------------------


def sent(store: Store, session: str) -> tuple[Origin, Iterator[Item]]:
    """A log as it is at this moment, whoever goes on writing it. Every digest is checked on the way.

    Raises `SessionUnknownError`, `SessionErasedError`, and `DamageError` when a record or a chunk is not what was
    written.
    """
    head = store.head(session)
    summary_of(head, session)
    if not head.seq:
        raise SessionUnknownError(f"nothing was ever written to {session} in {store.url}")
    return Origin(session, head.family, head.seq, head.chain, head.epoch), _items(Reader(store, session), head)


def _items(reader: Reader, head: Head) -> Iterator[Item]:
    """Raises `ConflictError` when some of the log was dropped while it was read."""
    there: set[bytes] = set()
    chain = GENESIS
    try:
        for record in reader.records(after=0, upto=head.seq):
            for address in _needed(reader, record):
                if address not in there:
                    there.add(address)
                    yield Chunk(address, reader.sound_chunk(address))
            chain = record.chain
            yield record
    except DamageError as damage:
        _check_amended(reader, head, damage)
        raise
    if chain != head.chain:
        raise DamageError(f"{reader.session}: record {head.seq} is not the one that the head names")
    _check_amended(reader, head)


def _check_amended(reader: Reader, head: Head, damage: DamageError | None = None) -> None:
    """What was dropped since may be missing here without a record that says so."""
    if any(seq > head.seq for seq in reader.store.find(reader.session, dropped.MARK)):
        raise ConflictError(f"{reader.session}: some of it was dropped meanwhile; do it again") from damage


def _needed(reader: Reader, record: Record) -> Iterator[bytes]:
    dictionary = needs.dictionary(record)
    if dictionary is not None:
        yield dictionary
    if record.kind in needs.NAMING or is_stub(record.body):
        yield from needs.contents(reader.open(record))


# --- into a store -----------------------------------------------------------------------------------------------------


def received(
    store: Store, origin: Origin, items: Iterable[Item], *, keeper: Keeper, owner: str, lease_s: float
) -> Moved:
    """Takes a log in; durable on return, and free for whoever opens it next, in an epoch above that of its origin.

    What is cut off half-way is refused by everything that reads sessions, and goes on when the same log is received
    again. Raises `SessionExistsError`, `SessionErasedError`, `HeldError`, and `DamageError` when an item is not what
    was sent.
    """
    lease = _lease(store, origin, owner=owner, lease_s=lease_s)
    keeper.keep(lease)
    try:
        faults.reach("import.begun")
        return _Receiving(store, origin, lease, there=store.head(origin.session)).all(items)
    finally:
        keeper.let_go(lease)


def _lease(store: Store, origin: Origin, *, owner: str, lease_s: float) -> Lease:
    """Makes the session; or takes it, if it is one that was received half-way and that nobody goes on receiving."""
    try:
        return store.create(origin.session, owner=owner, family=origin.family, epoch=origin.epoch + 1)
    except SessionExistsError:
        head = store.head(origin.session)
        if head.summary or head.epoch <= origin.epoch:
            raise SessionExistsError(
                f"there is a session {origin.session} in {store.url} already; nothing was changed. "
                "Its id is part of its log: to have both, take another store"
            ) from None
    return acquire(store, origin.session, owner=owner, wait_s=0.0, lease_s=lease_s)


@dataclass(slots=True)
class _Receiving:
    """A log that is being taken in. `there` is its head: records of an earlier attempt are not written again."""

    store: Store
    origin: Origin
    lease: Lease
    there: Head
    summary: Summary = field(default_factory=Summary)
    marks: Marks = field(default_factory=Marks)
    known: set[bytes] = field(default_factory=set)
    chunks: dict[bytes, bytes] = field(default_factory=dict)
    records: list[tuple[Record, Entry, list[bytes]]] = field(default_factory=list)
    dictionary: values.Dictionary | None = None
    stubs: list[int] = field(default_factory=list)
    amended: list[Entry] = field(default_factory=list)
    written: int = 0
    waiting_bytes: int = 0
    moved_bytes: int = 0

    def all(self, items: Iterable[Item]) -> Moved:
        """Every item. The last records come in one commit with the summary."""
        session, seq, chain = self.origin.session, 0, GENESIS
        self.written = self.there.seq
        for record in verified(self._chunks_aside(items), session=session, after=0, previous=GENESIS):
            seq, chain = record.seq, record.chain
            self._take(record)
        if (seq, chain) != (self.origin.seq, self.origin.chain):
            raise DamageError(f"{session}: its records end with {seq}, not with {self.origin.seq} as was announced")
        self._check_dropped()
        if seq < self.there.seq:
            raise SessionExistsError(self._other(f"it has {self.there.seq} records, this log {seq}"))
        self._write(self.summary.encoded(session=session, seq=seq, chain=chain))
        return Moved(session, seq, self.moved_bytes)

    def _chunks_aside(self, items: Iterable[Item]) -> Iterator[Record]:
        """The records; chunks are taken on the way. Before one more comes, what has piled up is written."""
        for item in items:
            if self.waiting_bytes >= BATCH_BYTES:
                self._write(b"")
            self.moved_bytes += size(item)
            self.waiting_bytes += size(item)
            if isinstance(item, Chunk):
                self._take_chunk(item)
            else:
                yield item

    def _take_chunk(self, chunk: Chunk) -> None:
        if values.address(chunk.frame) != chunk.address:
            raise DamageError(f"{self.origin.session}: chunk {chunk.address.hex()} is not what was written")
        self.known.add(chunk.address)
        self.chunks[chunk.address] = chunk.frame

    def _take(self, record: Record) -> None:
        entry = self._opened(record)
        missing = next((address for address in needs.contents(entry) if address not in self.known), None)
        if missing is not None:
            raise DamageError(f"{record.session}: record {record.seq} needs chunk {missing.hex()}, which did not come")
        marks = self.marks.of(entry)
        self.summary = self.summary.after(entry).marked(marks, seq=record.seq)
        if record.seq > self.there.seq:
            self.records.append((record, entry, marks))
        elif record.seq == self.there.seq and record.chain != self.there.chain:
            raise SessionExistsError(self._other(f"its record {record.seq} is another"))

    def _opened(self, record: Record) -> Entry:
        """The entry; of a body that was dropped what stands for it: whether lawfully, is known at the end."""
        if is_stub(record.body):
            self.stubs.append(record.seq)
            return dropped.entry_of(record)
        entry = opened(record, dictionary=self._dictionary)
        if entry.kind == "amended":
            self.amended.append(entry)
        return entry

    def _check_dropped(self) -> None:
        lawful = dropped.Dropped(self.amended)
        lost = dropped.ranges(seq for seq in self.stubs if seq not in lawful)
        if lost:
            raise DamageError(gone(self.origin.session, *lost[0]))

    def _dictionary(self, address: bytes) -> values.Dictionary:
        """A chunk that came as the dictionary of a body: the last one is kept, as the next bodies need the same."""
        if self.dictionary is None or self.dictionary.digest != address:
            if address not in self.known:
                raise DamageError(f"{self.origin.session}: chunk {address.hex()}, a dictionary, did not come")
            frame = self.chunks.get(address) or self.store.chunks(self.origin.session, [address])[address]
            self.dictionary = values.Dictionary.from_chunk(frame)
        return self.dictionary

    def _write(self, summary: bytes) -> None:
        session, epoch = self.origin.session, self.lease.epoch
        if self.chunks:
            self.store.put_chunks(session, self.chunks, epoch=epoch)
            faults.reach("import.chunks")
        entries = [entry for _, entry, _ in self.records]
        batch = Batch(
            tuple(record for record, _, _ in self.records),
            points_of(entries),
            tuple((mark, entry.seq) for _, entry, marks in self.records for mark in marks),
            keyframes_of(entries),
            summary,
        )
        if summary or batch.records:
            self.store.append(session, batch, epoch=epoch, head=self.written)
            faults.reach("import.whole" if summary else "import.part")
        self.written += len(batch.records)
        self.chunks, self.records, self.waiting_bytes = {}, [], 0

    def _other(self, why: str) -> str:
        return (
            f"{self.origin.session} was once received half-way in {self.store.url}, from another log ({why}). "
            "Receive that one again, or take another store"
        )
