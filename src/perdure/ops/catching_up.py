"""The rest of a log that was brought to a store before: what was written to it since, and what was dropped since.

Each commit leaves a log that is whole up to some record, so whoever is cut off has a copy that can be used, and goes on
from there. What is there must be what the other store has, up to where it ends.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from perdure import faults
from perdure.errors import ConflictError, DamageError, SessionError, SessionExistsError, StoreFailedError
from perdure.log import dropped, readable
from perdure.log.origin import seam_of
from perdure.log.record import body_digest, is_stub, rechained
from perdure.ops.collection import sweep
from perdure.ops.receiving import BATCH_BYTES
from perdure.ops.transfer import Moved, at_once, mark_of
from perdure.session.keeping import needs
from perdure.session.keeping.lease import acquire, is_dead
from perdure.session.keeping.opening import summary_of, told
from perdure.session.keeping.snapshot import Reader
from perdure.session.keeping.writer import keyframes_of, points_of
from perdure.session.rules import item as items
from perdure.stores.conditions import incarnation_of
from perdure.stores.contract import Batch, Change

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from perdure.log.entry import Entry
    from perdure.log.record import Record
    from perdure.log.summary import Summary
    from perdure.ops.receiving import Holder
    from perdure.stores.contract import Head, Item, Lease, Store


@dataclass(slots=True)
class _Copy:
    """A session and its copy in another store, which ends where `there` says. `end` is the summary of the first.

    Up to `pinned` forks go on from it that are there alone: what they need stays, whatever was dropped here.
    """

    source: Store
    target: Store
    head: Head
    there: Head
    end: Summary
    reader: Reader
    moved_bytes: int = 0
    freed: bool = False
    pinned: int = 0
    known: set[bytes] = field(default_factory=set)
    walked: set[bytes] = field(default_factory=set)
    arrived: list[Item] = field(default_factory=list)

    @property
    def session(self) -> str:
        return self.head.session


def caught_up(holder: Holder, source: Store, session: str, *, kin: Collection[str]) -> Moved:
    """Brings a copy up to where the session is at this moment; durable on return.

    `kin` are the sessions of its family there; if there are others by now it is a `ConflictError` where that matters.
    Records 0: it was. Raises `SessionExistsError` when the copy is none, or has been gone on with; `HeldError` when
    somebody has it, `ConflictError` when something was dropped meanwhile: then do it again; `DamageError`.
    """
    head, waiting = at_once(source, session)
    there = holder.store.head(session)
    copy = _Copy(source, holder.store, head, there, summary_of(head, session), Reader(source, session, head=head))
    summary_of(there, session)
    _check_same(copy)
    if there.seq < head.seq:
        holder.keeper.give_back()
        try:
            _go_on(holder, copy, kin)
        except StoreFailedError:
            holder.keeper.disown(session, owner=holder.owner)
            raise
    still(holder.store, session, waiting=waiting)
    return Moved(session, head.seq - there.seq, copy.moved_bytes, freed=copy.freed)


def _check_same(copy: _Copy) -> None:
    """Raises `SessionExistsError` unless the newest record there is the one of this number here."""
    head, there = copy.head, copy.there
    if there.seq <= head.seq and (head.family, seam_of(head.bases)) == (there.family, seam_of(there.bases)):
        here = copy.source.read_at(copy.session, [there.seq])[0]
        found = copy.target.read_at(copy.session, [there.seq])[0]
        if copy.target.chain_key(copy.session) == copy.reader.chain_key:
            if here.chain == found.chain == there.chain:
                return
        elif _told_of(here) == _told_of(found):
            return
    raise SessionExistsError(
        f"there is a session {copy.session} in {copy.target.url} already, and it is another, or it was gone on with "
        "there; nothing of it was changed. Its id is part of its log: to have both, take another store"
    )


def _told_of(record: Record) -> tuple[int, str, int, bytes]:
    """What two records have in common if only the keys of their chains differ."""
    return record.epoch, record.kind, record.time_us, body_digest(record.body)


def _go_on(holder: Holder, copy: _Copy, kin: Collection[str]) -> None:
    copy.known = set(copy.target.chunk_sizes(copy.session))
    copy.arrived = copy.target.inbox(copy.session)
    lease = _taken(holder, copy)
    try:
        faults.reach("copy.taken")
        amended = [e for e in copy.reader.marked(dropped.MARK) if copy.there.seq < e.seq <= copy.head.seq]
        if amended:
            copy.pinned = _pinned(copy, kin)
            _amend(copy, lease, amended, kin)
        else:
            _append(copy, lease)
    finally:
        copy.target.release(lease)
    if amended:
        forget(copy.target, copy.session, kin)
        copy.freed = True


def _pinned(copy: _Copy, kin: Collection[str]) -> int:
    """Up to where forks need the copy that are not here: they were erased here, or made there."""
    heads = (copy.target.head(session) for session in kin)
    return max((_base_of(head, copy.session) for head in heads if not _is_in(copy.source, head.session)), default=0)


def _base_of(head: Head, session: str) -> int:
    return max((base.seq for base in head.bases if base.session == session), default=0)


def _is_in(store: Store, session: str) -> bool:
    """Whether a session is there, damaged or not."""
    with suppress(DamageError):
        try:
            store.head(session)
        except SessionError:
            return False
    return True


def _taken(holder: Holder, copy: _Copy) -> Lease:
    """The copy, held in an epoch above all that the session was held in: whoever goes on with it has one of its own."""
    target = copy.target
    if (number := incarnation_of(copy.head.epoch)) > target.incarnation():
        target.begin_incarnation(number)
    lease = acquire(target, copy.session, owner=holder.owner, wait_s=0.0, lease_s=holder.lease_s)
    while lease.epoch <= copy.head.epoch:
        lease = target.claim(copy.session, owner=holder.owner, seen=lease)
    return lease


def still(target: Store, session: str, *, waiting: list[Item]) -> None:
    """Brings what waits in the inbox of a session to a copy that has all of its log.

    Whoever brought that may have been killed before he gave it back.
    """
    lease = target.lease(session)
    if lease.owner and is_dead(lease.owner):
        target.release(lease)
    for item in waiting:
        target.send(session, item.content, mark=mark_of(item))


def _records(copy: _Copy) -> Iterator[tuple[Record, Entry, dict[bytes, bytes]]]:
    """What is missing there: each record as it goes on there, with the chunks that are not there yet."""
    chain, key = copy.there.chain, copy.target.chain_key(copy.session)
    is_same = key == copy.reader.chain_key
    for record in copy.reader.records(after=copy.there.seq, upto=copy.head.seq, chain=copy.head.chain):
        entry = copy.reader.open(record)
        chunks = _chunks(copy, record, entry)
        made = record if is_same else rechained(record, chain, key=key)
        chain = made.chain
        copy.moved_bytes += len(made.body) + sum(map(len, chunks.values()))
        yield made, entry, chunks


def _chunks(copy: _Copy, record: Record, entry: Entry) -> dict[bytes, bytes]:
    """Those that this record needs and that are not there."""
    behind = needs.behind(entry, copy.reader.chunk, copy.walked)
    needed = [a for a in (*needs.to_open(record), *behind, *needs.contents(entry)) if a not in copy.known]
    copy.known.update(needed)
    return {address: copy.reader.sound_chunk(address) for address in needed}


def _append(copy: _Copy, lease: Lease) -> None:
    """Batch after batch; the summary is folded on, so that each is an end that can be gone on from."""
    marks = defaultdict[int, list[bytes]](list)
    for mark, seq in copy.source.marks(copy.session):
        marks[seq].append(mark)
    summary, head, pending = _summary_there(copy), copy.there.seq, _Pending()
    for record, entry, chunks in _records(copy):
        summary = summary.after(entry).marked(marks[record.seq], seq=record.seq)
        pending.add(record, entry, chunks, marks[record.seq])
        if pending.size >= BATCH_BYTES or record.seq == copy.head.seq:
            _check_amended(copy)
            beside = copy.end if record.seq == copy.head.seq else summary
            copy.target.append(copy.session, pending.batch(copy, beside), epoch=lease.epoch, head=head)
            faults.reach("copy.part")
            head, pending = record.seq, _Pending()


def _summary_there(copy: _Copy) -> Summary:
    summary = summary_of(copy.there, copy.session)
    return told(Reader(copy.target, copy.session), summary, head=copy.there)


@dataclass(slots=True)
class _Pending:
    """What goes in one commit."""

    records: list[Record] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    marks: list[tuple[bytes, int]] = field(default_factory=list)
    chunks: dict[bytes, bytes] = field(default_factory=dict)
    size: int = 0

    def add(self, record: Record, entry: Entry, chunks: dict[bytes, bytes], marks: Iterable[bytes]) -> None:
        self.records.append(record)
        self.entries.append(entry)
        self.marks += ((mark, record.seq) for mark in marks)
        self.chunks |= chunks
        self.size += len(record.body) + sum(map(len, chunks.values()))

    def batch(self, copy: _Copy, summary: Summary) -> Batch:
        last = self.records[-1]
        return Batch(
            tuple(self.records),
            points_of(self.entries),
            tuple(self.marks),
            keyframes_of(self.entries),
            summary.encoded(session=copy.session, seq=last.seq, chain=last.chain),
            taken=_taken_by(copy, self.entries),
            chunks=self.chunks,
            views=tuple(map(readable.view, self.entries)) if copy.target.readable else (),
        )


def _taken_by(copy: _Copy, entries: list[Entry]) -> tuple[int, ...]:
    """The items of the inbox there that these records took out of the one here."""
    numbers = []
    for entry in entries:
        for item in copy.arrived:
            if _is_taken(items.opened(item, session=copy.session), entry):
                numbers.append(item.number)
                copy.arrived.remove(item)
                break
    return tuple(numbers)


def _is_taken(sent: items.Sent, entry: Entry) -> bool:
    if entry.kind == "received":
        taken = (entry["what"], entry["value"], entry["by"], entry["key"])
        return entry["of"] is None and (sent.what, sent.value, sent.by, sent.key) == taken
    if entry.kind == "answered":
        return (sent.what, sent.asked, sent.value) == (items.ANSWER, entry["asked"], entry["answer"])
    return entry.kind == "settled" and (sent.what, sent.asked) == (items.SETTLE, entry["started"])


def _amend(copy: _Copy, lease: Lease, amended: list[Entry], kin: Collection[str]) -> None:
    """What is missing, and the changes to what is there, in one transaction: half of it would be damage."""
    pending = _Pending()
    for record, entry, chunks in _records(copy):
        pending.add(record, entry, chunks, ())
    bodies, chunks = _bodies(copy, amended)
    pending.chunks |= chunks
    for portion in _portions(pending.chunks):
        copy.target.put_chunks(copy.session, portion, epoch=lease.epoch)
    pending.chunks = {}
    batch, change = _difference(copy, pending.batch(copy, copy.end), bodies)
    faults.reach("copy.part")
    copy.target.amend(copy.session, batch, change, seen=lease, head=copy.there.seq, family=kin)


def _portions(chunks: dict[bytes, bytes]) -> Iterator[dict[bytes, bytes]]:
    portion: dict[bytes, bytes] = {}
    for address, frame in chunks.items():
        portion[address] = frame
        if sum(map(len, portion.values())) >= BATCH_BYTES:
            yield portion
            portion = {}
    if portion:
        yield portion


def _bodies(copy: _Copy, amended: list[Entry]) -> tuple[list[tuple[int, bytes]], dict[bytes, bytes]]:
    """The bodies that stand now where others are there, and the chunks that they need."""
    seam = seam_of(copy.head.bases)
    touched = {seq for entry in amended for first, last in entry["dropped"] for seq in range(first, last + 1)}
    others = {seq for entry in amended for seq, _ in entry.body.get("replaced", ())}
    touched |= others
    bodies, chunks = [], dict[bytes, bytes]()
    for record in copy.source.read_at(copy.session, sorted(s for s in touched if seam < s <= copy.there.seq)):
        entry = copy.reader.open(record)
        if is_stub(record.body):
            if record.seq <= copy.pinned and record.seq not in others:
                continue
        else:
            chunks |= _chunks(copy, record, entry)
        bodies.append((record.seq, record.body))
        copy.moved_bytes += len(record.body)
    return bodies, chunks


def _difference(copy: _Copy, batch: Batch, bodies: list[tuple[int, bytes]]) -> tuple[Batch, Change]:
    """The batch with all index rows that are here and not there, the change with those that are there and not here."""
    own = range(seam_of(copy.head.bases) + 1, copy.head.seq + 1)
    both = copy.target, copy.source
    points, here_points = ({p for p in store.points(copy.session) if p.seq in own} for store in both)
    frames, here_frames = ({f for f in store.keyframes(copy.session) if f[1] in own} for store in both)
    marks, here_marks = ({m for m in store.marks(copy.session) if m[1] in own} for store in both)
    _check_amended(copy)
    batch = replace(
        batch,
        points=tuple(here_points - points),
        keyframes=tuple(here_frames - frames),
        marks=tuple(here_marks - marks),
    )
    kept = copy.pinned
    gone = {p.seq for p in points if p.seq > kept} - {p.seq for p in here_points}
    unframed = {of for of, seq in frames if seq > kept} - {of for of, _ in here_frames}
    unmarked = {(mark, seq) for mark, seq in marks - here_marks if seq > kept}
    return batch, Change(tuple(bodies), tuple(gone), tuple(unframed), tuple(unmarked))


def _check_amended(copy: _Copy) -> None:
    """What was read is as of the head, unless something was dropped since. Raises `ConflictError`."""
    if any(seq > copy.head.seq for seq in copy.source.find(copy.session, dropped.MARK)):
        raise ConflictError(f"{copy.session}: some of it was dropped meanwhile; do it again")


def forget(store: Store, session: str, kin: Collection[str]) -> None:
    """What was dropped or replaced goes from a copy, too: chunks that nothing needs, what the place keeps of bodies.

    `kin` are the sessions of its family. Its space is still to be given back.
    """
    sweep(store, [*kin], give_back=False)
    if any(entry.body.get("replaced") for entry in Reader(store, session).marked(dropped.MARK)):
        store.purge(session)
