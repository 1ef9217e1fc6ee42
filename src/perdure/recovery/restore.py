"""The newest state that is provably good, when the one that was asked for is not; and how it is offered.

It changes nothing, and never takes a damaged value: what cannot be proved is passed over and told.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure import values
from perdure.errors import DamageError, FormatNewerError, RestoreError, UnfinishedError, WitnessError
from perdure.log.branch import SNAPSHOTS
from perdure.log.origin import seam_of
from perdure.log.summary import with_point
from perdure.session.keeping.opening import summary_of
from perdure.session.restored import Skipped
from perdure.stores.contract import Head, Point, Store

if TYPE_CHECKING:
    from perdure.recovery.history import History


@dataclass(frozen=True, slots=True)
class Found:
    """The newest valid snapshot and its state, a fresh copy. `skipped` are the newer ones of its branch.

    `seq` 0 is the empty state that every session begins with.
    """

    seq: int
    state: dict[str, Any]
    skipped: tuple[Skipped, ...] = ()


def newest_valid(store: Store, session: str, *, upto: int | None = None) -> Found:
    """The newest snapshot of the present branch (up to record `upto`) that restores completely from good records.

    Raises `RestoreError` if there is none, `SessionUnknownError`, `SessionErasedError`, `FormatNewerError`, and
    `DamageError` if the store cannot even say where the log ends.
    """
    from perdure.recovery.history import history

    return newest_of(history(store, session), upto=upto)


def newest_of(found: History, *, upto: int | None = None) -> Found:
    """The same, of a log that is read already."""
    skipped: list[Skipped] = []
    for seq in lineage(found):
        if upto is None or seq <= upto:
            try:
                return Found(seq, found.state(seq), tuple(skipped))
            except FormatNewerError:
                raise
            except DamageError as error:
                skipped.append(Skipped(seq, str(error)))
    if 1 not in found.entries:
        raise RestoreError(f"{found.reader.session}: no snapshot is provably good, nor is the opening")
    return Found(0, {}, tuple(skipped))


def lineage(found: History) -> Iterator[int]:
    """The snapshots of the present branch, the newest first, whether they can be read or not."""
    seq = found.tip
    while seq > 1:
        yield seq
        seq = _parent(found, seq)


def _parent(found: History, seq: int) -> int:
    """The snapshot before this one on its branch. Of a damaged one: as the index has it, else the one before."""
    entry = found.entries.get(seq)
    if entry is not None and entry.kind in SNAPSHOTS:
        return int(entry["parent"])
    before = [known for known, kind in found.kinds.items() if known < seq and kind in SNAPSHOTS]
    indexed = _indexed(found, seq)
    return indexed if indexed in (0, *before) else max(before, default=0)


def _indexed(found: History, seq: int) -> int | None:
    try:
        rows = found.reader.store.points(found.reader.session)
    except DamageError:
        return None
    return next((point.parent for point in rows if point.seq == seq), None)


@contextmanager
def offered(store: Store, session: str) -> Iterator[None]:
    """Within it, a `DamageError` about this session also says what can be had instead."""
    try:
        yield
    except (FormatNewerError, UnfinishedError, WitnessError):
        raise
    except DamageError as error:
        raise _offering(store, session, error) from error


@values.inert()
def _offering(store: Store, session: str, error: DamageError) -> DamageError:
    try:
        found = newest_valid(store, session)
    except DamageError:
        offer = "no snapshot of it is provably good"
    else:
        offer = f"the newest valid snapshot is record {found.seq}" if found.seq else "only its opening is provably good"
    ending = "" if "perdure verify" in str(error) else f"; run: perdure verify {session}"
    return type(error)(f"{error}. Of {session}, {offer}{ending}")


def points(store: Store, session: str) -> list[Point]:
    """The index of snapshots, oldest first, checked against the sums beside the heads. Raises `DamageError`.

    Each session that a fork goes on from has the sum of its own.
    """
    head = store.head(session)
    shared = [p for base in head.bases for p in _own(store, store.head(base.session)) if p.seq <= base.seq]
    return shared + _own(store, head)


def _own(store: Store, head: Head) -> list[Point]:
    """The points that the session made itself."""
    session, total = head.session, b""
    found = [point for point in store.points(session) if seam_of(head.bases) < point.seq <= head.seq]
    try:
        for p in found:
            total = with_point(total, seq=p.seq, parent=p.parent, flags=p.flags, name=p.name, time_us=p.time_us)
    except (struct.error, TypeError) as error:
        raise DamageError(f"{session}: the index of its snapshots is not what was written: {error}") from error
    if total != summary_of(head, session).points:
        raise DamageError(f"{session}: the index of its snapshots is not what was written")
    return found
