"""One connection to the file, for one purpose, used by one thread at a time; and what happens when things fail.

It is opened when it is first needed, given up after a failure, and opened and verified anew at the next use: a sync
that failed is never repeated as if nothing had happened. It knows no tables.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from perdure import clock
from perdure.errors import PerdureError, ProcessForkedError
from perdure.stores import refusals
from perdure.stores.sqlite.failures import is_busy, is_harmless, meaning
from perdure.stores.sqlite.queue import Queue, pause_s

G = TypeVar("G")
T = TypeVar("T")

PAUSE_S: Final = 0.0003
"""Between two looks whether another process has finished, about. SQLite itself would sleep up to 0.1 s, and starve."""

_BEGIN: Final = {kind: f"BEGIN {kind}" for kind in ("IMMEDIATE", "DEFERRED")}

_OF_SQLITE: Final = (sqlite3.Error, OverflowError, UnicodeDecodeError)


class Link:
    """A connection behind a lock.

    `connect(busy_s=…)` opens it. After a failure `forget_cached` is called before, and `verify` on what was opened.
    `queue` is the line in which its transactions wait for those of other processes.
    """

    def __init__(
        self,
        url: str,
        *,
        connect: Callable[..., sqlite3.Connection],
        forget_cached: Callable[[], None],
        verify: Callable[[sqlite3.Connection], None],
        busy_s: float,
        queue: Queue | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self.url = url
        self._connect = connect
        self._forget_cached = forget_cached
        self._verify = verify
        self.busy_s, self._queue = busy_s, queue
        self._db: sqlite3.Connection | None = None
        self._failed = False
        self._closed = False
        self._pid = os.getpid()

    @contextmanager
    def transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        """A transaction of this `kind` (IMMEDIATE, DEFERRED), committed at the end; undone by any exception.

        Errors of SQLite leave as errors of ours. After one that is not just a busy file the connection is given up.
        """
        self.check_process()
        with self.lock:
            try:
                db = self._ready()
                try:
                    self.begin(db, kind)
                    yield db
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise
            except _OF_SQLITE as error:
                raise self._failure(error) from error
            finally:
                self._leave()

    def look(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What a function reads in a transaction of its own: half of what a `with` costs, and an opening looks often.

        It ends, and errors leave, as those of `transaction` do.
        """
        self.check_process()
        return self.use(_read, work)

    def begin(self, db: sqlite3.Connection, kind: str = "IMMEDIATE") -> None:
        """Begins a transaction, when the other processes let it: waits up to `busy_s` for that.

        The place in line is kept until the connection is left, so whoever gets it next finds the file free.
        """
        queue = self._queue
        if queue is None or queue.file is None:
            try:
                db.execute(_BEGIN[kind])
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
        if queue is not None:
            queue.enter()
        self._begin(db, kind)

    @contextmanager
    def first_in_line(self) -> Iterator[None]:
        """Nobody begins a transaction meanwhile: no thread of this process, and no process that stands in line."""
        queue = self._queue
        with self.lock:
            if queue is None or queue.file is None:
                yield
                return
            queue.enter()
            try:
                yield
            finally:
                queue.leave()

    def _begin(self, db: sqlite3.Connection, kind: str) -> None:
        """Tries again until it has begun. Raises when it has waited in vain."""
        end = clock.monotonic_s() + self.busy_s
        while True:
            try:
                db.execute(_BEGIN[kind])
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error) or clock.monotonic_s() >= end:
                    raise
            time.sleep(pause_s(PAUSE_S))

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """The connection in autocommit mode, for this thread alone."""
        self.check_process()
        with self.lock:
            try:
                yield self._ready()
            except _OF_SQLITE as error:
                raise self._failure(error) from error
            finally:
                self._leave()

    def use(self, work: Callable[[sqlite3.Connection, G], T], given: G) -> T:
        """What a function comes to: this way costs a save less. The caller has checked the process."""
        queue = self._queue
        with self.lock:
            try:
                return work(self._ready(), given)
            except _OF_SQLITE as error:
                raise self._failure(error) from error
            finally:
                if queue is not None and queue.is_entered:
                    queue.leave()

    def _leave(self) -> None:
        if self._queue is not None and self._queue.is_entered:
            self._queue.leave()

    def _failure(self, error: sqlite3.Error | OverflowError | UnicodeDecodeError) -> PerdureError:
        if not is_harmless(error):
            self._failed = True
            self.drop()
        return meaning(error, url=self.url, busy_s=self.busy_s)

    @contextmanager
    def patient(self) -> Iterator[sqlite3.Connection]:
        """The same, for what is no transaction of ours: SQLite itself waits for others up to `busy_s`."""
        with self.connection() as db:
            db.execute(f"PRAGMA busy_timeout={int(self.busy_s * 1000)}")
            try:
                yield db
            finally:
                db.execute("PRAGMA busy_timeout=0")

    def check_process(self) -> None:
        """Raises in a process that was forked from the one that opened the store."""
        if os.getpid() != self._pid:
            raise ProcessForkedError(f"{self.url}: was opened before os.fork(); open it again in this process")

    def drop(self) -> None:
        """Gives the connection up, and the place in line; the next use opens it anew."""
        if self._queue is not None:
            self._queue.close(for_good=self._closed)
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def close(self) -> None:
        """Gives the connection up for good."""
        with self.lock:
            self._closed = True
            self.drop()

    def pause(self) -> None:
        """Locks, and gives the connection up unless this thread is in the middle of a transaction; `resume` unlocks."""
        self.lock.acquire()
        if self._db is not None and not self._db.in_transaction:
            self.drop()

    def resume(self) -> None:
        """Ends a `pause`."""
        self.lock.release()

    def _ready(self) -> sqlite3.Connection:
        if self._db is not None and not self._failed:
            return self._db
        if self._closed:
            raise refusals.closed(self.url)
        if self._db is None:
            if self._failed:
                self._forget_cached()
            self._db = self._connect(busy_s=self.busy_s)
        if self._failed:
            self._verify(self._db)
            self._failed = False
        return self._db


def _read(db: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """What the function reads, in one transaction."""
    try:
        db.execute(_BEGIN["DEFERRED"])
        found = work(db)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return found
