"""How an event loop drives the core: commits, attempts and waits, one piece of logic at a time, in the loop's thread.

What the core asks for is done beside it; a cancelled task never leaves a record behind that does not say what became of
it. The session that the code sees is built on this (`async_session.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from weakref import WeakSet

from perdure import clock, limits
from perdure.errors import (
    ConflictError,
    FencedError,
    HeldError,
    RefusedError,
)
from perdure.session import timed
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
    StateAt,
    Steps,
    Verify,
    Waiting,
)
from perdure.session.trying import is_coroutine, verifying
from perdure.session.waiting import ended, in_thread, to_its_end, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.session.async_stream import OpenAsyncStreams
    from perdure.session.rules.item import Sent
    from perdure.session.trying import Trying
    from perdure.session.waiting import Awaited

P = ParamSpec("P")
T = TypeVar("T")


class AsyncDriver(Face):
    """A session of one event loop, as far as the core is concerned."""

    streams: OpenAsyncStreams

    def __init__(self, *opened: Any, **named: Any) -> None:
        super().__init__(*opened, **named)
        self._turn, self._loop, self._home = asyncio.Lock(), asyncio.get_running_loop(), threading.get_ident()
        self._entered_by = asyncio.current_task()
        self._before = WeakSet(asyncio.all_tasks())
        self._idle: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._waiters: list[asyncio.Future[None]] = []
        self._moves = 0
        self._owed: WeakSet[asyncio.Task[Any]] = WeakSet()

    # --- driving the core ---------------------------------------------------------------------------------------------

    async def _drive(self, steps: Steps, *, to_the_end: bool = False) -> Any:
        """Runs a piece of the core's logic: performs what it asks for, sends the answers.

        `to_the_end`: a commit is not left when the task is cancelled; what follows it is.
        """
        self._check_open()
        if threading.get_ident() != self._home:
            raise RefusedError(f"{self.id} belongs to the event loop that opened it; call it from there")
        try:
            async with self._turn:
                self._check_open()
                if self._is_unresolved:
                    await self._resolve()
                return await self._run(steps, to_the_end=to_the_end)
        except FencedError as fenced:
            raise self._core.leave(fenced) from None
        except (ConflictError, HeldError) as late:
            if not self._opened.writer.is_shared:
                raise
            raise self._core.leave(late) from None

    async def _run(self, steps: Steps, *, to_the_end: bool) -> Any:
        answer: Any = None
        error: BaseException | None = None
        try:
            while True:
                with self._lock:
                    request = steps.send(answer) if error is None else steps.throw(error)
                answer, error = None, None
                try:
                    answer = await self._perform(request, to_the_end=to_the_end)
                except BaseException as raised:  # noqa: BLE001 - handed to the core, which raises it again
                    error = raised
        except StopIteration as done:
            return done.value
        finally:
            self._tell_waiters()

    async def _perform(self, request: Request, *, to_the_end: bool) -> Any:
        match request:
            case Commit():
                return await self._commit(request, to_the_end=to_the_end)
            case Attempt():
                return await self._outside(self._attempt(request))
            case Verify():
                return await self._outside(self._verify(request))
            case AwaitCut() | AwaitTime() | AwaitFlights() | AwaitSiblings() | AwaitItems():
                return await self._outside(self._await(request))
            case _:
                if isinstance(request, StateAt):
                    await in_thread(self._core.state.load_all)
                return await in_thread(self._read, request)

    async def _outside(self, work: Awaited[T]) -> T:
        """Does it while others take their turn; afterwards the core decides by what is written."""
        self._tell_waiters()
        self._turn.release()
        try:
            return await work
        finally:
            self._owe((await to_its_end(self._turn.acquire))[1])
            if timed.is_left():  # nothing that it was about is recorded any more
                raise asyncio.CancelledError
            self._check_open()
            if self._is_unresolved:
                self._owe((await to_its_end(self._resolve))[1])

    # --- commits ------------------------------------------------------------------------------------------------------

    async def _commit(self, request: Commit, *, to_the_end: bool) -> int:
        writer = self._opened.writer
        future = writer.submit(request)
        if future is None:
            return writer.sent
        if to_the_end:
            self._owe((await to_its_end(lambda: written(future)))[1])
        else:
            try:
                await written(future)
            except asyncio.CancelledError:
                future.cancel()
                raise
        return writer.conclude()

    @property
    def _is_unresolved(self) -> bool:
        writer = self._opened.writer
        return writer.submitted is not None or writer.is_unknown

    async def _resolve(self) -> None:
        """Finds out what became of a commit that somebody did not wait for."""
        writer = self._opened.writer
        if writer.submitted is not None:
            await written(writer.submitted)
        if writer.is_unknown:
            await in_thread(writer.resolve)

    def _owe(self, cancelled: bool) -> None:  # noqa: FBT001 - what came of a wait
        """A cancellation that came where it would have lost a record: it is delivered at the task's next call."""
        if cancelled and (task := asyncio.current_task()) is not None:
            self._owed.add(task)

    def _deliver_owed(self) -> None:
        task = asyncio.current_task()
        if task is not None and task in self._owed:
            self._owed.discard(task)
            if task.cancelling():
                raise asyncio.CancelledError

    # --- attempts -----------------------------------------------------------------------------------------------------

    @staticmethod
    async def _verify(request: Verify) -> Any:
        asking = verifying(request)
        if asking is None:
            return Unknown()
        verify, args, kwargs = asking
        if is_coroutine(verify):
            return await verify(*args, **kwargs)
        return await in_thread(verify, *args, **kwargs)

    async def _attempt(self, request: Attempt) -> tuple[Ended, int]:
        trying = self._trying(request)
        try:
            self._deliver_owed()
        except asyncio.CancelledError as cancelled:
            return trying.cut_short(cancelled, began=False)
        trying.begins()
        try:
            return await self._tried(trying, request)
        finally:
            trying.over()

    async def _tried(self, trying: Trying, request: Attempt) -> tuple[Ended, int]:
        with inside.running(self._core, request.stack), timed.limited() as left:
            work = asyncio.ensure_future(self._called(trying))
        if await self._is_over(work, trying, left):
            return trying.timed_out()
        if work.cancelled():
            return trying.cut_short(asyncio.CancelledError(), began=True)
        try:
            result = work.result()
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its outcome
            return trying.raised(error)
        return trying.returned(result)

    async def _is_over(self, work: asyncio.Future[Any], trying: Trying, left: timed.Left) -> bool:
        """Waits for an attempt to end. Whether its time was over before; a thread goes on then, left to itself."""
        can_be_cut, end_s = is_coroutine(trying.fn), _end_s(trying.timeout_s)
        while not work.done() and not left.is_set():
            try:
                if end_s is None:
                    await ended(work)
                else:
                    await asyncio.wait([work], timeout=max(0.0, end_s - clock.monotonic_s()))
            except asyncio.CancelledError:
                if can_be_cut and self._core.leaving is None:
                    work.cancel()
                else:
                    self._owe(cancelled=True)
            if end_s is not None and not work.done() and clock.monotonic_s() >= end_s:
                left.set()
        if not left.is_set():
            return False
        if can_be_cut:
            work.cancel()
            self._owe((await to_its_end(lambda: ended(work)))[1])
        return not work.done() or work.cancelled() or isinstance(work.exception(), RefusedError)

    async def _called(self, trying: Trying) -> Any:
        async with self.streams.within():
            return await self._function(trying)

    @staticmethod
    async def _function(trying: Trying) -> Any:
        if not is_coroutine(trying.fn):
            return await in_thread(trying.fn, *trying.args, **trying.kwargs)
        return await trying.fn(*trying.args, **trying.kwargs)

    # --- waiting for each other ---------------------------------------------------------------------------------------

    async def _await(self, request: Waiting) -> Any:
        match request:
            case AwaitFlights():
                return await self._move()
            case AwaitCut(after_us):
                await asyncio.sleep(after_us / 1e6 + limits.SIBLINGS_WAIT_S)
                return False
            case AwaitSiblings():
                return await self._siblings()
            case AwaitItems():
                return await self._arrivals(request)
            case AwaitTime():
                return await self._in_thread(pass_time, request)

    async def _arrivals(self, request: AwaitItems) -> tuple[list[Sent], float]:
        return await self._in_thread(arrivals, self._opened.reader.store, self.id, request)

    async def _in_thread(self, wait: Callable[..., T], *args: Any) -> T:
        """Waits in a thread; it ends when the waiting task is cancelled or the run is to stop."""
        given_up = threading.Event()

        def go_on() -> None:
            if given_up.is_set():
                raise asyncio.CancelledError
            self._check_stop()

        try:
            return await in_thread(wait, *args, go_on=go_on)
        finally:
            given_up.set()

    async def _move(self) -> bool:
        moves = self._core.flights.moves
        while self._core.flights.moves == moves:
            await self.something_new()
        return True

    async def _siblings(self) -> bool:
        """Whether something moved; False when nothing will: no call is in flight, and no task could make one.

        Whether a task that waits for something else will ever call, nobody knows: it has some seconds.
        """
        moves = self._core.flights.moves
        with self.idle():
            while self._core.flights.moves == moves:
                quiet = not self._core.flights.around(self._core.stack)
                if quiet and not self._others():
                    return False
                try:
                    async with asyncio.timeout(limits.SIBLINGS_WAIT_S if quiet else None):
                        await self.something_new()
                except TimeoutError:
                    return False
        return True

    def _others(self) -> set[asyncio.Task[Any]]:
        """The tasks that could make a call of this session, as far as can be told."""
        strangers = set(self._before) - {self._entered_by}
        return asyncio.all_tasks() - strangers - set(self._idle)

    @contextlib.contextmanager
    def idle(self) -> Iterator[None]:
        """Within it, the running task only waits for other tasks of this session."""
        task = asyncio.current_task()
        if task is not None:
            self._idle.add(task)
        self._wake()
        try:
            yield
        finally:
            if task is not None:
                self._idle.discard(task)

    async def something_new(self) -> None:
        """Waits until a call claimed, began or ended, or a task is idle now."""
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def _tell_waiters(self) -> None:
        if self._core.flights.moves != self._moves:
            self._moves = self._core.flights.moves
            self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _end_s(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else clock.monotonic_s() + timeout_s
