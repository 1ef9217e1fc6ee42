"""A thread that does one thing after the other for somebody who waits: an iterator that must stay in one thread.

It has the context of whoever started it. It is not waited for when the process ends.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """Begins with what is given to it first; `stop` ends it after what it was given before."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._run,), name="perdure-stream", daemon=True).start()

    def give(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Does it when all that was given before is done."""
        future: Future[T] = Future()
        self._work.put((future, lambda: work(*args, **kwargs)))
        return future

    def stop(self, last: Callable[[], T]) -> Future[T]:
        """Does this as the last thing."""
        future = self.give(last)
        self._work.put(None)
        return future

    def _run(self) -> None:
        while (given := self._work.get()) is not None:
            future, work = given
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                future.set_exception(error)
