"""A stretch of a log as it is stored: an index in front (headers, points, keyframes, marks), then the bodies.

It is the end of a log, inside of its head, or a part of it, an object of its own; the bytes are the same. It knows
nothing of where they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

import ormsgpack

from perdure.errors import DamageError, FormatNewerError
from perdure.log import Record
from perdure.log.record import KIND_NAMES, KINDS
from perdure.stores.contract import Point

MAGIC: Final = b"\xd5Prows\r\n"
LAYOUT: Final = 1
FRONT_BYTES: Final = len(MAGIC) + 1 + 32 + 4
"""Before the index: magic, layout, digest of the index, its length."""

_UNNAMED: Final = b"\xff"
"""Stands for no name: no name has this byte."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Records `after` + 1 … and what was written with them. Of two rows for one snapshot the later one counts."""

    after: int
    records: tuple[Record, ...] = ()
    points: tuple[Point, ...] = ()
    keyframes: tuple[tuple[int, int], ...] = ()
    marks: tuple[tuple[bytes, int], ...] = ()
    sent: tuple[bytes, ...] = ()

    @property
    def upto(self) -> int:
        """The last record."""
        return self.after + len(self.records)


@dataclass(frozen=True, slots=True)
class Index:
    """The same without bodies: `ends[n]` is where body n ends, counted from the begin of the object."""

    rows: Rows
    begin: int
    ends: tuple[int, ...]

    def place(self, seq: int) -> tuple[int, int]:
        """Where a record's body begins and ends."""
        number = seq - self.rows.after - 1
        return self.ends[number - 1] if number else self.begin, self.ends[number]

    def record(self, seq: int, body: bytes) -> Record:
        """The record, with its body."""
        return replace(self.rows.records[seq - self.rows.after - 1], body=body)


def joined(parts: Sequence[Rows]) -> Rows:
    """Stretches that follow one another, as one; of rows for one snapshot only the last is left."""
    points = {point.seq: point for part in parts for point in part.points}
    keyframes = {of: record for part in parts for of, record in part.keyframes}
    return Rows(
        parts[0].after,
        tuple(record for part in parts for record in part.records),
        tuple(points[seq] for seq in sorted(points)),
        tuple(sorted(keyframes.items())),
        tuple(dict.fromkeys(mark for part in parts for mark in part.marks)),
        tuple(dict.fromkeys(mark for part in parts for mark in part.sent)),
    )


def changed(
    rows: Rows,
    *,
    bodies: Mapping[int, bytes],
    points: Collection[int],
    keyframes: Collection[int],
    marks: Collection[tuple[bytes, int]],
) -> Rows:
    """With these bodies, without these rows."""
    return replace(
        rows,
        records=tuple(
            replace(record, body=bodies[record.seq]) if record.seq in bodies else record for record in rows.records
        ),
        points=tuple(point for point in rows.points if point.seq not in points),
        keyframes=tuple(pair for pair in rows.keyframes if pair[0] not in keyframes),
        marks=tuple(pair for pair in rows.marks if pair not in marks),
    )


def packed(rows: Rows, *, key: str) -> tuple[bytes, int]:
    """The bytes, and how many of them come before the first body. `key` is that of the session."""
    index = ormsgpack.packb(
        [
            rows.after,
            [[r.epoch, KINDS[r.kind], r.time_us, r.chain, len(r.body)] for r in rows.records],
            [[p.seq, p.parent, p.flags, p.time_us, _name_bytes(p.name)] for p in rows.points],
            rows.keyframes,
            rows.marks,
            rows.sent,
        ]
    )
    front = MAGIC + bytes([LAYOUT]) + _digest(key, index) + len(index).to_bytes(4, "big")
    return b"".join((front, index, *(record.body for record in rows.records))), len(front) + len(index)


def index_of(content: bytes, *, key: str, session: str, what: str) -> Index:
    """What the beginning of a part says. Raises `DamageError`, `FormatNewerError`."""
    if content[: len(MAGIC)] == MAGIC and content[len(MAGIC) : len(MAGIC) + 1] > bytes([LAYOUT]):
        raise FormatNewerError(f"{session}: {what} was written by a newer perdure; nothing was changed")
    begin = FRONT_BYTES + int.from_bytes(content[FRONT_BYTES - 4 : FRONT_BYTES], "big")
    index = content[FRONT_BYTES:begin]
    if not content.startswith(MAGIC + bytes([LAYOUT]) + _digest(key, index)):
        raise DamageError(f"{session}: {what} is not what was written")
    return _indexed(ormsgpack.unpackb(index), session=session, begin=begin)


def rows_of(content: bytes, *, key: str, session: str, what: str) -> Rows:
    """What a whole part says. Raises as `index_of`, and when it is shorter than it was."""
    index = index_of(content, key=key, session=session, what=what)
    if len(content) != (index.ends[-1] if index.ends else index.begin):
        raise DamageError(f"{session}: {what} is cut")
    records = index.rows.records
    bodies = (content[slice(*index.place(record.seq))] for record in records)
    return replace(index.rows, records=tuple(map(replace_body, records, bodies)))


def replace_body(record: Record, body: bytes) -> Record:
    """The record with this body."""
    return replace(record, body=body)


def _indexed(told: Any, *, session: str, begin: int) -> Index:
    after, headers, points, keyframes, marks, sent = told
    records, ends, end = [], [], begin
    for seq, (epoch, kind, time_us, chain, length) in enumerate(headers, after + 1):
        records.append(Record(session, seq, epoch, KIND_NAMES[kind], time_us, b"", chain))
        ends.append(end := end + length)
    rows = Rows(
        after,
        tuple(records),
        tuple(Point(seq, parent, flags, _name_text(name), time_us) for seq, parent, flags, time_us, name in points),
        tuple((of, record) for of, record in keyframes),
        tuple((mark, seq) for mark, seq in marks),
        tuple(sent),
    )
    return Index(rows, begin, tuple(ends))


def _name_bytes(name: str | None) -> bytes:
    return _UNNAMED if name is None else name.encode(errors="surrogatepass")


def _name_text(name: bytes) -> str | None:
    return None if name == _UNNAMED else name.decode(errors="surrogatepass")


def _digest(key: str, index: bytes) -> bytes:
    return sha256(key.encode() + b"\0" + index).digest()
