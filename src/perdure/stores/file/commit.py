"""The end of a batch: where the log ends now, who may write, and what the indexes gain and lose; and its line.

Every commit says all of the first two, so that the last line of a log is all that a listing or an opening needs.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import b2a_base64
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Final

from perdure.log import GENESIS
from perdure.stores.contract import Batch, Change, Point
from perdure.stores.file import lines


@dataclass(frozen=True, slots=True)
class Rows:
    """What a batch adds to the indexes, takes out of the inbox, and (`less_…`) takes out of the indexes."""

    points: tuple[Point, ...] = ()
    keyframes: tuple[tuple[int, int], ...] = ()
    marks: tuple[tuple[bytes, int], ...] = ()
    taken: tuple[int, ...] = ()
    less_points: tuple[int, ...] = ()
    less_keyframes: tuple[int, ...] = ()
    less_marks: tuple[tuple[bytes, int], ...] = ()


NO_ROWS: Final = Rows()


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a batch.

    `sent` is the number of the newest item that was ever sent; `amended` says whether bodies stand in this log behind
    the records that they are of. `text` is the digest of the batch's lines, `size` their length in bytes.
    """

    seq: int
    chain: bytes
    epoch: int
    owner: str
    tick: int
    summary: bytes
    sent: int = 0
    amended: bool = False
    rows: Rows = NO_ROWS
    size: int = 0
    text: str = ""


def created(owner: str, *, epoch: int, tick: int) -> Commit:
    """The commit of a new session."""
    return closing(Commit(0, GENESIS, epoch, owner, tick, b""), b"")


def bare(before: Commit) -> Commit:
    """A commit that changes nothing of what another one says."""
    return closing(replace(before, rows=NO_ROWS), b"")


def closing(commit: Commit, text: bytes) -> Commit:
    """The commit of a batch with these lines."""
    return replace(commit, size=len(text), text=lines.digest(text))


def following(
    before: Commit, batch: Batch, change: Change | None = None, *, tick: int = 0
) -> tuple[bytes, list[int], Commit]:
    """(its lines, where its records begin in them, its commit) of a batch that comes after another commit."""
    found = [lines.body_line(seq, body) for seq, body in change.bodies] if change is not None else []
    is_amended, at, starts = bool(found), sum(map(len, found)), []
    for record, view in zip(batch.records, batch.views or repeat(""), strict=False):
        line = lines.record_line(record, view=view)
        starts.append(at)
        at += len(line)
        found.append(line)
    last = batch.records[-1] if batch.records else before
    text = b"".join(found)
    commit = Commit(
        seq=last.seq,
        chain=last.chain,
        epoch=before.epoch,
        owner=before.owner,
        tick=tick or before.tick,
        summary=batch.summary or before.summary,
        sent=before.sent,
        amended=before.amended or is_amended,
        rows=_rows(batch, change),
        size=len(text),
        text=lines.digest(text),
    )
    return text, starts, commit


def _rows(batch: Batch, change: Change | None) -> Rows:
    rows = Rows(batch.points, batch.keyframes, tuple(dict.fromkeys(batch.marks)), batch.taken)
    if change is None:
        return rows
    return replace(rows, less_points=change.points, less_keyframes=change.keyframes, less_marks=change.marks)


def commit_line(commit: Commit, session: str) -> bytes:
    """The line of a commit."""
    summary = b2a_base64(commit.summary, newline=False).decode()
    told = (
        f'{{"commit":{commit.seq},"epoch":{commit.epoch},"owner":{lines.quoted(commit.owner)},"tick":{commit.tick}',
        f',"chain":"{commit.chain.hex()}"',
        f',"sent":{commit.sent}' if commit.sent else "",
        ',"amended":true' if commit.amended else "",
        *(_rows_told(commit.rows) if commit.rows != NO_ROWS else ()),
        f',"summary":"{summary}","bytes":{commit.size},"lines":"{commit.text}"',
    )
    return lines.checked("".join(told).encode(), session)


def _rows_told(rows: Rows) -> Iterator[str]:
    if rows.points:
        yield f',"points":[{",".join(map(_point_told, rows.points))}]'
    if rows.keyframes:
        yield f',"keyframes":[{",".join(f"[{of},{seq}]" for of, seq in rows.keyframes)}]'
    if rows.marks:
        yield f',"marks":[{_marks_told(rows.marks)}]'
    if rows.taken:
        yield f',"taken":[{",".join(map(str, rows.taken))}]'
    if rows.less_points:
        yield f',"less_points":[{",".join(map(str, rows.less_points))}]'
    if rows.less_keyframes:
        yield f',"less_keyframes":[{",".join(map(str, rows.less_keyframes))}]'
    if rows.less_marks:
        yield f',"less_marks":[{_marks_told(rows.less_marks)}]'


def _point_told(point: Point) -> str:
    name = "null" if point.name is None else lines.quoted(point.name)
    return f"[{point.seq},{point.parent},{point.flags},{name},{point.time_us}]"


def _marks_told(marks: tuple[tuple[bytes, int], ...]) -> str:
    return ",".join(f'["{mark.hex()}",{seq}]' for mark, seq in marks)


def read_commit(line: bytes, session: str) -> Commit | None:
    """The commit of a line without its end; None unless it is exactly what was written."""
    told = lines.unchecked(line, session)
    if told is None:
        return None
    try:
        return Commit(
            seq=told["commit"],
            chain=bytes.fromhex(told["chain"]),
            epoch=told["epoch"],
            owner=lines.unquoted(told["owner"]),
            tick=told["tick"],
            summary=b64decode(told["summary"], validate=True),
            sent=told.get("sent", 0),
            amended=told.get("amended", False),
            rows=_rows_of(told),
            size=told["bytes"],
            text=told["lines"],
        )
    except (KeyError, TypeError, ValueError):
        return None


def _rows_of(told: dict[str, Any]) -> Rows:
    names = ((seq, parent, flags, name, time_us) for seq, parent, flags, name, time_us in told.get("points", ()))
    return Rows(
        points=tuple(Point(s, p, f, None if name is None else lines.unquoted(name), t) for s, p, f, name, t in names),
        keyframes=tuple((of, seq) for of, seq in told.get("keyframes", ())),
        marks=_marks_of(told, "marks"),
        taken=tuple(told.get("taken", ())),
        less_points=tuple(told.get("less_points", ())),
        less_keyframes=tuple(told.get("less_keyframes", ())),
        less_marks=_marks_of(told, "less_marks"),
    )


def _marks_of(told: dict[str, Any], name: str) -> tuple[tuple[bytes, int], ...]:
    return tuple((bytes.fromhex(mark), seq) for mark, seq in told.get(name, ()))
