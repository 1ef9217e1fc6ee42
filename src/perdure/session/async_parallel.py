"""A parallel block in an event loop: each call runs in a task of its own.

Calls are claimed as the code makes them; one that has to let others claim first begins once nothing is left to claim,
at the latest when the code waits for the block.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, overload

from perdure.errors import Leaving, RefusedError, Suspended
from perdure.session.block import Block, Made
from perdure.session.rules import call as calls
from perdure.session.waiting import ended, to_its_end

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextvars import Token
    from types import TracebackType

    from perdure.session.async_session import AsyncSession
    from perdure.session.waiting import Awaited

P = ParamSpec("P")
T = TypeVar("T")

_block: ContextVar[AsyncParallel | None] = ContextVar("perdure_block", default=None)


def check_may_draw(session: AsyncSession, kind: str) -> None:
    """Raises `RefusedError` where tasks of a block would race for values."""
    block = _block.get()
    if block is not None and block.is_raced_in(session):
        raise RefusedError(
            f"s.{kind}() in a task of a parallel block: which task gets which value would be chance. "
            "Draw it before the block, or inside of an action"
        )


class AsyncPromise(Generic[T]):
    """The result of a call that was made in a parallel block: await it."""

    def __init__(self, block: AsyncParallel, made: Made[T]) -> None:
        self._block, self._made = block, made

    def __await__(self) -> Generator[Any, Any, T]:
        yield from self._block.deliver(self._made).__await__()
        return self._made.value()

    def done(self) -> bool:
        """Whether it has ended. What the code does by this is not recorded, and may be another next time."""
        return self._made.ended


class AsyncParallel(Block):
    """Made by `session.parallel()`. Calls are made by the task that opened it."""

    def __init__(self, session: AsyncSession, *, at_once: int) -> None:
        super().__init__(session, at_once=at_once)
        self._session = session
        self._free = asyncio.Semaphore(at_once)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._owner: asyncio.Task[Any] | None = None
        self._stack: tuple[int, ...] = ()
        self._joining = 0
        self._token: Token[AsyncParallel | None] | None = None

    async def __aenter__(self) -> Self:
        self._owner, self._stack = asyncio.current_task(), self._core.stack
        self._token = _block.set(self)
        return self

    def is_raced_in(self, session: AsyncSession) -> bool:
        """Whether the running code is beside other tasks of this block, and not inside of an action."""
        return session is self._session and self._core.stack == self._stack and asyncio.current_task() != self._owner

    @overload
    def call(self, fn: Callable[P, Awaited[T]], /, *args: P.args, **kwargs: P.kwargs) -> AsyncPromise[T]: ...
    @overload
    def call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> AsyncPromise[T]: ...
    def call(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> AsyncPromise[Any]:
        """Calls `fn` so, as `session.call` does, and goes on meanwhile."""
        self._check_here()
        return self._promise(self._make(fn, calls.options_of(fn), (args, kwargs), awaited=True))

    @overload
    def action(self, fn: Callable[P, Awaited[T]], /, **options: Any) -> Callable[P, AsyncPromise[T]]: ...
    @overload
    def action(self, fn: Callable[P, T], /, **options: Any) -> Callable[P, AsyncPromise[T]]: ...
    def action(self, fn: Callable[..., Any], /, **options: Any) -> Callable[..., AsyncPromise[Any]]:
        """`fn` as an action with these options, as `session.action` makes it; called, it goes on meanwhile."""
        chosen = self._session._options(fn, options)  # noqa: SLF001

        def act(*args: Any, **kwargs: Any) -> AsyncPromise[Any]:
            self._check_here()
            return self._promise(self._make(fn, chosen, (args, kwargs), awaited=True))

        return act

    def _promise(self, made: Made[T]) -> AsyncPromise[T]:
        self._tasks[id(made)] = asyncio.get_running_loop().create_task(self._carry_out(made))
        return AsyncPromise(self, made)

    def _check_here(self) -> None:
        if self._owner is None or asyncio.current_task() is not self._owner:
            raise RefusedError(
                "a parallel block is used within `async with s.parallel() as p`, by the task that opened it: what "
                "others call would come in another order each time. They can await s.call(…), or open a block"
            )

    # --- running ------------------------------------------------------------------------------------------------------

    async def _carry_out(self, made: Made[Any]) -> None:
        try:
            await self._session.streams.settle()
            if self._must_wait(made):
                with self._session.idle():
                    while self._must_wait(made) and not self._joining:
                        await self._session.something_new()
            async with self._free:
                steps = self._core.carry_out(made.call, made.action, block=self)
                made.action, made.outcome, made.live = await self._session._drive(steps, to_the_end=True)  # noqa: SLF001
        except Suspended as suspended:
            if self._core.leaving is None:
                made.waits = suspended.seqs
            else:
                made.broke = suspended
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - raised where the result is taken
            made.broke = error

    # --- joining ------------------------------------------------------------------------------------------------------

    async def deliver(self, made: Made[Any]) -> None:
        """Waits for one call, and hands it to the code."""
        if made.handed:
            return
        await self._wait([self._tasks[id(made)]])
        if made.waits:
            await self._wait(self._tasks.values())
            await self._decided()
            self._check_waits()
        self._core.go_on()
        self._hand_out([made])

    async def _decided(self) -> None:
        """Goes on with the calls whose doubts were decided meanwhile, until they have ended, too."""
        while doubted := self._doubted():
            for made in doubted:
                made.waits = ()
                self._tasks[id(made)] = asyncio.get_running_loop().create_task(self._carry_out(made))
            await self._wait([self._tasks[id(made)] for made in doubted])
            if all(made.waits for made in doubted):
                return

    async def _wait(self, tasks: Any) -> None:
        """While the code waits here, it makes no more calls: whoever lets it claim first need not wait for it."""
        mine = asyncio.current_task() is self._owner
        self._joining += mine
        try:
            with self._session.idle():
                for task in [task for task in tasks if not task.done()]:
                    await ended(task)
        finally:
            self._joining -= mine

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _block.reset(self._token)
        if error is not None and not isinstance(error, Exception | Leaving | asyncio.CancelledError):
            return  # an interrupt ends the run at once
        try:
            if self._tasks:
                await self._drained(cancelled=isinstance(error, asyncio.CancelledError))
            if error is None:
                await self._decided()
        finally:
            self._owner = None
            self._joined()
        if error is None:
            self._check_waits()
            if (first := self._hand_out(self._made)) is not None:
                raise first

    async def _drained(self, *, cancelled: bool) -> None:
        """All calls have ended; when the code is cancelled, so are they, and end as cancelled ones do."""
        if not cancelled:
            try:
                await self._wait(self._tasks.values())
            except asyncio.CancelledError:
                await self._drained(cancelled=True)
                raise
            return
        for task in self._tasks.values():
            task.cancel()
        await to_its_end(lambda: asyncio.wait(list(self._tasks.values())))
