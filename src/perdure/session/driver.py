"""How a thread drives the core: commits, attempts and waits, one piece of logic at a time, in the thread that calls.

The session that the code sees is built on this (`session.py`).
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.errors import ConflictError, FencedError, HeldError, RefusedError
from perdure.session import parallel, timed
from perdure.session.face import Face
from perdure.session.keeping.arrivals import arrivals, pass_time
from perdure.session.rules import inside
from perdure.session.rules.call import Unknown
from perdure.session.rules.request import (
    Attempt,
    AwaitCut,
    AwaitFlights,
    AwaitItems,
    AwaitSiblings,
    AwaitTime,
    Commit,
    Ended,
    Request,
    Steps,
    Verify,
)
from perdure.session.trying import verifying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.session.rules.item import Sent
    from perdure.session.stream import OpenStreams
    from perdure.session.trying import Trying

T = TypeVar("T")


class Driver(Face):
    """A session of threads, as far as the core is concerned."""

    streams: OpenStreams

    def __init__(self, *opened: Any, **named: Any) -> None:
        super().__init__(*opened, **named)
        self._own, self._moved = threading.RLock(), threading.Condition(self._lock)
        self._waiting = 0
        """So many threads wait for a move."""

    # --- driving the core ---------------------------------------------------------------------------------------------

    def _ready(self) -> None:
        """The code is about to do something: it may, and no stream that it reads is left without a record."""
        self._check_open()
        self.streams.settle()  # also before a stop: what was read is known, and need not be asked about
        if self.stop_reason:
            self._check_stop()

    def _enter_alone(self) -> bool:
        """Whether the session is this thread's own from now on, until it gives it back; a part of it has it anyway.

        Raises `RefusedError` while another thread uses the session that is no part of it.
        """
        own = not parallel.is_helper(self)
        if own and not self._own.acquire(blocking=False):
            raise RefusedError(
                f"{self.id} is being used by another thread at this moment; calls in parallel are made in a block: "
                "with s.parallel() as p"
            )
        return own

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Within it no other thread uses the session that is no part of it. Raises `RefusedError` while one does."""
        own = self._enter_alone()
        try:
            yield
        finally:
            if own:
                self._own.release()

    def _drive(self, steps: Steps) -> Any:
        """Runs a piece of the core's logic: performs what it asks for, sends the answers."""
        self._check_open()
        own = self._enter_alone()
        try:
            with self._lock:
                self._opened.writer.resolve()  # first, for the core decides by what is written
                return self._run(steps)
        except FencedError as fenced:
            raise self._core.leave(fenced) from None
        except (ConflictError, HeldError) as late:
            if not self._opened.writer.is_shared:
                raise
            raise self._core.leave(late) from None
        finally:
            if own:
                self._own.release()

    def _run(self, steps: Steps) -> Any:
        try:
            request = next(steps)
            while True:
                try:
                    answer = self._perform(request)
                except BaseException as error:  # noqa: BLE001 - handed to the core, which raises it again
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as done:
            return done.value
        finally:
            if self._waiting:
                self._moved.notify_all()

    def _perform(self, request: Request) -> Any:  # noqa: PLR0911 - one answer for each request
        match request:
            case Commit():
                return self._opened.writer.commit(request)
            case Attempt():
                return self._outside(self._attempt, request)
            case Verify():
                return self._outside(self._verify, request)
            case AwaitFlights():
                return self._wait_for_move()
            case AwaitSiblings() | AwaitCut():
                return False  # a block lets the others claim before it begins one; nothing cuts a thread short
            case AwaitItems():
                return self._outside(self._arrivals, request)
            case AwaitTime():
                return self._outside(self._pass_time, request)
            case _:
                return self._read(request)

    def _pass_time(self, request: AwaitTime) -> None:
        pass_time(request, go_on=self._check_stop)

    def _arrivals(self, request: AwaitItems) -> tuple[list[Sent], float]:
        return arrivals(self._opened.reader.store, self.id, request, go_on=self._check_stop)

    def _outside(self, work: Callable[[T], Any], request: T) -> Any:
        """Does it without the lock, so that others go on meanwhile; afterwards the core decides by what is written."""
        if self._waiting:
            self._moved.notify_all()
        self._lock.release()
        try:
            return work(request)
        finally:
            self._lock.acquire()
            self._check_time()
            self._opened.writer.resolve()

    def _wait_for_move(self) -> None:
        moves = self._core.flights.moves
        self._waiting += 1
        try:
            self._moved.wait_for(lambda: self._core.flights.moves != moves)
        finally:
            self._waiting -= 1
        self._opened.writer.resolve()

    @staticmethod
    def _verify(request: Verify) -> Any:
        asking = verifying(request)
        if asking is None:
            return Unknown()
        verify, args, kwargs = asking
        return verify(*args, **kwargs)

    def _attempt(self, request: Attempt) -> tuple[Ended, int]:
        trying = self._trying(request)
        trying.begins()
        try:
            with inside.running(self._core, request.stack):
                result = self.streams.around(self._called, trying)
        except timed.TimeOverError:
            return trying.timed_out()
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its outcome
            return trying.raised(error)
        else:
            return trying.returned(result)
        finally:
            trying.over()

    def _called(self, trying: Trying) -> Any:
        if trying.timeout_s is None:
            return trying.called()
        with parallel.helping(self):
            return timed.within(trying.called, timeout_s=trying.timeout_s)
