"""How things are laid out as the server's strings, and made of them again, or `DamageError`. It knows no operation."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from perdure.errors import DamageError
from perdure.log import KIND_NAMES, KINDS, Base, Record
from perdure.stores.conditions import incarnation_of
from perdure.stores.contract import Batch, Head, Lease, Point

_RECORD: Final = struct.Struct(">QBQ32s")
"""Epoch, kind, time, chain digest; then the body."""

_POINT: Final = struct.Struct(">QQQB")
"""Parent, flags, time, whether it has a name; then that."""

_MARK: Final = struct.Struct(">I")
_SEQ: Final = struct.Struct(">Q")
_DIGITS_MAX: Final = 20


def text(stored: object, what: str) -> str:
    """What `blob` made bytes of."""
    try:
        return stored.decode(errors="surrogatepass")  # type: ignore[attr-defined,no-any-return]
    except (AttributeError, UnicodeDecodeError):
        raise DamageError(f"{what} is not what was written") from None


def blob(plain: str) -> bytes:
    """Text as it is, lone surrogates and zeros included."""
    return plain.encode(errors="surrogatepass")


def number(stored: object, what: str) -> int:
    """A number that is not negative, as the server keeps it."""
    if isinstance(stored, int) and stored >= 0:
        return stored
    if isinstance(stored, bytes) and stored.isdigit() and len(stored) <= _DIGITS_MAX:
        return int(stored)
    raise DamageError(f"{what} is not what was written")


def lease(session: str, epoch: object, owner: object, counter: object) -> Lease:
    """A session's lease."""
    what = f"{session}: its lease"
    return Lease(session, number(epoch, what), text(owner, what), number(counter, what))


def head(session: str, row: Sequence[Any], bases: tuple[Base, ...]) -> Head:
    """A session's head, of its family, seq, chain, epoch and summary."""
    family, seq, chain, epoch, summary = row
    what = f"{session}: its row"
    if not (isinstance(chain, bytes) and len(chain) == 32 and isinstance(summary, bytes)):
        raise DamageError(f"{what} is not what was written")
    return Head(session, text(family, what), number(seq, what), chain, number(epoch, what), summary, bases)


def record(session: str, seq: int, stored: bytes) -> Record:
    """A record of this session."""
    if len(stored) < _RECORD.size or stored[8] not in KIND_NAMES:
        raise DamageError(f"{session}: record {seq} is not what was written: its header is cut, or of no known kind")
    epoch, kind, time_us, chain = _RECORD.unpack_from(stored)
    return Record(session, seq, epoch, KIND_NAMES[kind], time_us, stored[_RECORD.size :], chain)


def point(session: str, seq: int, stored: bytes) -> Point:
    """A row of the index of snapshots."""
    what = f"{session}: the index of snapshots, at {seq},"
    if len(stored) < _POINT.size:
        raise DamageError(f"{what} is not what was written")
    parent, flags, time_us, has_name = _POINT.unpack_from(stored)
    return Point(seq, parent, flags, text(stored[_POINT.size :], what) if has_name else None, time_us)


def mark(session: str, stored: bytes) -> tuple[bytes, int]:
    """A row of the look-up index."""
    if len(stored) < _MARK.size + _SEQ.size or _MARK.unpack_from(stored)[0] != len(stored) - _MARK.size - _SEQ.size:
        raise DamageError(f"{session}: a row of the index of marks is not what was written")
    return stored[_MARK.size : -_SEQ.size], _SEQ.unpack(stored[-_SEQ.size :])[0]


def marked(plain: bytes, seq: int) -> bytes:
    """A mark as a member of a sorted set, in which those of one mark stand together, by seq."""
    return _MARK.pack(len(plain)) + plain + _SEQ.pack(seq)


def range_of(plain: bytes) -> tuple[bytes, bytes]:
    """Between what the rows of one mark stand."""
    start = b"[" + _MARK.pack(len(plain)) + plain
    return start + bytes(_SEQ.size), start + b"\xff" * _SEQ.size


def pairs(found: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """What the server tells of a hash, field and value in turn."""
    fields = iter(found)
    return zip(fields, fields, strict=True)


def stored(records: Iterable[Record]) -> list[bytes]:
    """Each record's number, and the record."""
    words: list[bytes] = []
    for r in records:
        words += (b"%d" % r.seq, _RECORD.pack(r.epoch, KINDS[r.kind], r.time_us, r.chain) + r.body)
    return words


def batch(given: Batch, *, end: int) -> list[bytes]:
    """A batch as arguments of a script: see `batch_at` in writing.lua."""
    records, points, taken = given.records, given.points, given.taken
    keyframes, marks, chunks = given.keyframes, given.marks, given.chunks
    if records:
        words = [b"%d" % end, records[-1].chain, given.summary, b"%d" % incarnation_of(records[0].epoch)]
    else:
        words = [b"%d" % end, b"", given.summary, b""]
    lengths = (2 * len(records), 2 * len(points), 2 * len(keyframes), 2 * len(marks), len(taken), 2 * len(chunks))
    words += (b"%d %d %d %d %d %d" % lengths).split()
    words += stored(records)
    for p in points:
        name = b"" if p.name is None else blob(p.name)
        words += (b"%d" % p.seq, _POINT.pack(p.parent, p.flags, p.time_us, p.name is not None) + name)
    for pair in keyframes:
        words += (b"%d" % seq for seq in pair)
    for plain, seq in marks:
        words += (b"0", marked(plain, seq))
    words += (b"%d" % item for item in taken)
    for chunk in chunks.items():
        words += chunk
    return words
