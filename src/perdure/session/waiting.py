"""Waiting in an event loop for what it cannot do itself. It knows nothing of sessions."""

from __future__ import annotations

import contextvars
import sys
import threading
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures
    from collections.abc import Awaitable, Callable, Coroutine, Generator

P = ParamSpec("P")
T = TypeVar("T")

Awaited: TypeAlias = "Coroutine[Any, Any, T]"
"""What a coroutine function gives."""


async def in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns or raises, called in a thread of its own with the context of the caller.

    Not one of the loop's pool: what waits for each other here must never wait for a place in it. Cancelling does not
    stop the thread; its result is lost then.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result(result) if error is None else done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work(*args, **kwargs)
        except BaseException as raised:  # noqa: BLE001 - raised again where it is awaited
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, result, error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="perdure-await", daemon=True).start()
    return await done


class _Bell:
    """What one task waits for: it goes on in the very turn of the loop in which it rings, and not one or two later.

    To the task it is a future. Cancelling the task ends the waiting, and nothing else.
    """

    __slots__ = ("_asyncio_future_blocking", "_cancelled", "_context", "_go_on", "_loop", "_rang")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asyncio_future_blocking = self._rang = False
        self._cancelled: BaseException | None = None
        self._go_on: Callable[[_Bell], object] | None = None

    def __await__(self) -> Generator[_Bell, None, None]:
        if not self._rang:
            self._asyncio_future_blocking = True
            yield self

    def ring(self, *_: object) -> None:
        """The waiting is over. Called by the loop, once or more often."""
        go_on, self._go_on, self._rang = self._go_on, None, True
        if go_on is not None:
            self._context.run(go_on, self)

    def cancel(self, msg: Any = None) -> bool:
        """As a future's."""
        import asyncio

        if self._rang or self._cancelled is not None:
            return False
        self._cancelled = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        self._loop.call_soon(self.ring)
        return True

    def result(self) -> None:
        """As a future's: raises that the task was cancelled."""
        if self._cancelled is not None:
            raise self._cancelled

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """As a future's."""
        return self._loop

    def add_done_callback(self, go_on: Callable[[_Bell], object], *, context: contextvars.Context) -> None:
        """As a future's: how the task goes on."""
        self._go_on, self._context = go_on, context


async def ended(work: asyncio.Future[Any]) -> None:
    """Waits until this is done, whatever comes of it; nothing happens to it when the waiting is cancelled."""
    bell = _Bell(work.get_loop())
    work.add_done_callback(bell.ring)
    try:
        await bell
    finally:
        work.remove_done_callback(bell.ring)


async def written(commit: concurrent.futures.Future[Any]) -> None:
    """Waits until a thread has said what came of this, as `ended` does."""
    import asyncio

    loop = asyncio.get_running_loop()
    bell = _Bell(loop)

    def done(_: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(bell.ring)

    commit.add_done_callback(done)
    await bell


async def to_its_end(work: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
    """What it gives, also when the caller is cancelled meanwhile: (the result, whether it was).

    It is begun again each time that it is cancelled, and has to bear that.
    """
    cancelled = False
    while True:
        try:
            return await work(), cancelled
        except BaseException as error:
            if not is_cancelled(error):
                raise
            cancelled = True


def is_cancelled(error: BaseException) -> bool:
    """Whether a task was cancelled by this. Where nothing has loaded an event loop yet, there is none."""
    known = sys.modules.get("asyncio.exceptions")
    return known is not None and isinstance(error, known.CancelledError)
