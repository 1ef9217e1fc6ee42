"""The state as of one snapshot, rebuilt from the nearest keyframe and the deltas since.

A part only when it is asked for.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

from perdure import values
from perdure.errors import DamageError, FormatNewerError, UnfinishedError
from perdure.log import dropped, replaced
from perdure.log.branch import SNAPSHOTS
from perdure.log.entry import opened
from perdure.log.origin import seam_of
from perdure.log.record import GENESIS, KINDS, is_replaced, is_stub, verified
from perdure.log.summary import decoded, with_mark
from perdure.session.keeping.ahead import Ahead
from perdure.session.keeping.survey import survey
from perdure.state import delta, keyframe

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from perdure.log.entry import Entry
    from perdure.log.origin import Base
    from perdure.log.record import Record
    from perdure.stores.contract import Head, Store

DICTIONARIES_KEPT = 4
"""Each takes about a megabyte; the bodies of a log need them one after another."""

_log = logging.getLogger("perdure.snapshots")


class Reader:
    """Reads and verifies the records of one session, with the dictionaries that their bodies need."""

    def __init__(self, store: Store, session: str, *, head: Head | None = None) -> None:
        self.store, self.session = store, session
        self._dictionaries: dict[bytes, values.Dictionary] = {}
        self._marks_checked = False
        self._dropped = dropped.Dropped()
        self._replaced = replaced.Replaced()
        self._remaking: set[bytes] = set()
        self._bases: tuple[Base, ...] | None = None if head is None else head.bases
        self._chain_key: tuple[bytes | None] | None = None

    @classmethod
    def of_new(cls, store: Store, session: str) -> Reader:
        """Of a session that is made now: it goes on from no other."""
        reader = cls(store, session)
        reader._bases = ()
        return reader

    @property
    def bases(self) -> tuple[Base, ...]:
        """Whose records the log begins with, if it is one of a fork."""
        if self._bases is None:
            self._bases = self.store.head(self.session).bases
        return self._bases

    @property
    def chain_key(self) -> bytes | None:
        """What the chain digests of the log are made with."""
        if self._chain_key is None:
            self._chain_key = (self.store.chain_key(self.session),)
        return self._chain_key[0]

    def chunk(self, digest: bytes) -> bytes:
        """A chunk's frame. Raises `DamageError` when it is missing."""
        return self.store.chunks(self.session, [digest])[digest]

    def chunks(self, digests: Collection[bytes]) -> dict[bytes, bytes]:
        """The frames of several chunks, in one look at the place. Raises as `chunk` does."""
        return self.store.chunks(self.session, digests)

    def dictionary(self, digest: bytes) -> values.Dictionary:
        """The compression dictionary that this chunk serves as."""
        found = self._dictionaries.get(digest)
        if found is None:
            found = self._dictionaries[digest] = values.Dictionary.from_chunk(self.sound_chunk(digest), digest=digest)
            for old in list(self._dictionaries)[:-DICTIONARIES_KEPT]:
                self._dictionaries.pop(old, None)  # another thread may have dropped it
        return found

    def sound_chunk(self, digest: bytes) -> bytes:
        """A chunk's frame, checked; a damaged one is made again from the records, as so many bodies hang on it."""
        damage = DamageError(f"chunk {digest.hex()}: its bytes are not what was written")
        try:
            frame = self.chunk(digest)
            if values.address(frame) == digest:
                return frame
        except DamageError as error:
            damage = error
        if digest in self._remaking:
            raise damage
        self._remaking.add(digest)
        try:
            found = _remade(self, digest)
        finally:
            self._remaking.discard(digest)
        if found is None:
            raise damage
        _log.warning("made again from the records: %s: %s", self.session, damage)
        return found

    def open(self, record: Record) -> Entry:
        """The entry of a record; of one whose body was lawfully dropped what stands for it (`log.dropped`).

        Raises `DamageError`, also for a body that is not the one that was written, if no record says that it may be.
        """
        if is_replaced(record.body) and not self.is_allowed(record.seq, replaced.digest_of(record.body)):
            raise DamageError(other(self.session, record.seq))
        if not is_stub(record.body):
            return opened(
                record,
                dictionary=self.dictionary,
                chunk=self.chunk,
                pickled=self.store.protocol == values.PICKLE,
            )
        if not self.is_dropped(record.seq):
            raise DamageError(gone(self.session, record.seq))
        return dropped.entry_of(record)

    def is_allowed(self, seq: int, digest: bytes) -> bool:
        """Whether a record says that the body with this digest stands in the place of that of record `seq`."""
        if not self._replaced.says(seq, digest):
            found = replaced.Replaced(self.marked(dropped.MARK))
            for base in self.bases:
                theirs = Reader(self.store, base.session).marked(dropped.MARK)
                found |= replaced.Replaced(theirs, upto=base.seq)
            self._replaced = found
        return self._replaced.says(seq, digest)

    def is_dropped(self, seq: int) -> bool:
        """Whether a record says that this one's body was dropped; looked up again if none of those known does."""
        if seq not in self._dropped:
            self._dropped = dropped.Dropped(self.marked(dropped.MARK)) | self.dropped_by_bases()
        return seq in self._dropped

    def dropped_by_bases(self) -> dropped.Dropped:
        """What the sessions that a fork goes on from say is gone of their records, also after the place of the fork."""
        found = dropped.Dropped()
        for base in self.bases:
            found |= dropped.Dropped(Reader(self.store, base.session).marked(dropped.MARK), upto=base.seq)
        return found

    def records(self, *, after: int, upto: int | None = None, chain: bytes | None = None) -> Iterator[Record]:
        """The records after this number, each checked against the one before.

        Without `upto` those up to the head, which must be the one that the summary is beside. The last of them must
        have this `chain` digest: without `upto` the head's.
        Who has read the head before says both, and sees nothing that others have written since. Raises `DamageError`,
        also when some are missing at the end.
        """
        if upto is None:
            head = self.store.head(self.session)
            upto, chain = head.seq, head.chain
            if head.seq:
                with contextlib.suppress(UnfinishedError):  # its records may be looked at
                    decoded(head.summary, session=self.session, seq=upto, chain=chain)
        seq, (found, records) = after, self._from(after, upto)
        for record in verified(
            records, session=self.session, after=after, previous=found, bases=self.bases, key=self.chain_key
        ):
            seq, found = record.seq, record.chain
            yield record
        if seq < upto:
            raise DamageError(f"{self.session}: record {seq + 1} is missing; the log goes on to record {upto}")
        if chain not in (None, found):
            raise DamageError(f"{self.session}: record {seq} is not the one that the head names")

    def _from(self, after: int, upto: int) -> tuple[bytes, Iterator[Record]]:
        """The chain digest of the record before, and what is read of those after it, in one look at the place."""
        if not after:
            return GENESIS, self.store.read(self.session, upto=upto)
        records = self.store.read(self.session, after=after - 1, upto=max(after, upto))
        first = next(records, None)
        if first is None or first.seq != after:
            return self.store.read_at(self.session, [after])[0].chain, self.store.read(
                self.session, after=after, upto=upto
            )
        return first.chain, records

    def entries(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        chain: bytes | None = None,
        kinds: Collection[str] = KINDS,
    ) -> list[Entry]:
        """The entries after this number that are of these kinds; all records in between are verified, as `records`."""
        found = self.records(after=after, upto=upto, chain=chain)
        return [self.open(record) for record in found if record.kind in kinds]

    def sound(self, *, after: int, upto: int) -> list[Entry]:
        """Those of the entries that are what was written, whatever is damaged in between."""
        found = []
        for place in survey(self.store, self.session, after=after, upto=upto):
            if place.record is not None and not place.fault:
                try:
                    found.append(self.open(place.record))
                except DamageError as error:
                    _log.warning("left out: %s", error)
        return found

    def marked(self, mark: bytes) -> list[Entry]:
        """The entries that carry this mark, in order; each checked against its own digest and the record before it.

        The first time, the whole index of marks is checked: a row that is lost from it could pay twice.
        """
        if not self._marks_checked:
            self.check_marks()
        found = []
        for seq in self.store.find(self.session, mark):
            found += self.entries(after=seq - 1, upto=seq)
        return found

    def check_marks(self) -> None:
        """Raises `DamageError` unless the index of marks is what was written."""
        for session in (self.session, *(base.session for base in self.bases)):
            _check_marks(self.store, session)
        self._marks_checked = True


def gone(session: str, first: int, last: int = 0) -> str:
    """What is said of bodies that are missing without an `amended` record."""
    which = f"the body of record {first} is" if last <= first else f"the bodies of records {first} to {last} are"
    return f"{session}: {which} gone, and no record says that they were dropped"


def other(session: str, seq: int) -> str:
    """What is said of a body that stands where another was without an `amended` record."""
    return f"{session}: the body of record {seq} is another than was written, and no record says that it was replaced"


def _check_marks(store: Store, session: str) -> None:
    """Of those that the session made itself; it may be a running one, so what comes after its head is not looked at."""
    head, total = store.head(session), b""
    for mark, seq in store.marks(session):
        if seam_of(head.bases) < seq <= head.seq:
            total = with_mark(total, mark, seq=seq)
    if total != decoded(head.summary, session=session, seq=head.seq, chain=head.chain).marks:
        raise DamageError(
            f"{session}: the index by which records are looked up is not what was written; nothing was run. "
            f"Run: perdure verify {session}"
        )


class Snapshot:
    """The state as of one snapshot. Its values belong to whoever asks first: ask once for each part.

    `older` gives the same snapshot made from an earlier keyframe, for a part whose chunks are damaged.
    """

    def __init__(
        self,
        manifest: Any,
        encoded: list[bytes],
        load: Callable[[bytes], bytes],
        *,
        older: Callable[[], Snapshot] | None = None,
    ) -> None:
        self.manifest, self.encoded, self._load, self._older = manifest, encoded, load, older
        self._names = dict.fromkeys(keyframe.parts(manifest))
        self._ops: dict[str, list[Any]] = {}
        for data in encoded:
            for op in values.decode(data):
                self._take(op)

    def _take(self, op: list[Any]) -> None:
        kind, path = op[0], op[1]
        if not path:
            for name in op[2]:
                self._names[name] = self._names.pop(name)
            return
        name = path[0]
        if len(path) == 1 and kind == "del":
            self._names.pop(name, None)
            self._ops[name] = [op]
            return
        self._names.setdefault(name)
        self._ops.setdefault(name, []).append(op)

    @property
    def names(self) -> list[str]:
        """The names of the parts, in order."""
        return list(self._names)

    def part(self, name: str) -> Any:
        """One part. Raises `DamageError` when what it is made of is not what was written, on every way to it."""
        try:
            return self._part(name)
        except FormatNewerError:
            raise
        except DamageError as error:
            if self._older is None:
                raise
            _log.warning("made from an earlier keyframe: %s", error)
            try:
                return self._older().part(name)
            except DamageError as other:
                raise error from other

    def _part(self, name: str) -> Any:
        ops = self._ops.get(name, [])
        whole = next(
            (i for i in range(len(ops) - 1, -1, -1) if len(ops[i][1]) == 1 and ops[i][0] in ("set", "del")), None
        )
        base: dict[str, Any] = {}
        if whole is None:
            base[name] = keyframe.restore(self.manifest, self._load, part=name)
        else:
            ops = [op for op in ops[whole:] if op[0] != "del" or len(op[1]) > 1]
        delta.patch(base, ops)
        return base[name]

    def all(self, names: Collection[str] | None = None) -> dict[str, Any]:
        """All parts, or those of these names that there are, in order."""
        return {name: self.part(name) for name in self._names if names is None or name in names}


def snapshot(reader: Reader, seq: int) -> Snapshot:
    """The state as of the snapshot of this number; 0 and 1 are the empty state that every session begins with.

    Verified: the records since the keyframe, the keyframe's own, and every chunk when it is loaded. A keyframe that is
    damaged is passed over for an earlier one. Raises `DamageError` when there is no way to the state without damage.
    """
    if seq <= 1:
        return Snapshot(keyframe.EMPTY, [], reader.chunk, older=None)
    bases = _keyframes(reader, seq)
    while True:
        try:
            return _made(reader, seq, [*reversed(bases), (0, 0)], upto=seq, newer=[])
        except DamageError:
            before, bases = bases, _keyframes(reader, seq)
            if before == bases:  # else others were put in their place meanwhile
                raise


def _keyframes(reader: Reader, seq: int) -> list[tuple[int, int]]:
    return [pair for pair in reader.store.keyframes(reader.session) if 0 < pair[0] <= seq]


def _made(
    reader: Reader,
    seq: int,
    bases: list[tuple[int, int]],
    *,
    upto: int,
    newer: list[Entry],
    damage: DamageError | None = None,
) -> Snapshot:
    """The snapshot, from the first of these keyframes (snapshot, record) that it comes from and that can be read.

    `newer` are the entries after `upto`; `damage` is what was met on the way so far.
    """
    for place, (of, record) in enumerate(bases, 1):
        found, met = _entries(reader, after=of, upto=upto)
        upto, newer, damage = of, found + newer, damage or met
        path, base = _lineage(newer, seq, of)
        if base != of:
            continue
        try:
            manifest = manifest_of(reader, of, record)
        except FormatNewerError:
            raise
        except DamageError as error:
            _log.warning("made from an earlier keyframe: %s", error)
            damage = damage or error
            continue

        def older(rest: list[tuple[int, int]] = bases[place:], upto: int = of, newer: list[Entry] = newer) -> Snapshot:
            return _made(reader, seq, rest, upto=upto, newer=newer)

        deltas = [entry["delta"] for entry in path]
        return Snapshot(manifest, deltas, Ahead(reader, manifest), older=older if of else None)
    raise damage or DamageError(f"{reader.session}: there is no way from record {seq} back to the opening")


def _entries(reader: Reader, *, after: int, upto: int) -> tuple[list[Entry], DamageError | None]:
    """The entries in between; those that are sound, and the damage, if they are not all so."""
    if after == upto:
        return [], None
    try:
        return reader.entries(after=after, upto=upto, kinds=SNAPSHOTS), None
    except FormatNewerError:
        raise
    except DamageError as error:
        return reader.sound(after=after, upto=upto), error


def manifest_of(reader: Reader, of: int, record: int) -> Any:
    """The manifest of the keyframe of this snapshot, in this record; of 0 the empty one. Raises `DamageError`."""
    if of == 0:
        return keyframe.EMPTY
    if type(record) is not int or record <= of:
        raise DamageError(f"{reader.session}: the index of keyframes says {record!r} for {of}, which is never written")
    entry = reader.entries(after=record - 1, upto=record)[0]
    if entry.kind != "keyframe" or entry["of"] != of:
        raise DamageError(f"{reader.session}: record {record} is not the keyframe of {of}, as the index says")
    return values.decode(entry["manifest"])


def _lineage(entries: list[Entry], seq: int, of: int) -> tuple[list[Entry], int]:
    """The snapshots after `of` up to `seq`, each the parent of the next, and what the first one came from."""
    by_seq = {entry.seq: entry for entry in entries if entry.kind in SNAPSHOTS}
    path: list[Entry] = []
    while seq > max(of, 1):
        if seq not in by_seq:
            return path, seq
        path.append(by_seq[seq])
        seq = by_seq[seq]["parent"]
    return path[::-1], 0 if seq <= 1 and of == 0 else seq


def _remade(reader: Reader, digest: bytes) -> bytes | None:
    """The chunk of this address, if folding one of the keyframes again makes it. Its address proves it the same."""
    bases = [pair for pair in reader.store.keyframes(reader.session) if pair[0] > 0]
    for place, (of, _) in enumerate(bases):
        try:
            with values.inert():
                before = _made(reader, of, [*reversed(bases[:place]), (0, 0)], upto=of, newer=[])
                deltas = (values.decode(data) for data in before.encoded)
                _, chunks = _ended(keyframe.fold(before.manifest, deltas, reader.chunk, codec=reader.store.protocol))
        except DamageError:
            continue  # not from this one; when none gives it, the damage of the chunk is what is told
        if digest in chunks:
            return chunks[digest]
    return None


def _ended(folding: keyframe.Folding) -> tuple[keyframe.Manifest, dict[bytes, bytes]]:
    try:
        while True:
            next(folding)
    except StopIteration as done:
        found: tuple[keyframe.Manifest, dict[bytes, bytes]] = done.value
        return found
