"""How a session's log lies in documents: names, the entries of a commit, records, points; and back, or `DamageError`.

A commit is an *entry* in the document of its session until some of them are moved together into a document of records
and one of the index. A body that is long stands in documents of its own, and the record says where. Ids and names are
bytes: text of BSON bears no lone surrogates. It knows no connection. `docs/stores.md` tells the idea.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeAlias

from bson import Binary, Int64

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

SEQ_MAX: Final = (1 << 62) - 1
_RECORD_BYTES: Final = 96
_POINT_BYTES: Final = 64


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


def row_id(key: bytes, number: int) -> Binary:
    """The id of a document that begins with this commit of a session."""
    return Binary(key + number.to_bytes(8, "big"))


def blob(text: str) -> Binary:
    """Text as it is, lone surrogates included. A `Binary` is equal to no bytes: it is to be sent, not compared."""
    return Binary(text.encode(errors="surrogatepass"))


def text(stored: Any) -> str:
    """What `blob` made bytes of."""
    try:
        return bytes(stored).decode(errors="surrogatepass")
    except (TypeError, UnicodeDecodeError) as error:
        raise DamageError(f"a name or an owner is not what was written: {error}") from error


# ------------------------------------------------------------------------------------------------------------- bodies


def stored_body(body: Where) -> Any:
    """A body as it stands in a record."""
    if isinstance(body, Outside):
        return {"x": Binary(body.attempt), "n": body.count, "l": Int64(body.length)}
    return Binary(body)


def body_in(stored: Any, *, of: str) -> Where:
    """The body that a record, an item or a chunk names. Raises `DamageError`."""
    if isinstance(stored, bytes):
        return bytes(stored)
    try:
        found = Outside(bytes(stored["x"]), int(stored["n"]), int(stored["l"]))
    except (TypeError, KeyError, ValueError) as error:
        raise DamageError(f"{of}: is not what was written: its body is {type(stored).__name__}") from error
    return found


def kept_inside(bodies: Sequence[bytes], *, inline: int = INLINE_BYTES) -> list[bool]:
    """Which of the bodies of a commit stand in its entry."""
    limit = inline if sum(len(body) for body in bodies if len(body) <= inline) <= ENTRY_BYTES else SHORT_BYTES
    return [len(body) <= limit for body in bodies]


# ------------------------------------------------------------------------------------------------------------ entries


def entry(batch: Batch, bodies: Iterable[Where], *, attempt: bytes, end: int) -> Doc:
    """What one commit adds to the log, which ends at `end` then."""
    found: Doc = {"a": Binary(attempt), "q": Int64(end)}
    if batch.records:
        found["r"] = [_stored_record(record, body) for record, body in zip(batch.records, bodies, strict=True)]
    if batch.points:
        found["p"] = [_stored_point(point) for point in batch.points]
    if batch.keyframes:
        found["k"] = [[Int64(of), Int64(record)] for of, record in batch.keyframes]
    if batch.marks:
        found["m"] = [{"m": Binary(mark), "q": Int64(seq)} for mark, seq in batch.marks]
    return found


def size_of(one: Doc) -> int:
    """About how many bytes an entry has."""
    inside = sum(len(record["b"]) for record in one.get("r", ()) if isinstance(record["b"], bytes))
    rows = sum(len(one.get(name, ())) for name in "pkm")
    return _POINT_BYTES * (1 + rows) + _RECORD_BYTES * len(one.get("r", ())) + inside


def _stored_record(record: Record, body: Where) -> Doc:
    return {
        "e": Int64(record.epoch),
        "k": KINDS[record.kind],
        "t": Int64(record.time_us),
        "c": Binary(record.chain),
        "b": stored_body(body),
    }


def _stored_point(point: Point) -> list[Any]:
    name = None if point.name is None else blob(point.name)
    return [Int64(point.seq), Int64(point.parent), point.flags, name, Int64(point.time_us)]


@dataclass(frozen=True, slots=True)
class Row:
    """A record whose body may be elsewhere."""

    session: str
    seq: int
    stored: Any

    @property
    def body(self) -> Where:
        """The body, or where it is."""
        try:
            return body_in(self.stored["b"], of=f"{self.session}: record {self.seq}")
        except (TypeError, KeyError) as error:
            raise self._damage() from error

    def record(self, body: bytes) -> Record:
        """The record, with the bytes of its body. Raises `DamageError`."""
        try:
            kind = KIND_NAMES[self.stored["k"]]
            epoch, time_us, chain = self.stored["e"], self.stored["t"], self.stored["c"]
        except (TypeError, KeyError) as error:
            raise self._damage() from error
        if not (are_numbers(epoch, time_us) and isinstance(chain, bytes)):
            raise self._damage()
        return Record(self.session, self.seq, int(epoch), kind, int(time_us), body, bytes(chain))

    def _damage(self) -> DamageError:
        return DamageError(f"{self.session}: record {self.seq} is not what was written: types or kind of its row")


def rows_in(session: str, stored: Any, *, end: Any) -> list[Row]:
    """The records that stand in an entry, or in a document of them, of which the last is `end`."""
    if not isinstance(stored, list) or not are_numbers(end):
        raise DamageError(f"{session}: a document of records is not what was written")
    first = int(end) - len(stored) + 1
    return [Row(session, first + place, one) for place, one in enumerate(stored)]


def points_in(stored: Iterable[Any]) -> Iterator[Point]:
    """The points of an entry, or of a document of the index. Raises `DamageError`."""
    for one in stored:
        try:
            seq, parent, flags, name, time_us = one
        except (TypeError, ValueError) as error:
            raise _index_damage() from error
        if not are_numbers(seq, parent, flags, time_us):
            raise _index_damage()
        yield Point(int(seq), int(parent), int(flags), None if name is None else text(name), int(time_us))


def pairs_in(stored: Iterable[Any]) -> Iterator[tuple[int, int]]:
    """The keyframes of an entry, or of a document of the index. Raises `DamageError`."""
    for one in stored:
        if not isinstance(one, list) or len(one) != 2 or not are_numbers(*one):
            raise _index_damage()
        yield int(one[0]), int(one[1])


def marks_in(stored: Iterable[Any]) -> Iterator[tuple[bytes, int]]:
    """The marks of an entry, or of a document of the index. Raises `DamageError`."""
    for one in stored:
        if not isinstance(one, dict) or not isinstance(one.get("m"), bytes) or not are_numbers(one.get("q")):
            raise _index_damage()
        yield bytes(one["m"]), int(one["q"])


def _index_damage() -> DamageError:
    return DamageError("a row of the index of a session is not what was written")


def are_numbers(*found: Any) -> bool:
    """Whether these are numbers that we can have written."""
    return all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in found)


# -------------------------------------------------------------------------------------------- entries moved out of it


def documents_of(key: bytes, entries: Sequence[Doc], *, number: int, after: int) -> tuple[Doc, Doc]:
    """The document of the index and that of records that these entries become.

    The first of them is commit `number` of the session, and follows record `after`.
    """
    about = {"s": Binary(key), "f": Int64(after), "q": entries[-1]["q"], "n": Int64(number), "c": len(entries), "v": 0}
    index: Doc = {"_id": row_id(key, number), **about, "a": [one["a"] for one in entries]}
    for name in "pkm":
        if gathered := [row for one in entries for row in one.get(name, ())]:
            index[name] = gathered
    records = {"_id": row_id(key, number), **about, "r": [row for one in entries for row in one.get("r", ())]}
    return index, records


def without(rows: Doc, change: Mapping[str, Any]) -> Doc:
    """A document of the index without the rows that an amendment takes out of it."""
    gone: dict[str, Callable[[Any], bool]] = {
        "p": lambda row: row[0] in change["points"],
        "k": lambda row: row[0] in change["keyframes"],
        "m": lambda row: (bytes(row["m"]), int(row["q"])) in change["marks"],
    }
    kept = {name: [row for row in rows.get(name, ()) if not gone[name](row)] for name in "pkm"}
    return {**{name: value for name, value in rows.items() if name not in gone}, **{n: r for n, r in kept.items() if r}}
