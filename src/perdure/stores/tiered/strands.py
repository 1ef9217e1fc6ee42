"""Appends that nobody waits for in a thread of their own: those of one session one after another, others side by side.

It knows nothing of stores: what is done is given to it.
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


class Strands:
    """A few threads; each strand is done in order."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="perdure-tiers")
        self._waiting: dict[str, deque[tuple[Future[int], Callable[[], int]]]] = {}
        self._mutex = threading.Lock()
        self._room = threading.BoundedSemaphore(limits.SUBMITTED_COUNT_MAX)
        self._ended = False

    def submit(self, strand: str, work: Callable[[], int]) -> Future[int]:
        """A future of what the work returns; cancelled before it is begun, it is not done. Blocks without room."""
        self._room.acquire()  # released when it is done, by whatever thread
        future: Future[int] = Future()
        future.add_done_callback(lambda _: self._room.release())
        with self._mutex:
            if self._ended:
                self._room.release()
                raise refusals.closed(self._url)
            is_first = strand not in self._waiting
            self._waiting.setdefault(strand, deque()).append((future, work))
            if is_first:
                self._pool.submit(self._go, strand)
        return future

    def end(self) -> None:
        """Does what was submitted. Nothing can be submitted any more."""
        with self._mutex:
            self._ended = True
        self._pool.shutdown()

    def _go(self, strand: str) -> None:
        while True:
            with self._mutex:
                if not self._waiting[strand]:
                    del self._waiting[strand]
                    return
                future, work = self._waiting[strand].popleft()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 - handed to who has the future
                    future.set_exception(error)
