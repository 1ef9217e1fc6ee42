"""Appends that are submitted: some threads write them, those of one session one after another, in their order.

Each is one round trip of its own, so what bounds them is how many are under way, not how they are put together. It
knows nothing of what is written.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeAlias

from perdure import limits
from perdure.stores import refusals

Work: TypeAlias = Callable[[], int]

_THREADS_COUNT: Final = 16


class Clerks:
    """The threads of one store, which come with the first append."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lines: dict[str, deque[tuple[Work, Future[int]]]] = {}
        self._mutex = threading.Lock()
        self._room = threading.BoundedSemaphore(limits.SUBMITTED_COUNT_MAX)
        self._pool: ThreadPoolExecutor | None = None
        self._ended = False

    def submit(self, session: str, work: Work) -> Future[int]:
        """A future of what the work returns. Blocks while `SUBMITTED_COUNT_MAX` are not done."""
        self._room.acquire()  # released when it is done, by whatever thread
        future: Future[int] = Future()
        future.add_done_callback(lambda _: self._room.release())
        with self._mutex:
            if self._ended:
                future.cancel()
                raise refusals.closed(self._url)
            line = self._lines.get(session)
            if line is None:
                self._lines[session] = deque([(work, future)])
                self._threads().submit(self._serve, session)
            else:
                line.append((work, future))
        return future

    def end(self) -> None:
        """Waits until what was submitted is written. Nothing can be submitted any more."""
        with self._mutex:
            self._ended = True
        if self._pool is not None:
            self._pool.shutdown()

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS_COUNT, thread_name_prefix="perdure-commits")
        return self._pool

    def _serve(self, session: str) -> None:
        """Writes what waits for this session."""
        while True:
            with self._mutex:
                line = self._lines[session]
                if not line:
                    del self._lines[session]
                    return
                work, future = line.popleft()
            _do(work, future)


def _do(work: Work, future: Future[int]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - told to the future, and the line goes on
        future.set_exception(error)
