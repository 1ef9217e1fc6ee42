"""A timetable in the syntax of cron, in a time zone: when something was last due, and when it is due next.

As Debian's cron has it where clocks change: what falls into the hour that is left out is due at its end, what falls
into the hour that comes twice is due once, unless it is due every hour. It must not know what is due.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from perdure.errors import RefusedError

UTC: Final = "UTC"


@dataclass(frozen=True, slots=True)
class Timetable:
    """`cron` has five fields: minute, hour, day of the month, month, day of the week; `zone` is of the IANA's names."""

    cron: str
    zone: str = UTC

    def next_after(self, time: dt.datetime) -> dt.datetime:
        """When it is due next, in the zone. Raises `RefusedError` for what is never due."""
        return _first(self._from(time, is_back=False), self.cron)

    def newest_before(self, time: dt.datetime) -> dt.datetime:
        """When it was last due, this moment included; in UTC."""
        whole = time.replace(second=0, microsecond=0) + dt.timedelta(minutes=1)
        return _first(self._from(whole, is_back=True), self.cron).astimezone(dt.UTC)

    def check(self) -> Timetable:
        """The same. Raises `RefusedError` for what is no timetable, or never due."""
        self.next_after(dt.datetime(2024, 1, 1, tzinfo=dt.UTC))
        return self

    def _from(self, time: dt.datetime, *, is_back: bool) -> CronSim:
        try:
            return CronSim(self.cron, time.astimezone(self._zone()), reverse=is_back)
        except CronSimError as error:
            raise RefusedError(
                f"{self.cron!r} is no timetable ({error}): write minute, hour, day of the month, month, day of the "
                "week, as in 0 3 * * *"
            ) from error

    def _zone(self) -> dt.tzinfo:
        if self.zone == UTC:
            return dt.UTC
        try:
            return ZoneInfo(self.zone)
        except (KeyError, ValueError, OSError) as error:
            raise RefusedError(
                f"{self.zone!r} is no time zone that is known here; write it as Europe/Berlin"
            ) from error


def _first(times: CronSim, cron: str) -> dt.datetime:
    try:
        return next(times)
    except (StopIteration, RuntimeError) as error:
        raise RefusedError(f"{cron!r} is never due") from error
