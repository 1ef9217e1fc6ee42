"""Those who write at the same time share one transaction, one commit and one sync; each gets a verdict of its own.

Who finds nobody at work leads: it takes all that wait by then, commits that, tells everyone, and hands the lead to one
who came meanwhile. So a lone writer pays for nothing, and nobody waits for more than the commit under way and the next
one. It knows no tables: what is written is a function of a connection.
"""

from __future__ import annotations

import copy
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeAlias, TypeVar

from perdure import limits
from perdure.errors import PerdureError, StoreFailedError
from perdure.stores import refusals
from perdure.stores.sqlite.link import Link

T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], Any]
"""Looks, judges, then writes. A `PerdureError` from it is its verdict, and concerns nobody else."""


class Group:
    """The writers of one connection: any number of threads, and futures."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._mutex: Final = threading.Lock()
        self._waiting: deque[_Write] = deque()
        self._leader: _Write | None = None
        self._room = threading.BoundedSemaphore(limits.SUBMITTED_COUNT_MAX)
        self._clerk: threading.Thread | None = None
        self._submitted = threading.Event()
        self._ended = False

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` returns, once it is durable. Raises its verdict, or why the transaction failed.

        An interrupt withdraws what is not yet taken into a transaction, and else comes when its outcome is there.
        """
        self._link.check_process()
        write = _Write(work)
        try:
            self._join(write)
            while not write.is_told:
                self._commit()
        finally:
            self._leave(write)
        return write.outcome()  # type: ignore[no-any-return]

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """A future of what `write` would return. Cancelled before it is taken, nothing is written.

        Blocks while `SUBMITTED_COUNT_MAX` are not done: a slow disk pushes back.
        """
        self._link.check_process()
        self._room.acquire()  # released when it is done, by whatever thread
        future: Future[T] = Future()
        future.add_done_callback(lambda _: self._room.release())
        with self._mutex:
            if self._ended:
                self._room.release()
                raise refusals.closed(self._link.url)
            self._waiting.append(_Write(work, future))
            if self._clerk is None:
                self._clerk = threading.Thread(target=self._serve, name="perdure-commits", daemon=True)
                self._clerk.start()
        self._submitted.set()
        return future

    def end(self) -> None:
        """Waits until what was submitted is written. Nothing can be submitted any more."""
        with self._mutex:
            self._ended = True
        self._submitted.set()
        if self._clerk is not None:
            self._clerk.join()

    def _serve(self) -> None:
        """Makes sure that somebody leads while futures wait, by being a writer that has nothing to write."""
        while True:
            self._submitted.wait()
            self._submitted.clear()
            while self._waiting:
                with suppress(PerdureError):  # what failed was told to the futures
                    self.write(_nothing)
            if self._ended:
                return

    def _join(self, write: _Write) -> None:
        """Returns when it leads, or is told."""
        with self._mutex:
            self._waiting.append(write)  # first: what has a bell and is not here was taken
            if self._leader is None:
                self._leader = write
            else:
                write.wait_for_bell()
        if write.bell is not None:
            write.bell.acquire()

    def _leave(self, write: _Write) -> None:
        """Hands the lead on. One that is not told yet was interrupted."""
        if write.is_told and self._leader is not write:
            return
        with self._mutex:
            if write in self._waiting:
                self._waiting.remove(write)
                write.is_told = True
            if self._leader is write:
                self._leader = next((other for other in self._waiting if other.bell is not None), None)
                if self._leader is not None:
                    self._leader.ring()
        while not write.is_told and write.bell is not None:
            write.bell.acquire()

    def _commit(self) -> None:
        """One transaction with all that wait. They are told, or wait again, without the one that spoiled it."""
        attempt = _Attempt(begin=self._link.begin, take=self._take)
        try:
            self._link.use(attempt.run)
        except Exception as error:  # noqa: BLE001 - told to those whom it concerns
            attempt.error = error
        finally:
            try:
                self._settle(attempt)
            except BaseException:  # an interrupt: nobody may be left waiting
                self._settle(attempt)
                raise

    def _settle(self, attempt: _Attempt) -> None:
        """What the attempt means for those that were taken. Done twice it does no more than once."""
        error, spoiler = attempt.error, attempt.trying
        if attempt.is_written:
            for write in attempt.taken:
                write.tell()
        elif error is None:  # interrupted
            self._again(attempt.taken)
        elif spoiler is not None and not isinstance(error, StoreFailedError):
            spoiler.tell(error)
            self._again([write for write in attempt.taken if write is not spoiler])
        else:
            if not attempt.taken:
                self._take(attempt.taken)
            for write in attempt.taken:
                write.tell(_alike(error))

    def _take(self, taken: list[_Write]) -> None:
        with self._mutex:
            taken += self._waiting
            self._waiting.clear()

    def _again(self, writes: list[_Write]) -> None:
        with self._mutex:
            self._waiting = deque(dict.fromkeys([*writes, *self._waiting]))


class _Write:
    """One that waits: to lead, or for its outcome."""

    __slots__ = ("_error", "_future", "_result", "_work", "bell", "is_told")

    def __init__(self, work: Work, future: Future[Any] | None = None) -> None:
        self._work, self._future = work, future
        self._result: Any = None
        self._error: Exception | None = None
        self.bell: threading.Lock | None = None
        """Of a thread that waits. It rings once: when this is told, or when it leads."""
        self.is_told = False

    def wait_for_bell(self) -> None:
        """Makes its bell, which is then waited for by acquiring it."""
        self.bell = threading.Lock()
        self.bell.acquire()

    def ring(self) -> None:
        """Ends the waiting, if there is any."""
        if self.bell is not None and self.bell.locked():
            self.bell.release()

    def attempt(self, db: sqlite3.Connection) -> None:
        """Does the work. Its outcome holds once the transaction is committed."""
        future = self._future
        if future is not None and not future.running() and (future.done() or not future.set_running_or_notify_cancel()):
            return
        changes = db.total_changes
        try:
            self._result, self._error = self._work(db), None
        except PerdureError as verdict:
            if db.total_changes != changes:
                raise  # there is something to be undone
            self._error = verdict

    def tell(self, error: Exception | None = None) -> None:
        """It has its outcome: that of the attempt, or this error, whatever the attempt came to."""
        self._error = error or self._error
        self.is_told = True
        self.ring()
        future = self._future
        if future is None or future.done():
            return
        if self._error is None:
            future.set_result(self._result)
        else:
            future.set_exception(self._error)

    def outcome(self) -> Any:
        """What the work returned; raises its verdict, or why it is not written."""
        if self._error is not None:
            raise self._error
        return self._result


class _Attempt:
    """One transaction: what was taken into it, how far it came."""

    def __init__(self, *, begin: Callable[[sqlite3.Connection], None], take: Callable[[list[_Write]], None]) -> None:
        self._begin, self._take = begin, take
        self.taken: list[_Write] = []
        self.trying: _Write | None = None
        self.error: Exception | None = None
        self.is_written = False

    def run(self, db: sqlite3.Connection) -> None:
        """Begins, takes those who wait by then, and commits."""
        is_whole = False
        try:
            self._begin(db)
            self._take(self.taken)
            for write in self.taken:
                self.trying = write
                write.attempt(db)
            self.trying, is_whole = None, True
            db.execute("COMMIT")
            self.is_written = True
        except sqlite3.Error:
            _roll_back(db)
            raise
        except BaseException:
            self.is_written = is_whole and not db.in_transaction  # an interrupt may come after the commit
            _roll_back(db)
            raise


def _roll_back(db: sqlite3.Connection) -> None:
    if db.in_transaction:
        db.execute("ROLLBACK")


def _alike(error: Exception) -> Exception:
    """One for each thread: raising an error changes it."""
    other = copy.copy(error)
    other.__cause__ = error.__cause__
    return other


def _nothing(_: sqlite3.Connection) -> None:
    return
