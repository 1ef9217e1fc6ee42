"""What was received half-way and is otherwise by now: bodies that were dropped or replaced, items that were taken.

It compares what comes with what is there, up to the record that was received; the rest is written as it comes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from perdure.log.record import is_replaced, is_stub
from perdure.session.keeping.writer import keyframes_of, points_of
from perdure.stores.contract import Batch, Change, Point

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.entry import Entry
    from perdure.log.record import Record
    from perdure.stores.contract import Store


@dataclass(slots=True)
class Overtaken:
    """The rows that the records up to this one have, as they come now, and the bodies that are not the first ones."""

    upto: int
    own_from: int = 0
    bodies: list[tuple[int, bytes]] = field(default_factory=list)
    points: set[Point] = field(default_factory=set)
    keyframes: set[tuple[int, int]] = field(default_factory=set)
    marks: set[tuple[bytes, int]] = field(default_factory=set)
    is_amended: bool = False

    def take(self, record: Record, entry: Entry, marks: Iterable[bytes]) -> None:
        """One record more."""
        if record.seq > self.upto:
            self.is_amended |= entry.kind == "amended"
            return
        self.own_from = self.own_from or record.seq
        self.points.update(points_of([entry]))
        self.keyframes.update(keyframes_of([entry]))
        self.marks.update((mark, record.seq) for mark in marks)
        if is_stub(record.body) or is_replaced(record.body):
            self.bodies.append((record.seq, record.body))

    def change(self, store: Store, session: str, batch: Batch) -> tuple[Batch, Change]:
        """What must be otherwise there, with the batch that ends the log."""
        own = range(self.own_from, self.upto + 1)
        points = {point for point in store.points(session) if point.seq in own}
        keyframes = {pair for pair in store.keyframes(session) if pair[1] in own}
        marks = {pair for pair in store.marks(session) if pair[1] in own}
        batch = replace(
            batch,
            points=(*batch.points, *(self.points - points)),
            keyframes=(*batch.keyframes, *(self.keyframes - keyframes)),
            marks=(*batch.marks, *(self.marks - marks)),
        )
        framed = {of for of, _ in (*self.keyframes, *batch.keyframes)}
        return batch, Change(
            tuple(self.bodies),
            tuple({point.seq for point in points} - {point.seq for point in self.points}),
            tuple({of for of, _ in keyframes} - framed),
            tuple(marks - self.marks),
        )


def left_over(store: Store, session: str, waiting: Iterable[bytes]) -> tuple[int, ...]:
    """The items in the inbox of a session that wait no more where they are from; nobody else can have sent one yet."""
    expected = Counter(waiting)
    numbers = []
    for item in store.inbox(session):
        if expected[item.content] > 0:
            expected[item.content] -= 1
        else:
            numbers.append(item.number)
    return tuple(numbers)
