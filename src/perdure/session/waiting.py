"""Waiting in an event loop for what it cannot do itself. It knows nothing of sessions."""

from __future__ import annotations

import contextvars
import sys
import threading
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures
    from collections.abc import Awaitable, Callable, Coroutine

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


async def ended(work: asyncio.Future[Any]) -> None:
    """Waits until this is done, whatever comes of it; nothing happens to it when the waiting is cancelled."""
    waiter = work.get_loop().create_future()

    def tell(_: Any) -> None:
        if not waiter.done():
            waiter.set_result(None)

    work.add_done_callback(tell)
    try:
        await waiter
    finally:
        work.remove_done_callback(tell)


async def written(commit: concurrent.futures.Future[Any]) -> None:
    """Waits until a thread has said what came of this, as `ended` does."""
    import asyncio

    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def tell() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def done(_: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell)

    commit.add_done_callback(done)
    await waiter


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
