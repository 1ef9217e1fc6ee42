"""What a full segment holds, kept beside it, so that whoever looks into a long log need not read every line of it.

It is bound to the bytes of the segment by their digest, and to its session by its own: it is used only if both are
right, and else made anew. It may be removed at any time, and is never synced. It decides nothing about what is true.
"""

from __future__ import annotations

import os
from array import array
from contextlib import suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, Final

from perdure import values
from perdure.errors import DamageError
from perdure.stores.contract import Point
from perdure.stores.file import lines
from perdure.stores.file.commit import Rows, read_commit
from perdure.stores.file.scan import Amended, Row, Scan, Sent

SUFFIX: Final = ".index"
MAGIC: Final = b"\xd5Pindx\r\n\1"
_DIGEST_BYTES: Final = 32
_HEAD_BYTES: Final = len(MAGIC) + 2 * _DIGEST_BYTES

_NUMBERS: Final = count(1)


def place_of(segment: str) -> Path:
    """Where the index of a segment is."""
    return Path(segment).with_suffix(SUFFIX)


def read(segment: str, content: bytes, session: str, *, first: int) -> Scan | None:
    """What the segment with this content holds, if that is kept; None if it has to be read."""
    try:
        kept = place_of(segment).read_bytes()
    except OSError:
        return None
    body = kept[_HEAD_BYTES:]
    if kept[:_HEAD_BYTES] != _head(content, session, body):
        return None
    end = content.find(b"\n") + 1
    last = content[content.rfind(b"\n", 0, len(content) - 1) + 1 : -1]
    header, commit = lines.read_header(content[: end - 1], place=segment), read_commit(last, session)
    try:
        starts, rows = values.decode(body)
    except (DamageError, ValueError, TypeError):
        return None
    found = Scan(first, header, commit, len(content), array("q", starts))
    found.rows = [_row(first, *row) for row in rows]
    return found


def keep(segment: str, content: bytes, session: str, scan: Scan) -> None:
    """Keeps what was read of a full segment; not if anything of it is damaged, nor where nothing can be written."""
    if (
        scan.fault
        or scan.header is None
        or scan.commit is None
        or scan.end != len(content)
        or min(scan.starts, default=0) < 0
    ):
        return
    place = place_of(segment)
    body = values.encode([scan.starts.tolist(), [_told(row) for row in scan.rows]])
    draft = place.with_name(f".{place.name}.{os.getpid()}-{next(_NUMBERS)}.tmp")
    with suppress(OSError):
        try:
            draft.write_bytes(_head(content, session, body) + body)
            draft.rename(place)
        except OSError:
            draft.unlink(missing_ok=True)
            raise


def _head(content: bytes, session: str, body: bytes) -> bytes:
    segment = sha256(content).digest()
    return MAGIC + segment + sha256(b"\0".join((session.encode("utf-8", "surrogatepass"), segment, body))).digest()


def _told(row: Row) -> list[Any]:
    match row:
        case Sent():
            return ["sent", row.number, row.mark, row.start]
        case Amended():
            return ["amended", row.seq, row.start]
    points = [[p.seq, p.parent, p.flags, p.name, p.time_us] for p in row.points]
    pairs = [[list(pair) for pair in found] for found in (row.keyframes, row.marks, row.less_marks)]
    return ["rows", points, *pairs, list(row.taken), list(row.less_points), list(row.less_keyframes)]


def _row(first: int, kind: str, *told: Any) -> Row:
    if kind == "sent":
        return Sent(told[0], told[1], first, told[2])
    if kind == "amended":
        return Amended(told[0], first, told[1])
    points, keyframes, marks, less_marks, taken, less_points, less_keyframes = told
    return Rows(
        points=tuple(Point(*point) for point in points),
        keyframes=tuple((of, seq) for of, seq in keyframes),
        marks=tuple((mark, seq) for mark, seq in marks),
        taken=tuple(taken),
        less_points=tuple(less_points),
        less_keyframes=tuple(less_keyframes),
        less_marks=tuple((mark, seq) for mark, seq in less_marks),
    )
