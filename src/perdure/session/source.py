"""Where the chunks of a stream come from: the iterator of one attempt, read one by one.

In the thread that reads; in one of its own if its time is limited. What a chunk is good for is not known here.
"""

from __future__ import annotations

import concurrent.futures
from typing import TYPE_CHECKING, Any

from perdure import clock
from perdure.session import parallel, timed
from perdure.session.rules import inside
from perdure.session.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.session.session import Session
    from perdure.session.trying import Trying


class Source:
    """One attempt: the function's iterator, read in the thread that reads; in one of its own if its time is limited."""

    def __init__(self, session: Session, trying: Trying, stack: tuple[int, ...]) -> None:
        self._session, self._trying, self._stack = session, trying, stack
        self._iterator: Any = None
        self._worker: Worker | None = None
        if trying.timeout_s is not None:
            self._end_s = clock.monotonic_s() + trying.timeout_s
            with inside.running(session._core, stack), timed.limited() as left, parallel.helping(session):  # noqa: SLF001
                self._worker, self._left = Worker(), left

    def next(self) -> Any:
        """The next chunk. Raises `StopIteration`, `TimeOverError`, and what the function raises."""
        if self._worker is None:
            with inside.running(self._session._core, self._stack):  # noqa: SLF001
                return self._step()
        try:
            return self._in_time(self._worker)
        except BaseException:
            self._worker.stop(self._close)
            raise

    def _in_time(self, worker: Worker) -> Any:
        future = worker.give(stepped, self._step)
        concurrent.futures.wait([future], timeout=max(0.0, self._end_s - clock.monotonic_s()))
        if not future.done():
            self._left.set()
            raise timed.TimeOverError
        chunk, end = future.result()
        if end is not None:
            raise end
        return chunk

    def _step(self) -> Any:
        if self._iterator is None:
            self._iterator = iter(self._trying.fn(*self._trying.args, **self._trying.kwargs))
        return next(self._iterator)

    def close(self) -> None:
        """Ends the function, which cleans up behind itself. Raises what it raises."""
        if self._worker is not None:
            self._worker.stop(self._close).result()
        else:
            with inside.running(self._session._core, self._stack):  # noqa: SLF001
                self._close()

    def _close(self) -> None:
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()


def stepped(step: Callable[[], Any]) -> tuple[Any, StopIteration | None]:
    """The next chunk, or the end, which no future could be given."""
    try:
        return step(), None
    except StopIteration as end:
        return None, end
