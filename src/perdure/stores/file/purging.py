"""A segment without what later lines took the place of: nothing is read from it any more, and it may be a secret.

The summaries of all commits but the last, the names of points that have others now, items of the inbox that were taken.
What the segment says stays the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perdure.stores.file import lines
from perdure.stores.file.commit import Commit, closing, commit_line, read_commit

if TYPE_CHECKING:
    from perdure.stores.contract import Point
    from perdure.stores.file.index import Index


def purged(content: bytes, index: Index, session: str, *, is_last: bool) -> bytes:
    """The segment, line by line, with the commits that fit. `is_last`: its last commit is the newest of the log."""
    header, *rest = content.splitlines(keepends=True)
    newest = max((i for i, line in enumerate(rest) if line.startswith(lines.COMMIT)), default=-1) if is_last else -1
    done, batch = [header], list[bytes]()
    for i, line in enumerate(rest):
        if not line.startswith(lines.COMMIT):
            batch.append(_item(line, index))
            continue
        text, commit = b"".join(batch), read_commit(line.rstrip(b"\n"), session)
        if commit is None:
            raise lines.damaged(session, "a commit is not what was written")
        done += (text, commit_line(closing(commit if i == newest else _old(commit, index), text), session))
        batch.clear()
    return b"".join(done)


def _old(commit: Commit, index: Index) -> Commit:
    points = tuple(_named(point, index) for point in commit.rows.points)
    return replace(commit, summary=b"", rows=replace(commit.rows, points=points))


def _named(point: Point, index: Index) -> Point:
    now = index.points.get(point.seq)
    return replace(point, name=now.name if now is not None else None)


def _item(line: bytes, index: Index) -> bytes:
    found = lines.read_item(line.rstrip(b"\n")) if line.startswith(lines.ITEM) else None
    if found is None or found[0] in index.items:
        return line
    number, mark, _ = found
    return lines.item_line(number, b"", mark)
