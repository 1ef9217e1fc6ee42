"""SIGINT and SIGTERM, for whatever runs in this process: the first asks all of it to stop, a second ends it at once.

There is one handler for all runs, put in place by the first that the main thread begins and taken away after the last
of those, in whatever order they end: those of an event loop end as they come. It knows nothing of sessions.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_numbers = itertools.count()


class _Handler:
    """Who is to be asked, and whether the handler is in place."""

    def __init__(self) -> None:
        self._stops: dict[int, Callable[[str], None]] = {}
        self._mine = 0
        self._before: dict[int, Any] = {}
        self._seen = ""

    @contextlib.contextmanager
    def asking(self, stop: Callable[[str], None]) -> Iterator[None]:
        number = next(_numbers)
        self._stops[number] = stop
        in_main = threading.current_thread() is threading.main_thread()
        try:
            if in_main:
                self._begin()
            if self._seen:  # it began between the signal and the end of those that it stopped
                stop(self._seen)
            yield
        finally:
            del self._stops[number]
            if in_main:
                self._end()

    def _begin(self) -> None:
        self._mine += 1
        if self._mine == 1:
            self._seen = ""
            self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}

    def _end(self) -> None:
        self._mine -= 1
        if self._mine == 0:
            before, self._before, self._seen = self._before, {}, ""
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, _frame: Any) -> None:
        if self._seen:
            raise KeyboardInterrupt
        self._seen = signal.Signals(number).name
        for stop in list(self._stops.values()):
            stop(self._seen)


_handler: Final = _Handler()


def stopping_on_signals(stop: Callable[[str], None]) -> contextlib.AbstractContextManager[None]:
    """Within it, the first SIGINT or SIGTERM calls `stop` with its name.

    A second one ends the run at once (`KeyboardInterrupt`). In another thread than the main one it is told of signals
    while something is within such a block in the main thread; a program that waits there for its threads has a handler
    of its own, and calls `store.stop`.
    """
    return _handler.asking(stop)
