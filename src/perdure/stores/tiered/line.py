"""A session as this process writes it: what one tier has acknowledged and the other has not yet, in order.

It knows no store: what is queued here is written by who takes it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from perdure import clock
from perdure.log import Record
from perdure.stores.contract import Batch

TOGETHER_BYTES: Final = 4 << 20
"""So much is written to the other tier in one append. A longer batch goes to cold first, whose limit may be lower."""


class Queued(NamedTuple):
    """A batch that follows `head`, acknowledged at `since_s`."""

    batch: Batch
    head: int
    epoch: int
    size: int
    since_s: float

    @property
    def end(self) -> int:
        """The end of the log after it."""
        return self.head + len(self.batch.records)


class Line:
    """The writes of one session. Who writes holds `writing`; who copies holds `copying`, and never asks for the other.

    `epoch` is the one in which hot's copy takes appends of ours, by the number `copy`; None while it does not. `own` is
    the one in which cold was last written from here, and `last` the record that it was given then.
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self.writing = threading.RLock()
        self.copying = threading.RLock()
        self.epoch: int | None = None
        self.copy = 0
        self.own: int | None = None
        self.is_given_up = False
        self.sent = 0
        self.last: Record | None = None
        self._queue: deque[Queued] = deque()
        self._mutex = threading.Lock()

    def add(self, batch: Batch, *, head: int, epoch: int, size: int) -> None:
        """Queues what one tier has, which is of this `size_of`."""
        with self._mutex:
            self._queue.append(Queued(batch, head, epoch, size, clock.monotonic_s()))

    def next(self) -> tuple[Queued, ...]:
        """What is to be written next, together: batches that follow one another, though others may write, too."""
        with self._mutex:
            chosen: list[Queued] = []
            size = 0
            for queued in self._queue:
                if chosen and (
                    size + queued.size > TOGETHER_BYTES
                    or queued.epoch != chosen[0].epoch
                    or queued.head != chosen[-1].end
                ):
                    break
                chosen.append(queued)
                size += queued.size
            return tuple(chosen)

    def done(self, count: int) -> int:
        """The first so many are written. How many bytes they were."""
        with self._mutex:
            return sum(self._queue.popleft().size for _ in range(count))

    def all(self) -> tuple[Queued, ...]:
        """All that waits."""
        with self._mutex:
            return tuple(self._queue)

    def waits_s(self) -> float:
        """For how long the oldest has waited."""
        with self._mutex:
            return clock.monotonic_s() - self._queue[0].since_s if self._queue else 0.0

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._queue


class Lines:
    """Those of one process, each made when it is first asked for; safe from any thread."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._mutex = threading.Lock()

    def of(self, session: str) -> Line:
        """That of a session."""
        with self._mutex:
            line = self._lines.get(session)
            if line is None:
                line = self._lines[session] = Line(session)
            return line

    def known(self, session: str) -> Line | None:
        """That of a session, if there is one."""
        return self._lines.get(session)

    def drop(self, session: str) -> Line | None:
        """Takes that of a session out."""
        with self._mutex:
            return self._lines.pop(session, None)

    def all(self) -> list[Line]:
        """Every one."""
        with self._mutex:
            return list(self._lines.values())


def together(queued: Sequence[Queued]) -> Batch:
    """Several batches that follow one another, as one."""
    if len(queued) == 1:
        return queued[0].batch
    batches = [one.batch for one in queued]
    chunks: dict[bytes, bytes] = {}
    for batch in batches:
        chunks |= batch.chunks
    has_views = all(len(batch.views) == len(batch.records) for batch in batches)
    return Batch(
        records=tuple(record for batch in batches for record in batch.records),
        points=tuple({point.seq: point for batch in batches for point in batch.points}.values()),
        marks=tuple(mark for batch in batches for mark in batch.marks),
        keyframes=tuple(dict(pair for batch in batches for pair in batch.keyframes).items()),
        summary=next((batch.summary for batch in reversed(batches) if batch.summary), b""),
        taken=tuple(number for batch in batches for number in batch.taken),
        chunks=chunks,
        views=tuple(view for batch in batches for view in batch.views) if has_views else (),
    )


def size_of(batch: Batch) -> int:
    """Bytes of bodies, chunks and the index, about."""
    rows = len(batch.points) + len(batch.marks) + len(batch.records)
    return 64 * rows + sum([len(record.body) for record in batch.records]) + sum(map(len, batch.chunks.values()))
