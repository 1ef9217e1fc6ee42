"""`gc` by a timetable: whether it is due, and doing it once, whichever of several processes comes first.

What was done is noted in the store, so a run that everybody missed is made up for once, by whoever looks next. It must
not know when it is asked.
"""

from __future__ import annotations

import datetime as dt
import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perdure import clock
from perdure.errors import HeldError
from perdure.ops import house
from perdure.ops.collection import nothing
from perdure.ops.gc import gc
from perdure.ops.overdue import TOPIC, name_of
from perdure.session.keeping.lease import is_dead
from perdure.stores.ids import SCHEDULE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.ops.collection import Between
    from perdure.ops.gone import GcReport
    from perdure.ops.retention import Retention
    from perdure.ops.timetable import Timetable
    from perdure.session.keeping.lease import Keeper
    from perdure.stores.contract import Lease

AHEAD: Final = dt.timedelta(days=1)
"""A note of more than so long after now was written by a wrong clock: it is not gone by."""

_log = logging.getLogger("perdure.gc")


@dataclass(slots=True)
class Job:
    """What is to be done in a store, by its timetable.

    `began` is when this process first looked, `seen` a lease and since when, on our monotonic clock, it has not moved.
    """

    keeper: Keeper
    owner: str
    lease_s: float
    timetable: Timetable
    retention: Retention
    began: dt.datetime = field(default_factory=clock.now_utc)
    seen: tuple[Lease, float] | None = None

    @property
    def name(self) -> str:
        """The same in all processes that have the same timetable and retention."""
        return name_of(self.timetable.cron, self.timetable.zone, self.retention)

    def due(self) -> dt.datetime | None:
        """Since when it is due; None if it is not. The first who looks notes from when on it counts."""
        known = house.newest(self.keeper.store, SCHEDULE, lambda entry: entry.body.get("name") == self.name)
        newest = self.timetable.newest_before(clock.now_utc())
        if known is None:
            self._note(self.began, "begun")
            done = self.began
        else:
            done = dt.datetime.fromtimestamp(known["due"] / 1e6, dt.UTC)
        if done > clock.now_utc() + AHEAD:
            _log.warning("%s: a clock was wrong: it says that gc was last due at %s", SCHEDULE, done)
            done = self.began
        return newest if newest > done else None

    def run_if_due(self, *, between: Between = nothing) -> GcReport | None:
        """Does it if it is due and nobody else is at it; else None. Raises as `gc` does, and what `between` raises."""
        if self.due() is None:
            return None
        with self._held() as lease:
            due = None if lease is None else self.due()
            if lease is None or due is None:
                return None
            report = gc(self.keeper.store, None, self.retention, dry_run=False, between=between)
            self.began = max(self.began, due)
            self._note(due, "done", epoch=lease.epoch, gone=report.bytes)
            return report

    def _note(self, due: dt.datetime, what: str, *, epoch: int | None = None, gone: int = 0) -> None:
        told = {"topic": TOPIC, "name": self.name, "cron": self.timetable.cron, "zone": self.timetable.zone}
        body = told | {"what": what, "due": int(due.timestamp() * 1e6), "bytes": gone}
        house.note(self.keeper.store, SCHEDULE, body, epoch=epoch)

    @contextmanager
    def _held(self) -> Iterator[Lease | None]:
        """The right to do it, renewed meanwhile; None while somebody else has it."""
        lease = self._take()
        if lease is not None:
            self.keeper.keep(lease)
        try:
            yield lease
        finally:
            if lease is not None:
                self.keeper.let_go(lease)

    def _take(self) -> Lease | None:
        store, now = self.keeper.store, clock.monotonic_s()
        lease = store.lease(SCHEDULE)
        if self.seen is None or self.seen[0] != lease:
            self.seen = lease, now
        if lease.owner and not is_dead(lease.owner) and now - self.seen[1] < self.lease_s:
            return None
        try:
            return store.claim(SCHEDULE, owner=self.owner, seen=lease)
        except HeldError:
            return None
