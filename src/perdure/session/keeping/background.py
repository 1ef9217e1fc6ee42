"""The one thread of a process that does what no save may wait for, one job after the other.

It stands ready before it is needed: starting a thread takes longer than a save. A process that was forked off starts
its own.
"""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Background:
    """Runs jobs in the order in which they come. A job handles its own errors."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._pid = 0

    def stand_by(self) -> None:
        """Makes sure that the thread is there."""
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid != os.getpid():
                self._jobs = SimpleQueue()
                threading.Thread(target=self._work, args=(self._jobs,), name="perdure-background", daemon=True).start()
                self._pid = os.getpid()

    def submit(self, job: Callable[[], None]) -> threading.Event:
        """Runs the job soon. The event is set when it has ended, however it ended."""
        done = threading.Event()

        def run() -> None:
            try:
                job()
            finally:
                done.set()

        self.stand_by()
        self._jobs.put(run)
        return done

    @staticmethod
    def _work(jobs: SimpleQueue[Callable[[], None]]) -> None:
        while True:
            jobs.get()()


def _new_lock() -> None:
    background._lock = threading.Lock()  # noqa: SLF001 - the parent's may have been held at the fork


background = Background()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)
