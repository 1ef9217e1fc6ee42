"""Where the chunks of a stream come from in an event loop: the iterator of one attempt, in a task of its own.

What gives its chunks without awaiting is read in a thread. What a chunk is good for is not known here.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

from perdure import clock
from perdure.errors import Leaving
from perdure.session import timed
from perdure.session.rules import inside
from perdure.session.source import stepped
from perdure.session.trying import is_coroutine
from perdure.session.waiting import to_its_end
from perdure.session.worker import Worker

if TYPE_CHECKING:
    from perdure.session.async_session import AsyncSession
    from perdure.session.trying import Trying


class AsyncSource:
    """One attempt. Its code sees one task, however many read; a chunk is asked for only when it is wanted."""

    def __init__(self, session: AsyncSession, trying: Trying, stack: tuple[int, ...]) -> None:
        self._session, self._trying = session, trying
        self._can_be_cut = is_coroutine(trying.fn) or inspect.isasyncgenfunction(trying.fn)
        self._end_s = None if trying.timeout_s is None else clock.monotonic_s() + trying.timeout_s
        self._wanted, self._closing = asyncio.Event(), False
        self._answer: asyncio.Future[Any] | None = None
        self._chunks: Any = None
        self._worker: Worker | None = None
        with inside.running(session._core, stack), timed.limited() as self._left:  # noqa: SLF001
            self._task = asyncio.ensure_future(self._run())

    async def next(self) -> Any:
        """The next chunk. Raises `StopAsyncIteration`, `TimeOverError`, and what the function raises.

        Cancelled, the chunk is not lost: who asks next gets it. What is read in a thread is waited for all the same.
        """
        if self._answer is None:
            self._answer = asyncio.get_running_loop().create_future()
            self._wanted.set()
        answer = self._answer
        while not answer.done():
            left_s = None if self._end_s is None else max(0.0, self._end_s - clock.monotonic_s())
            if left_s == 0:
                await self._run_out()
            try:
                await asyncio.wait([answer], timeout=left_s)
            except asyncio.CancelledError:
                if self._can_be_cut and self._session._core.leaving is None:  # noqa: SLF001
                    raise
                self._session._owe(cancelled=True)  # noqa: SLF001
        self._answer = None
        return answer.result()

    async def _run_out(self) -> None:
        """Its time is over: what can be cut is cut; a thread is left to itself, and can call nothing any more."""
        self._left.set()
        await self._stop()
        raise timed.TimeOverError

    async def close(self) -> None:
        """Ends the function, which cleans up behind itself. Raises what it raises."""
        if not self._can_be_cut and self._answer is not None:
            await to_its_end(lambda: asyncio.wait([self._answer or self._task]))
        if self._answer is None or self._answer.done():
            self._closing = True
            self._wanted.set()
            await to_its_end(lambda: asyncio.wait([self._task]))
        else:
            await self._stop()
        if not self._task.cancelled():
            self._task.result()

    async def _stop(self) -> None:
        self._task.cancel()
        await to_its_end(lambda: asyncio.wait([self._task]))

    # --- the task -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while await self._is_wanted():
                try:
                    chunk = await self._step()
                except (Exception, Leaving) as error:  # noqa: BLE001 - raised where it is waited for
                    self._tell(error)
                    return
                self._tell(None, chunk)
        finally:
            if self._answer is not None and not self._answer.done():
                self._answer.cancel()
            await self._clean_up()

    async def _is_wanted(self) -> bool:
        await self._wanted.wait()
        self._wanted.clear()
        return not self._closing

    def _tell(self, error: BaseException | None, chunk: Any = None) -> None:
        answer = self._answer
        if answer is not None and not answer.done():
            answer.set_result(chunk) if error is None else answer.set_exception(error)
            answer.exception()  # it is retrieved by whoever asks; nobody may

    async def _step(self) -> Any:
        if self._chunks is None:
            self._chunks = await self._opened()
        if self._worker is None:
            return await anext(self._chunks)
        chunk, end = await asyncio.wrap_future(self._worker.give(stepped, self._chunks.__next__))
        if end is not None:
            raise StopAsyncIteration(end.value)
        return chunk

    async def _opened(self) -> Any:
        """What is iterated over."""
        trying, worker = self._trying, None
        if inspect.isasyncgenfunction(trying.fn):
            return trying.fn(*trying.args, **trying.kwargs)
        if is_coroutine(trying.fn):
            found = await trying.fn(*trying.args, **trying.kwargs)
        else:
            worker = Worker()
            found = await asyncio.wrap_future(worker.give(trying.fn, *trying.args, **trying.kwargs))
        if hasattr(found, "__aiter__"):
            if worker is not None:
                worker.stop(lambda: None)
            self._can_be_cut = True
            return aiter(found)
        self._can_be_cut, self._worker = False, worker or Worker()
        return iter(found)

    async def _clean_up(self) -> None:
        if self._worker is not None:
            close = getattr(self._chunks, "close", None) or (lambda: None)
            future = self._worker.stop(close)
            if not self._left.is_set():
                await asyncio.wrap_future(future)
        elif (aclose := getattr(self._chunks, "aclose", None) or getattr(self._chunks, "close", None)) is not None:
            closing = aclose()
            if inspect.isawaitable(closing):
                await closing
