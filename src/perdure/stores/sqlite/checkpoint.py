"""Carries the write-ahead log over into the file, in the background, so that no save pays for it.

Most of the log is carried over while writers go on. What they add meanwhile is little; for that last bit, and only for
it, they wait, in this process and in others, after which the log starts again at its beginning and so stays short
however busy they are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from perdure import clock
from perdure.errors import PerdureError
from perdure.stores.contract import Batch
from perdure.stores.sqlite.link import PAUSE_S, Link
from perdure.stores.sqlite.queue import pause_s

REST_PAGES: Final = 32
"""So much of the log may be left to carry over while the writers wait."""

_ROUNDS: Final = 8
_LOOKS: Final = 50
_PAGE_BYTES: Final = 4096
_COMMIT_PAGES: Final = 4
"""Pages that a commit of small rows writes, about: it only decides when to look."""


class Checkpointer:
    """A thread that works when the log has grown by about `pages` of 4 KB. It starts when first needed.

    After a failure nothing is carried over before `anew` has SQLite begin again at the first page: see there.
    """

    def __init__(self, link: Link, *, writer: Link, pages: int, anew: Callable[[], bool]) -> None:
        self.link = link
        self._writer, self._anew = writer, anew
        self._must_begin_anew = False
        self._pages = pages
        self._grown = 0
        self._lock = threading.Lock()
        self._due = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None
        self.error: PerdureError | None = None

    def grown(self, size: int) -> None:
        """Tells that a commit with `size` bytes of bodies was written."""
        self._grown += _COMMIT_PAGES + size // _PAGE_BYTES  # of two threads at once one may go uncounted: it is about
        if self._grown >= self._pages:
            self._begin()

    def _begin(self) -> None:
        with self._lock:
            self._grown = 0
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="perdure-checkpoint", daemon=True)
                self._thread.start()
        self._due.set()

    def end(self) -> None:
        """Stops the thread, after the work it is at."""
        self._ended = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while self._due.wait() and not self._ended:
            self._due.clear()
            try:
                self.carry_over()
                self.error = None
            except PerdureError as error:  # the writers will meet it too; the log only grows meanwhile
                self.error = error

    def carry_over(self) -> None:
        """Empties the log, unless a reader or another process is in the way: then the next time does."""
        if not self._may_begin():
            return
        for _ in range(_ROUNDS):
            if self._carry("PASSIVE")[1] <= REST_PAGES:
                break
        with self._writer.first_in_line():
            for _ in range(_LOOKS):  # until the process that is writing now has committed
                if not self._carry("RESTART")[0]:
                    return
                time.sleep(pause_s(PAUSE_S))

    def empty(self) -> bool:
        """Empties the log to its last byte; False when a reader is in the way for longer than a writer waits.

        While somebody else carries the log over SQLite gives up at once, whatever its time-out: so it is tried again.
        """
        with self._begun_anew_after_failures(), self._writer.patient() as db, self.link.lock:
            end = clock.monotonic_s() + self._writer.busy_s
            while not self._may_begin() or db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if clock.monotonic_s() >= end:
                    return False
                time.sleep(pause_s(PAUSE_S))
        return True

    def _carry(self, mode: str) -> tuple[bool, int]:
        """One checkpoint: whether others were in its way, and how many pages of the log are left."""
        with self._begun_anew_after_failures(), self.link.connection() as db:
            busy, total, done = db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        return bool(busy), max(0, int(total) - int(done))

    @contextmanager
    def _begun_anew_after_failures(self) -> Iterator[None]:
        try:
            yield
        except PerdureError:
            self._must_begin_anew = True
            self._may_begin()
            raise

    def _may_begin(self) -> bool:
        if self._must_begin_anew:
            self._must_begin_anew = not self._anew()
        return not self._must_begin_anew


def size_of(batch: Batch) -> int:
    """Bytes of bodies and chunks: about what a batch adds to the log."""
    size = sum(map(len, batch.chunks.values())) if batch.chunks else 0
    for record in batch.records:
        size += len(record.body)
    return size
