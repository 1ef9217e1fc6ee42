"""Indexes and the summary, made anew from a log that is provably whole: they are derived, so losing them loses nothing.

Where a record is damaged nothing is touched: what could be concluded then is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.errors import DamageError, HeldError
from perdure.log.marks import Marks
from perdure.log.origin import seam_of
from perdure.log.summary import with_mark
from perdure.recovery.history import History, history
from perdure.session.keeping.lease import is_dead, owner_text
from perdure.session.keeping.writer import points_of
from perdure.stores.contract import Batch, Change

if TYPE_CHECKING:
    from perdure.stores.contract import Point, Store

DERIVED: Final = frozenset({"index", "summary"})
"""The kinds of problems that `rebuild` mends."""


def rebuild(store: Store, session: str) -> None:
    """Makes the indexes of a session and its summary what its records say; durable on return.

    Raises `DamageError` if a record is not what was written or more of the log is to come, `HeldError` if somebody
    holds the session.
    """
    lease = store.lease(session)
    if lease.owner and not is_dead(lease.owner):
        raise HeldError(f"{session} is held by {owner_text(lease.owner)}; its indexes are mended when it is given back")
    found = history(store, session)
    worse = [problem for problem in found.problems if problem.kind not in DERIVED]
    if worse or not found.head.seq:
        raise DamageError(f"{session}: its records are not whole, so nothing is concluded from them: {worse[:1]}")
    batch, change = _difference(found)
    family = [head.session for head in store.heads() if head.family == found.head.family]
    store.amend(session, batch, change, seen=lease, head=found.head.seq, family=family)


def _difference(found: History) -> tuple[Batch, Change]:
    """What has to come into the indexes, and what has to go. Rows behind the end are left alone."""
    store, session, seam, end = found.reader.store, found.reader.session, seam_of(found.head.bases), found.head.seq
    points: dict[int, Point] = {p.seq: p for p in points_of(e for e in found.entries.values() if e.seq > seam)}
    keyframes = {of: entry.seq for of, entry in found.keyframes.items() if entry.seq > seam}
    marks = _marks(found, seam)
    there = {p.seq: p for p in store.points(session) if seam < p.seq <= end}
    kept = {of: record for of, record in store.keyframes(session) if seam < record <= end or of in keyframes}
    stored = {(mark, seq) for mark, seq in store.marks(session) if seam < seq <= end}
    change = Change(
        points=tuple(seq for seq in there if seq not in points),
        keyframes=tuple(of for of in kept if of not in keyframes),
        marks=tuple(sorted(stored - marks)),
    )
    batch = Batch(
        (),
        points=tuple(p for seq, p in points.items() if there.get(seq) != p),
        keyframes=tuple(pair for pair in keyframes.items() if kept.get(pair[0]) != pair[1]),
        marks=tuple(sorted(marks - stored)),
        summary=_summary(found, marks),
    )
    return batch, change


def _marks(found: History, seam: int) -> set[tuple[bytes, int]]:
    marks = Marks()
    return {(mark, e.seq) for e in found.entries.values() for mark in marks.of(e) if e.seq > seam}


def _summary(found: History, marks: set[tuple[bytes, int]]) -> bytes:
    total = b""
    for mark, seq in marks:
        total = with_mark(total, mark, seq=seq)
    made = found.folded()._replace(marks=total)
    head = found.head
    return made.encoded(session=found.reader.session, seq=head.seq, chain=head.chain)
