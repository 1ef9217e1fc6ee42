"""`gc` by a schedule, in a thread of a process that goes on: a service, or `perdure gc --every`.

When it is due and how it is done is elsewhere (`ops.scheduled`). Errors of the store are told and do not end it.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from typing import TYPE_CHECKING, Final, Self

from perdure import clock
from perdure.errors import PerdureError
from perdure.session.waiting import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.ops.gone import GcReport
    from perdure.ops.scheduled import Job

LOOK_S: Final = 30.0
"""It looks at the clock at least so often: clocks are set, and machines sleep."""

AGAIN_S: Final = 60.0
"""After an error it is tried again: first so soon, then twice as long each time …"""

AGAIN_S_MAX: Final = 3600.0
"""… up to this."""

_log = logging.getLogger("perdure.gc")


class _Ending(BaseException):
    """Leaves `gc` between two transactions."""


class Schedule:
    """Made by `AgentStore.schedule_gc`, and at work from then on. End it with `close`, `with` or `async with`.

    `on_done` hears of each report, `on_error` of each error of the store, both in the thread of the schedule.
    """

    def __init__(
        self,
        job: Job,
        *,
        on_done: Callable[[GcReport], object] | None = None,
        on_error: Callable[[PerdureError], object] | None = None,
    ) -> None:
        self._job, self._on_done, self._on_error = job, on_done, on_error
        self._ending = threading.Event()
        self._failure: BaseException | None = None
        self._errors = 0
        self._thread = threading.Thread(target=self._run, name="perdure-gc", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        state = "at work" if self._thread.is_alive() else "ended"
        return f"<Schedule {self._job.timetable.cron!r} {self._job.timetable.zone}, {state}>"

    @property
    def next_at(self) -> dt.datetime:
        """When it is due next, in its zone."""
        return self._job.timetable.next_after(clock.now_utc())

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until it has ended: closed, or failed. Whether it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Asks it to end, in the middle of a `gc` after the transaction under way. Safe in a signal handler."""
        self._ending.set()

    def close(self) -> None:
        """Ends it, and waits for that. Raises what a callback raised, which had ended it."""
        self.stop()
        if self._thread is not threading.current_thread():
            self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await in_thread(self.close)

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                self._ending.wait(self._look())
        except _Ending:
            pass
        except BaseException as error:  # noqa: BLE001 - of a callback: `close` raises it, and it is told now
            _log.exception("the schedule of gc has ended")
            self._failure = error

    def _look(self) -> float:
        """Does what is due; after how many seconds to look again."""
        try:
            report = self._job.run_if_due(between=self._between)
        except PerdureError as error:
            self._errors += 1
            _log.warning("gc by schedule failed, and is tried again: %s", error)
            if self._on_error is not None:
                self._on_error(error)
            return float(min(AGAIN_S * 2 ** (self._errors - 1), AGAIN_S_MAX))
        self._errors = 0
        if report is not None and self._on_done is not None:
            self._on_done(report)
        left = (self.next_at - clock.now_utc()).total_seconds()
        return min(max(left, 0.0) + 0.01, LOOK_S)

    def _between(self) -> None:
        if self._ending.is_set():
            raise _Ending
