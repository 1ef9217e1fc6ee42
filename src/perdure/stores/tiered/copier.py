"""A thread that does what is left to do for sessions, soon after it is told, and again later what could not be done.

It knows nothing of stores: what is done is given to it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from perdure import clock
from perdure.stores.tiered.line import Line

_log = logging.getLogger("perdure.tiered")

_AGAIN_S: Final = 0.5


class Copier:
    """`work` gets the lines that were told since, and gives back those that must be done again.

    `gather_s`: how long it waits after the first is told, so that several writes go together. `beat` is done about
    every `beat_s` seconds, if that is given.
    """

    def __init__(
        self,
        work: Callable[[Collection[Line]], Collection[Line]],
        *,
        gather_s: float,
        beat: Callable[[], None] | None = None,
        beat_s: float | None = None,
    ) -> None:
        self._work, self._gather_s, self._beat, self._beat_s = work, gather_s, beat, beat_s
        self._told: dict[str, Line] = {}
        self._mutex = threading.Lock()
        self._due, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        if beat_s is not None:
            self._start()

    def tell(self, line: Line) -> None:
        """There is something to do for this one."""
        with self._mutex:
            self._told[line.session] = line
            if self._thread is None:
                self._start()
        self._due.set()

    def end(self) -> None:
        """Stops the thread, after the work it is at."""
        self._ended.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="perdure-tiers", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        left: Collection[Line] = ()
        next_s = clock.monotonic_s() + (self._beat_s or 0.0)
        while not self._ended.is_set():
            rest_s = None if self._beat_s is None else max(0.0, next_s - clock.monotonic_s())
            waits_s = [seconds for seconds in (_AGAIN_S if left else None, rest_s) if seconds is not None]
            if self._due.wait(min(waits_s, default=None)) and self._ended.wait(self._gather_s):
                return
            self._due.clear()
            left = self._round()
            if self._beat is not None and self._beat_s is not None and clock.monotonic_s() >= next_s:
                self._done(self._beat, ())
                next_s = clock.monotonic_s() + self._beat_s

    def _round(self) -> Collection[Line]:
        """Does what was told. What must be done again is told, too, after what was told meanwhile."""
        with self._mutex:
            lines, self._told = list(self._told.values()), {}
        left = self._done(partial(self._work, lines), lines) if lines else ()
        with self._mutex:
            self._told = {line.session: line for line in left} | self._told
        return left

    def _done(self, work: Callable[[], Collection[Line] | None], lines: Collection[Line]) -> Collection[Line]:
        """What is left of it. What fails in a way that nobody foresaw is done again: its writers meet the error."""
        try:
            return work() or ()
        except Exception:  # noqa: BLE001 - it is in the log, and the work is done again
            _log.exception("what was written in front could not be copied; it is tried again")
            return lines
