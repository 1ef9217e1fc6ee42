"""Those who write at the same time share one round to the place, and its one commit; each has a verdict of its own.

Who finds nobody at work leads: it does a round with all that wait by then, tells everyone, and hands the lead to one
who came meanwhile. So a lone writer pays for nothing, and nobody waits for more than the round under way and the next
one. How a round is done is the store's: this knows no place, no transaction and nothing of what is written.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

from perdure import limits
from perdure.errors import StoreFailedError
from perdure.stores import refusals

W = TypeVar("W")


class Group(Generic[W]):
    """The writers of one place: any number of threads, and futures.

    `commit` does a round: it takes, does the work of each, and says so. `check` raises where nobody may write, as in a
    forked child. `W` is what the store does for one writer, whatever that is to it.
    """

    def __init__(self, commit: Callable[[Round[W]], None], *, url: str, check: Callable[[], None]) -> None:
        self._commit_round, self._url, self._check = commit, url, check
        self._mutex: Final = threading.Lock()
        self._waiting: deque[Write[W]] = deque()
        self._leader: Write[W] | None = None
        self._room = threading.Condition(self._mutex)
        self._submitted_count = 0
        self._clerk: threading.Thread | None = None
        self._calls: SimpleQueue[None] = SimpleQueue()
        self._ended = False

    def write(self, work: W) -> Any:
        """What the work comes to, once it is durable. Raises its verdict, or why the round failed.

        An interrupt withdraws what is not yet taken into a round, and else comes when its outcome is there.
        """
        self._check()
        write = Write(work)
        try:
            with self._mutex:
                self._waiting.append(write)  # first: what has a bell and is not here was taken
                if self._leader is None:
                    self._leader = write
                else:
                    write.wait_for_bell()
            if write.bell is not None:
                write.bell.acquire()
            while not write.is_told:
                self._commit()
        finally:
            self._leave(write)
        if write.error is not None:
            raise write.error
        return write.result

    def submit(self, work: W) -> Future[Any]:
        """A future of what `write` would return. Cancelled before it is begun, nothing is written.

        Blocks while `SUBMITTED_COUNT_MAX` are not done: a slow place pushes back.
        """
        self._check()
        future: Future[Any] = Future()
        with self._mutex:
            while self._submitted_count >= limits.SUBMITTED_COUNT_MAX and not self._ended:
                self._room.wait()
            if self._ended:
                raise refusals.closed(self._url)
            self._submitted_count += 1
            self._waiting.append(Write(work, future))
            if self._clerk is None:
                self._clerk = threading.Thread(target=self._serve, name="perdure-commits", daemon=True)
                self._clerk.start()
        future.add_done_callback(self._done)
        self._calls.put(None)
        return future

    def _done(self, _: Future[Any]) -> None:
        with self._mutex:
            self._submitted_count -= 1
            self._room.notify()

    def end(self) -> None:
        """Waits until what was submitted is written. Nothing can be submitted any more."""
        with self._mutex:
            self._ended = True
            self._room.notify_all()
        self._calls.put(None)
        if self._clerk is not None:
            self._clerk.join()

    def _serve(self) -> None:
        """Makes sure that somebody leads while futures wait, by being a writer that has nothing to write."""
        while True:
            self._calls.get()
            while self._waiting:
                with suppress(Exception):  # what failed was told to the futures
                    self.write(None)  # type: ignore[arg-type]
            with self._mutex:
                is_over = self._ended and not self._waiting
            if is_over:
                return

    def _leave(self, write: Write[W]) -> None:
        """Hands the lead on. One that is not told yet was interrupted."""
        if write.is_told and self._leader is not write:
            return
        with self._mutex:
            if self._waiting:
                self._hand_on(write)
            elif self._leader is write:
                self._leader = None
        while not write.is_told and write.bell is not None:
            write.bell.acquire()

    def _hand_on(self, write: Write[W]) -> None:
        if write in self._waiting:
            self._waiting.remove(write)
            write.is_told = True
        if self._leader is write:
            self._leader = next((other for other in self._waiting if other.bell is not None), None)
            if self._leader is not None:
                self._leader.ring()

    def _commit(self) -> None:
        """One round with all that wait. They are told, or wait again, without the one that spoiled it."""
        attempt = Round(self._take)
        try:
            self._commit_round(attempt)
        except Exception as error:  # noqa: BLE001 - told to those whom it concerns
            attempt.error = error
        finally:
            try:
                self._settle(attempt)
            except BaseException:  # an interrupt: nobody may be left waiting
                self._settle(attempt)
                raise

    def _settle(self, attempt: Round[W]) -> None:
        """What the round means for those that were taken. Done twice it does no more than once."""
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

    def _take(self, taken: list[Write[W]]) -> list[Write[W]]:
        with self._mutex:
            taken += self._waiting
            self._waiting.clear()
        return taken

    def _again(self, writes: list[Write[W]]) -> None:
        with self._mutex:
            self._waiting = deque(dict.fromkeys([*writes, *self._waiting]))


class Write(Generic[W]):
    """One that waits: to lead, or for its outcome.

    `result` and `error` are what this round comes to for it; they hold once the round is written.
    """

    __slots__ = ("_future", "bell", "error", "is_told", "result", "work")

    def __init__(self, work: W, future: Future[Any] | None = None) -> None:
        self.work, self._future = work, future
        self.result: Any = None
        self.error: Exception | None = None
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

    def begins(self) -> bool:
        """Whether its work is to be done now: there is some, and it was not cancelled. It cannot be from then on."""
        future = self._future
        if future is None or future.running():
            return self.work is not None
        return not future.done() and future.set_running_or_notify_cancel()

    def tell(self, error: Exception | None = None) -> None:
        """It has its outcome: that of the round, or this error, whatever the round came to."""
        if error is not None:
            self.error = error
        self.is_told = True
        if self.bell is not None:
            self.ring()
        if self._future is None:
            return
        with suppress(InvalidStateError):  # told already, or cancelled
            if self.error is None:
                self._future.set_result(self.result)
            else:
                self._future.set_exception(self.error)


class Round(Generic[W]):
    """One round: who was taken into it, how far it came.

    Whoever does it takes once it is ready to write, sets `trying` to the one whose work is under way, `result` or
    `error` of each, and `is_written` when all of it is durable. An exception before that tells the one that is `trying`
    and has the others go again; a `StoreFailedError`, or one while nobody is, concerns all.
    """

    __slots__ = ("error", "is_written", "take", "taken", "trying")

    def __init__(self, take: Callable[[list[Write[W]]], list[Write[W]]]) -> None:
        self.taken: list[Write[W]] = []
        self.take: Callable[[], list[Write[W]]] = partial(take, self.taken)
        """Gives those who wait by now, in the order in which they came."""
        self.trying: Write[W] | None = None
        self.error: Exception | None = None
        self.is_written = False


def _alike(error: Exception) -> Exception:
    """One for each thread: raising an error changes it."""
    other = copy.copy(error)
    other.__cause__ = error.__cause__
    return other
