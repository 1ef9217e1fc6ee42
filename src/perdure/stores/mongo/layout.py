"""How a session's log lies in documents: names, the entries of a commit, records, points; and back, or `DamageError`.

A commit is an *entry* in the document of its session until some of them are moved together into a document of records
and one of the index. What it says is packed (MessagePack): to a server it is bytes, which it need not take apart. A
body that is long stands in documents of its own, and the record says where. It knows no connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeAlias

import ormsgpack
from bson import Int64

from perdure import clock
from perdure.errors import DamageError
from perdure.log import KINDS, Record
from perdure.log.record import KIND_NAMES
from perdure.stores.contract import Batch, Point

Doc: TypeAlias = dict[str, Any]
Where: TypeAlias = "bytes | Outside"
"""A body: its bytes, or where they are."""

INLINE_BYTES: Final = 8 << 10
"""A longer body stands outside of the entry."""

ENTRY_BYTES: Final = 1 << 20
"""An entry whose bodies are longer together keeps only the shortest of them."""

SHORT_BYTES: Final = 64
TAIL_BYTES: Final = 16 << 10
"""When the entries in a session's document have so many bytes, they are moved out of it before the next is written."""

CLOSED: Final = 1 << 40
"""Stands for the number of these bytes where nobody may commit: so a commit has one condition less to name."""

SEQ_MAX: Final = (1 << 62) - 1
_ENTRY_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Outside:
    """Where a body is that stands in documents of its own: who wrote it, in how many, how many bytes there are."""

    attempt: bytes
    count: int
    length: int


def key_of(session: str) -> bytes:
    """What a session is found by: of one that was deleted nothing else is left. 32 bytes."""
    return sha256(session.encode(errors="surrogatepass")).digest()


def family_key(family: str) -> bytes:
    """What a family is found by; another than that of the session with its name."""
    return sha256(b"family\0" + family.encode(errors="surrogatepass")).digest()


def new_attempt() -> bytes:
    """What marks one attempt to write, so that it is known again when its reply was lost. 12 bytes."""
    return clock.new_bytes(12)


def row_id(key: bytes, number: int) -> bytes:
    """The id of a document that begins with this commit of a session."""
    return key + number.to_bytes(8, "big")


def blob(text: str) -> bytes:
    """Text as it is, lone surrogates included."""
    return text.encode(errors="surrogatepass")


def text(stored: Any) -> str:
    """What `blob` made bytes of."""
    try:
        return bytes(stored).decode(errors="surrogatepass")
    except (TypeError, UnicodeDecodeError) as error:
        raise DamageError(f"a name or an owner is not what was written: {error}") from error


# ------------------------------------------------------------------------------------------------------------- bodies


def stored_body(body: Where) -> Any:
    """A body as it stands in a document of its own kind: of a chunk, an item, an amendment."""
    if isinstance(body, Outside):
        return {"x": body.attempt, "n": body.count, "l": Int64(body.length)}
    return body


def body_in(stored: Any, *, of: str) -> Where:
    """The body that a record, an item or a chunk names. Raises `DamageError`."""
    if isinstance(stored, bytes):
        return bytes(stored)
    try:
        attempt, count, length = stored if isinstance(stored, list) else (stored[name] for name in "xnl")
        return Outside(bytes(attempt), int(count), int(length))
    except (TypeError, KeyError, ValueError) as error:
        raise DamageError(f"{of}: is not what was written: its body is {type(stored).__name__}") from error


def kept_inside(bodies: Sequence[bytes], *, inline: int = INLINE_BYTES) -> list[bool]:
    """Which of the bodies of a commit stand in its entry."""
    if sum(map(len, bodies)) <= min(inline, ENTRY_BYTES):
        return [True] * len(bodies)
    limit = inline if sum(len(body) for body in bodies if len(body) <= inline) <= ENTRY_BYTES else SHORT_BYTES
    return [len(body) <= limit for body in bodies]


# ------------------------------------------------------------------------------------------------------------ records


@dataclass(frozen=True, slots=True)
class Row:
    """A record whose body may be elsewhere: epoch, number of its kind, time, chain digest, body."""

    session: str
    seq: int
    stored: Any

    @property
    def body(self) -> Where:
        """The body, or where it is."""
        try:
            return body_in(self.stored[4], of=f"{self.session}: record {self.seq}")
        except (TypeError, LookupError) as error:
            raise self._damage() from error

    def with_body(self, body: Where) -> Row:
        """The same record with another body."""
        return Row(self.session, self.seq, [*self.stored[:4], _packed_body(body)])

    def record(self, body: bytes) -> Record:
        """The record, with the bytes of its body. Raises `DamageError`."""
        try:
            epoch, kind, time_us, chain, _ = self.stored
            name = KIND_NAMES[kind]
        except (TypeError, ValueError, LookupError) as error:
            raise self._damage() from error
        if not (are_numbers(epoch, time_us) and isinstance(chain, bytes)):
            raise self._damage()
        return Record(self.session, self.seq, epoch, name, time_us, body, chain)

    def _damage(self) -> DamageError:
        return DamageError(f"{self.session}: record {self.seq} is not what was written: types or kind of its row")


def rows_in(session: str, packed: Any, *, end: Any) -> list[Row]:
    """The records that stand in an entry, or in a document of them, of which the last is `end`."""
    if not isinstance(packed, list) or not are_numbers(end):
        raise DamageError(f"{session}: a document of records is not what was written")
    stored = [row for one in packed for row in _unpacked(one)]
    first = int(end) - len(stored) + 1
    return [Row(session, first + place, one) for place, one in enumerate(stored)]


def packed_rows(rows: Iterable[Row]) -> bytes:
    """Records as they stand in a document."""
    return ormsgpack.packb([row.stored for row in rows])


def _packed_body(body: Where) -> Any:
    return [body.attempt, body.count, body.length] if isinstance(body, Outside) else bytes(body)


def _packed_records(records: Iterable[Record], bodies: Iterable[Where]) -> bytes:
    pairs = zip(records, bodies, strict=True)
    return ormsgpack.packb([[r.epoch, KINDS[r.kind], r.time_us, r.chain, _packed_body(b)] for r, b in pairs])


def _unpacked(packed: Any) -> list[Any]:
    try:
        found = ormsgpack.unpackb(bytes(packed)) if isinstance(packed, bytes) else None
    except ValueError as error:
        raise DamageError(f"what stands in a document is not what was written: {error}") from error
    if not isinstance(found, list):
        raise DamageError(f"what stands in a document is not what was written: {type(packed).__name__}")
    return found


# ---------------------------------------------------------------------------------------------------------- the index


@dataclass(frozen=True, slots=True)
class Index:
    """What one commit, or several one after another, say beside their records."""

    points: list[Point]
    keyframes: list[tuple[int, int]]
    marks: list[tuple[bytes, int]]

    def packed(self) -> bytes:
        """As it stands in a document."""
        return _packed_index(self.points, self.keyframes, self.marks)

    def without(self, gone: Index) -> Index:
        """What is left of it when these points, keyframes of these snapshots, and marks have gone."""
        points, keyframes = {point.seq for point in gone.points}, {of for of, _ in gone.keyframes}
        return Index(
            [point for point in self.points if point.seq not in points],
            [pair for pair in self.keyframes if pair[0] not in keyframes],
            [mark for mark in self.marks if mark not in gone.marks],
        )


def _packed_index(
    points: Iterable[Point], keyframes: Sequence[tuple[int, int]], marks: Sequence[tuple[bytes, int]]
) -> bytes:
    rows = [[p.seq, p.parent, p.flags, None if p.name is None else blob(p.name), p.time_us] for p in points]
    return ormsgpack.packb([rows, keyframes, marks])


def index_in(packed: Any) -> Index:
    """What stands in an entry, or in a document of the index. Raises `DamageError`."""
    found = Index([], [], [])
    try:
        for points, keyframes, marks in map(_unpacked, packed):
            found.points.extend(_point(*row) for row in points)
            found.keyframes.extend((_number(of), _number(record)) for of, record in keyframes)
            found.marks.extend((_bytes(mark), _number(seq)) for mark, seq in marks)
    except (TypeError, ValueError) as error:
        raise DamageError(f"a row of the index of a session is not what was written: {error}") from error
    return found


def _point(seq: Any, parent: Any, flags: Any, name: Any, time_us: Any) -> Point:
    told = None if name is None else text(name)
    return Point(_number(seq), _number(parent), _number(flags), told, _number(time_us))


def _number(found: Any) -> int:
    if not are_numbers(found):
        raise TypeError("no number")
    return int(found)


def _bytes(found: Any) -> bytes:
    if not isinstance(found, bytes):
        raise TypeError("no bytes")
    return found


def are_numbers(*found: Any) -> bool:
    """Whether these are numbers that we can have written."""
    return all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in found)


# ------------------------------------------------------------------------------------------------------------ entries


def entry(batch: Batch, bodies: Iterable[Where], *, attempt: bytes, end: int) -> Doc:
    """What one commit adds to the log, which ends at `end` then."""
    found: Doc = {"a": attempt, "q": Int64(end)}
    if batch.records:
        found["r"] = _packed_records(batch.records, bodies)
    if batch.points or batch.keyframes or batch.marks:
        found["i"] = _packed_index(batch.points, batch.keyframes, batch.marks)
    return found


def size_of(one: Doc) -> int:
    """About how many bytes an entry has."""
    return _ENTRY_BYTES + len(one.get("r", b"")) + len(one.get("i", b""))


def parts_of(one: Mapping[str, Any], name: str) -> list[Any]:
    """What an entry has of this, as a document that it is moved into has it."""
    return [one[name]] if name in one else []


def documents_of(key: bytes, entries: Sequence[Doc], *, number: int, after: int) -> tuple[Doc, Doc]:
    """The document of the index and that of records that these entries become.

    The first of them is commit `number` of the session, and follows record `after`.
    """
    about = {"s": key, "f": Int64(after), "q": entries[-1]["q"], "n": Int64(number), "c": len(entries), "v": 0}
    rows = [packed for one in entries for packed in parts_of(one, "r")]
    index: Doc = {"_id": row_id(key, number), **about, "a": [one["a"] for one in entries]}
    index |= indexed([packed for one in entries for packed in parts_of(one, "i")])
    return index, {"_id": row_id(key, number), **about, "r": rows}


def indexed(packed: list[Any]) -> Doc:
    """The fields of a document of the index: what it says, and the marks that it is found by."""
    return {"i": packed, "m": list(dict.fromkeys(mark for mark, _ in index_in(packed).marks))}
