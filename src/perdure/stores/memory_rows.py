"""What a store in memory keeps: the things of a session, in lists and dictionaries, and the place that holds them.

It refuses nothing: the conditions are next door.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from perdure.log import GENESIS
from perdure.stores import refusals
from perdure.stores.watch import Bells

if TYPE_CHECKING:
    from perdure.log import Base, Record
    from perdure.stores.contract import Batch, Change, Item, Lease, Point


@dataclass(slots=True)
class Session:
    """One session."""

    family: str
    lease: Lease
    changed: int
    end: int = 0
    chain: bytes = GENESIS
    is_copy: bool = False
    records: dict[int, Record] = field(default_factory=dict)
    points: dict[int, Point] = field(default_factory=dict)
    keyframes: dict[int, int] = field(default_factory=dict)
    marks: dict[bytes, set[int]] = field(default_factory=dict)
    summary: bytes = b""
    sent: int = 0
    inbox: dict[int, Item] = field(default_factory=dict)
    sent_marks: set[bytes] = field(default_factory=set)
    base: Base | None = None

    @property
    def seam(self) -> int:
        """The last record that it has from its base."""
        return self.base.seq if self.base else 0

    def between(self, after: int, last: int) -> list[Record]:
        """Its own records after this one up to that one: of a copy those that are there."""
        return [self.records[n] for n in range(max(after, self.seam) + 1, min(last, self.end) + 1) if n in self.records]


@dataclass(slots=True)
class Place:
    """What the stores of one name share."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    sessions: dict[str, Session] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)
    chunks: dict[str, dict[bytes, bytes]] = field(default_factory=dict)
    envelopes: dict[str | None, bytes] = field(default_factory=dict)
    changes: count[int] = field(default_factory=lambda: count(1))
    incarnation: int = 0
    bells: Bells = field(default_factory=Bells)


class Opened:
    """A place, locked for the length of a `with`."""

    __slots__ = ("_place",)

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> Place:
        self._place.lock.acquire()
        return self._place

    def __exit__(self, *_: object) -> None:
        self._place.lock.release()


def add(place: Place, found: Session, batch: Batch) -> None:
    """All that a batch writes, but the inbox."""
    place.chunks.setdefault(found.family, {}).update(batch.chunks)
    for record in batch.records:
        found.records[record.seq] = record
        found.end, found.chain = record.seq, record.chain
    found.points.update((point.seq, point) for point in batch.points)
    found.keyframes.update(batch.keyframes)
    for mark, seq in batch.marks:
        found.marks.setdefault(mark, set()).add(seq)
    found.summary = batch.summary or found.summary


def apply(found: Session, change: Change) -> None:
    """What an amendment changes of what is there, but chunks."""
    for seq, body in change.bodies:
        found.records[seq] = replace(found.records[seq], body=body)
    for seq in change.points:
        found.points.pop(seq, None)
    for seq in change.keyframes:
        found.keyframes.pop(seq, None)
    for mark, seq in change.marks:
        found.marks.get(mark, set()).discard(seq)


def record_at(session: str, segments: list[tuple[Session, int]], seq: int) -> Record:
    """The record of this number, in whichever of the segments it is. Raises `MissingError`."""
    for segment, last in segments:
        if segment.seam < seq <= last and seq in segment.records:
            return segment.records[seq]
    raise refusals.missing_record(session, seq=seq)
