"""A stream as the code of an event loop reads it: `Stream`, awaited.

Which streams the running code depends on is told by its context: those that it, or the task that started it, has read
from. Others go on beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from perdure import faults
from perdure.errors import Leaving, StorableError, Suspended
from perdure.log.action import STRICTNESS
from perdure.session.async_source import AsyncSource
from perdure.session.rules.reading import returned
from perdure.session.stream import Begun, is_our_own
from perdure.session.waiting import to_its_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType

    from perdure.session.async_session import AsyncSession
    from perdure.session.rules.call import Options
    from perdure.session.rules.request import Ended

T = TypeVar("T")

_log = logging.getLogger("perdure.stream")

_read: ContextVar[tuple[AsyncStream[Any], ...]] = ContextVar("perdure_read", default=())
_made: ContextVar[tuple[AsyncStream[Any], ...]] = ContextVar("perdure_made", default=())


class AsyncLoop(Generic[T]):
    """One loop over a stream. When the loop is left, so is the stream."""

    def __init__(self, stream: AsyncStream[T]) -> None:
        self._stream = stream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        return await anext(self._stream)

    def __del__(self) -> None:
        self._stream.leave()


class AsyncStream(Begun, Generic[T]):
    """Made by `session.stream()`. Read it by `async for`, or by `anext`; then `await result()` is the whole.

    It begins when it is first read. Leaving the loop, `close()` and the end of an `async with` block leave it.
    """

    def __init__(self, session: AsyncSession, fn: Callable[..., Any], options: Options, given: tuple[Any, Any]) -> None:
        super().__init__(session, fn, options, given)
        self._session = session
        self._source: AsyncSource | None = None
        self._turn = asyncio.Lock()
        self._reader: asyncio.Task[Any] | None = None
        _made.set((*_open(_made.get()), self))

    @property
    def is_for_here(self) -> bool:
        """Whether the running code depends on it, or it is for whoever comes to settle."""
        mine = self in _made.get() and (self._reader is None or self._reader.done())
        return self.reading.left or mine or self in _read.get()

    def __aiter__(self) -> AsyncIterator[T]:
        self._check_reads()
        return AsyncLoop(self)

    async def __anext__(self) -> T:
        self._check_reads()
        self._reader = asyncio.current_task()
        if self not in (before := _open(_read.get())):
            _read.set((*before, self))
        while not self.reading.is_ahead:
            if self.reading.over:
                raise StopAsyncIteration
            if self.reading.outcome is not None:
                await self._come_to_its_end()
            await self._one_more(reads=True)
        return self.reading.hand()  # type: ignore[no-any-return]

    async def _come_to_its_end(self) -> None:
        if self.action is not None and self.reading.outcome is not None and self._was_left:
            steps = self._core.streams.read_on(self.call, self.action, self.reading.outcome)
            try:
                await self._session._drive(steps)  # noqa: SLF001 - the two are one thing
            except asyncio.CancelledError:
                self.leave()
                raise
        self.reading.over = True
        if (error := self._error()) is not None:
            raise error
        raise StopAsyncIteration(returned(self.reading.outcome))

    async def result(self) -> Any:
        """The whole, once the rest is read; as `Stream.result`."""
        while not (self.reading.left or self.reading.over):
            try:
                await anext(self)
            except StopAsyncIteration:
                break
        return self.reading.whole()

    async def close(self) -> None:
        """Leaves it. Durable: what was read is its outcome, unless it had come to its end."""
        self.leave()
        if self.is_open:
            await self._cut()
        if not self.reading.over and self._was_left and (error := self._error()) is not None:
            raise error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        else:
            self.leave()

    # --- live ---------------------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """It is recorded how it ended: it is read to its end, unless the code has left it."""
        if self.reading.left and self.is_open:
            await self._cut()
        while self.is_open:
            await self._one_more(reads=False)

    async def give_up(self) -> None:
        """Nothing is recorded of how it ended: the code is left, or another error than the function's own came."""
        self.leave()
        self._session.streams.remove(self)
        if self.action is not None:
            self._core.streams.give_up(self.action)
        await self._close_quietly()
        self._over()

    async def _close_quietly(self) -> None:
        try:
            await self._close_source()
        except (Exception, Leaving) as error:  # noqa: BLE001 - nobody waits for it any more
            _log.warning("%s raised while it was closed: %s: %s", self._name, type(error).__name__, error)

    async def _one_more(self, *, reads: bool) -> None:
        """One chunk more, or the end; begins where it has not begun. `reads`: the code waits for it."""
        async with self._turn:
            if self.reading.outcome is not None:
                return
            if self.action is None:
                await self._begin()
                return
            self._session._deliver_owed()  # noqa: SLF001
            if self._source is None:
                self._source = AsyncSource(self._session, *self._try())
            try:
                chunk = await self._source.next()
            except StopAsyncIteration as end:
                await self._end(*self._ended(end.args[0] if end.args else None))
            except asyncio.CancelledError:
                if reads:
                    await self._cancelled()
                raise
            except Exception as error:  # noqa: BLE001 - whatever a tool raises is its outcome
                await self._end(*await self._raised(error))
            else:
                await self._take(chunk)

    async def _cancelled(self) -> None:
        """Cancelled while it waited: what may not run twice waits for a person, before the code sees it."""
        self.leave()
        action = self.action
        if action is not None and max(self.call.effect, action.effect, key=STRICTNESS.index) == "once":
            await self.give_up()
            raise self._core.leave(Suspended((action.seq,)))

    async def _take(self, chunk: Any) -> None:
        try:
            self.reading.take(chunk)
        except StorableError as error:
            await self._close_quietly()
            await self._end(*self._broke(error))
        else:
            faults.reach("stream.chunk")

    async def _raised(self, error: Exception, *, cut: bool = False) -> tuple[Ended, int]:
        if is_our_own(error):
            await self.give_up()
            raise error
        return self._broke(error, cut=cut)

    async def _begin(self) -> None:
        session = self._session
        await session._ready()  # noqa: SLF001
        self.stack = self._core.stack
        steps = self._core.streams.begin(self._make())
        self.action, outcome = await session._drive(steps, to_the_end=True)  # noqa: SLF001
        if outcome is None:
            session.streams.add(self)
        else:
            self.reading.recall(outcome)

    async def _cut(self) -> None:
        """Records it as left by the code, with what it was given."""
        async with self._turn:
            if not self.is_open:
                return
            try:
                await self._close_source()
            except Exception as error:  # noqa: BLE001 - whatever a tool raises is its outcome
                await self._end(*await self._raised(error, cut=True))
            else:
                await self._end(*self._ended(cut=True))

    async def _close_source(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            await source.close()

    async def _end(self, ended: Ended, took_us: int) -> None:
        """Records it. The next attempt, if there is one, begins with the next chunk."""
        if self.action is None:
            raise AssertionError(f"{self._name} has not begun")
        self._source = None
        self._over()
        steps = self._core.streams.end(self.call, self.action, ended, duration_us=took_us)
        try:
            again = await self._session._drive(steps, to_the_end=True)  # noqa: SLF001
        except BaseException:
            await self.give_up()
            raise
        if again is not None:
            self.action = again
        else:
            self.reading.end(ended)
            self._session.streams.remove(self)


def _open(streams: tuple[AsyncStream[Any], ...]) -> tuple[AsyncStream[Any], ...]:
    return tuple(stream for stream in streams if stream.reading.outcome is None)


class OpenAsyncStreams:
    """The streams of a session that run."""

    def __init__(self, session: AsyncSession) -> None:
        self._session, self._core = session, session._core  # noqa: SLF001
        self._open: list[AsyncStream[Any]] = []

    def add(self, stream: AsyncStream[Any]) -> None:
        """It has begun."""
        self._open.append(stream)

    def remove(self, stream: AsyncStream[Any]) -> None:
        """It has ended, or is given up."""
        if stream in self._open:
            self._open.remove(stream)

    async def settle(self) -> None:
        """Those that the running code has read from are recorded as they ended; and all that were left."""
        if not self._open:
            return
        for stream in [stream for stream in self._here() if stream.is_for_here]:
            self._core.go_on()
            await stream.settle()

    async def leave(self) -> None:
        """The code of this place reads no more of any."""
        if not self._open:
            return
        for stream in self._here():
            self._core.go_on()
            if stream.is_for_here:
                stream.leave()
        await self.settle()

    async def give_up(self) -> None:
        """Nothing is recorded of those that run."""
        for stream in list(self._open):
            self._session._owe((await to_its_end(stream.give_up))[1])  # noqa: SLF001

    def _here(self) -> list[AsyncStream[Any]]:
        """Those that belong to this place in the code, not to an action around it or beside it."""
        return [stream for stream in self._open if stream.stack == self._core.stack]

    @contextlib.asynccontextmanager
    async def within(self) -> AsyncIterator[None]:
        """Around an action: the streams that its code reads end with it."""
        try:
            yield
            if self._open:
                for stream in self._here():
                    stream.leave()
                await self.settle()
        finally:
            if self._open:
                for stream in self._here():
                    await stream.give_up()
