"""The state as of one snapshot, rebuilt from the nearest keyframe and the deltas since; a part only when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure import limits, values
from perdure.errors import DamageError
from perdure.log.entry import opened
from perdure.log.record import verified
from perdure.state import delta, keyframe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perdure.log.entry import Entry
    from perdure.log.record import Record
    from perdure.stores.contract import Store


class Reader:
    """Reads and verifies the records of one session, with the dictionaries that their bodies need."""

    def __init__(self, store: Store, session: str) -> None:
        self.store, self.session = store, session
        self._dictionaries: dict[bytes, values.Dictionary] = {}

    def chunk(self, digest: bytes) -> bytes:
        """A chunk's frame. Raises `DamageError` when it is missing."""
        return self.store.chunks(self.session, [digest])[digest]

    def dictionary(self, digest: bytes) -> values.Dictionary:
        """The compression dictionary that this chunk serves as."""
        if digest not in self._dictionaries:
            data = values.unseal(self.chunk(digest))[1]
            self._dictionaries[digest] = values.Dictionary(digest, data[-limits.DICTIONARY_BYTES :])
        return self._dictionaries[digest]

    def open(self, record: Record) -> Entry:
        """The entry of a record."""
        return opened(record, dictionary=self.dictionary)

    def records(self, *, after: int, upto: int | None = None) -> Iterable[Record]:
        """The records after this number, each checked against the one before. Raises `DamageError`."""
        previous = self.store.read_at(self.session, [after])[0].chain if after else bytes(32)
        found = self.store.read(self.session, after=after, upto=upto)
        return verified(found, session=self.session, after=after, previous=previous)

    def entries(self, *, after: int = 0, upto: int | None = None) -> list[Entry]:
        """The entries after this number, verified."""
        return [self.open(record) for record in self.records(after=after, upto=upto)]

    def marked(self, mark: bytes) -> list[Entry]:
        """The entries that carry this mark, in order; each checked against its own digest and the record before it."""
        found = []
        for seq in self.store.find(self.session, mark):
            found += self.entries(after=seq - 1, upto=seq)
        return found


class Snapshot:
    """The state as of one snapshot. Its values belong to whoever asks first: ask once for each part."""

    def __init__(self, manifest: Any, encoded: list[bytes], load: Callable[[bytes], bytes]) -> None:
        self.manifest, self.encoded, self._load = manifest, encoded, load
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
        """One part. Raises `DamageError` when what it is made of is not what was written."""
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

    def all(self) -> dict[str, Any]:
        """All parts, in order."""
        return {name: self.part(name) for name in self._names}


def snapshot(reader: Reader, seq: int) -> Snapshot:
    """The state as of the snapshot of this number; 0 and 1 are the empty state that every session begins with.

    Verified: the records since the keyframe, the keyframe's own, and every chunk when it is loaded.
    """
    keyframes = [pair for pair in reader.store.keyframes(reader.session) if pair[0] <= seq]
    upto, newer = seq, []
    for of, record in [*reversed(keyframes), (0, 0)]:
        newer = reader.entries(after=of, upto=upto) + newer
        path, base = _lineage(newer, seq, of)
        if base == of:
            return Snapshot(_manifest(reader, record), [entry["delta"] for entry in path], reader.chunk)
        upto = of
    raise DamageError(f"{reader.session}: there is no way from record {seq} back to the opening")


def _manifest(reader: Reader, record: int) -> Any:
    if not record:
        return keyframe.EMPTY
    return values.decode(reader.entries(after=record - 1, upto=record)[0]["manifest"])


def _lineage(entries: list[Entry], seq: int, of: int) -> tuple[list[Entry], int]:
    """The snapshots from just after `of` to `seq`, each the parent of the next, and the number that the first one came from."""
    by_seq = {entry.seq: entry for entry in entries if entry.kind in ("saved", "edited", "migrated")}
    path: list[Entry] = []
    while seq > max(of, 1):
        if seq not in by_seq:
            return path, seq
        path.append(by_seq[seq])
        seq = by_seq[seq]["parent"]
    return path[::-1], 0 if seq <= 1 and of == 0 else seq
