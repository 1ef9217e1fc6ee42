"""Appends whose outcome comes as a future: a few threads do them, those of one session in the order they came.

It knows no place: what is done is a function.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from perdure import limits
from perdure.stores import refusals

_THREADS: Final = 16


class Submitting:
    """The appends of one store that nobody waits for in a thread of his own."""

    def __init__(self, *, url: str) -> None:
        self._url = url
        self._mutex = threading.Lock()
        self._waiting: dict[str, deque[tuple[Future[int], Callable[[], int]]]] = {}
        self._room = threading.BoundedSemaphore(limits.SUBMITTED_COUNT_MAX)
        self._pool: ThreadPoolExecutor | None = None
        self._ended = False

    def submit(self, session: str, work: Callable[[], int]) -> Future[int]:
        """The future of this work. Blocks while `SUBMITTED_COUNT_MAX` are not done."""
        self._room.acquire()  # released when it is done, by whatever thread
        future: Future[int] = Future()
        future.add_done_callback(lambda _: self._room.release())
        with self._mutex:
            if self._ended:
                future.cancel()
                raise refusals.closed(self._url)
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="perdure-submit")
            line = self._waiting.get(session)
            if line is None:
                self._waiting[session] = deque([(future, work)])
                self._pool.submit(self._serve, session)
            else:
                line.append((future, work))
        return future

    def _serve(self, session: str) -> None:
        """Does what waits for one session, one after another."""
        while True:
            with self._mutex:
                line = self._waiting[session]
                if not line:
                    del self._waiting[session]
                    return
                future, work = line.popleft()
            _do(future, work)

    def end(self) -> None:
        """Waits until what was submitted is done. Nothing can be submitted any more."""
        with self._mutex:
            self._ended, pool = True, self._pool
        if pool is not None:
            pool.shutdown()


def _do(future: Future[int], work: Callable[[], int]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - told to the future, and the line goes on
        future.set_exception(error)
