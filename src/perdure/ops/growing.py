"""How quickly a log grows, from its own times: of a size alone nobody can tell whether it will be too much.

It is asked of every session of a store, so it reads a record or a few, and only of logs that are long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perdure import clock, limits

if TYPE_CHECKING:
    from perdure.log.summary import Summary
    from perdure.stores.contract import Head, Store

DAY_S: Final = 86_400.0

STEP: Final = 1000
"""So far back it looks first, then twice as far: a log that is shorter is young, or grows slowly."""

SPAN_S: Final = 3600.0
"""What is written in less than this is a burst, of which no rate is made."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What was written lately: records in so many seconds, and about how many bytes of bodies a record takes."""

    records: int
    span_s: float
    record_bytes: float

    @property
    def records_day(self) -> float:
        """Records a day."""
        return self.records / self.span_s * DAY_S

    @property
    def bytes_day(self) -> float:
        """Bytes a day, of the bodies as they are stored; chunks come on top."""
        return self.records_day * self.record_bytes

    @property
    def is_fast(self) -> bool:
        """Whether somebody should do something about it."""
        return self.records_day > limits.GROWTH_DAY_RECORDS or self.bytes_day > limits.GROWTH_DAY_BYTES


def growth(store: Store, head: Head, told: Summary, *, record_bytes: float) -> Growth | None:
    """How quickly this log grows; None for one that is short, or to which nothing was written for a day.

    `record_bytes` is what its newest records take. Raises `DamageError`.
    """
    if head.seq <= STEP or clock.now_us() - told.updated_us > DAY_S * 1e6:
        return None
    back = STEP
    while back < head.seq:
        record = store.read_at(head.session, [head.seq - back])[0]
        span_s = (told.updated_us - record.time_us) / 1e6
        if span_s >= SPAN_S:
            return Growth(back, span_s, record_bytes)
        back *= 2
    span_s = (told.updated_us - told.created_us) / 1e6
    return Growth(head.seq, span_s, record_bytes) if span_s >= SPAN_S else None
