"""Waiting for a session to change: a watch, which says when it is time to look, and the bells that wake one.

A watch is a hint and no more. It never says what came: whoever waits looks for himself, also when nothing was said for
a while. It must not know what a store keeps, nor how its places tell one another.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Final, Self
from weakref import WeakValueDictionary

from perdure import clock, limits


class Watch(ABC):
    """Somebody's waiting for one session; see `Store.watch`. For one thread at a time, within its `with`."""

    def __enter__(self) -> Self:
        """From now on nothing that comes is missed."""
        return self

    @abstractmethod
    def wait(self, timeout_s: float) -> bool:
        """Waits up to so many seconds; 0 only asks. True: it is time to look.

        Something may have come since the watch was entered, or since this was last True. False: nothing is known to
        have come in this time. Raises nothing: a place that cannot be reached says so to whoever looks.
        """

    def __exit__(  # noqa: B027 - what was not entered anywhere has nothing to leave
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """It is not told any more."""


class Polling(Watch):
    """It is time to look now and then: at first soon, then less and less often, up to every `pause_s_max` seconds."""

    def __init__(self, *, pause_s_max: float = limits.POLL_S_MAX) -> None:
        self._pause_s, self._pause_s_max = limits.POLL_S_MIN, pause_s_max
        self._due_s = clock.monotonic_s() + self._pause_s

    def wait(self, timeout_s: float) -> bool:
        """See `Watch.wait`."""
        left_s = self._due_s - clock.monotonic_s()
        time.sleep(max(0.0, min(timeout_s, left_s)))
        return left_s <= timeout_s and self._again()

    def left_s(self) -> float:
        """Until it is time."""
        return max(0.0, self._due_s - clock.monotonic_s())

    def _again(self) -> bool:
        self._pause_s = min(2 * self._pause_s, self._pause_s_max)
        self._due_s = clock.monotonic_s() + self._pause_s
        return True


class Bells:
    """Who in this process waits for which session. One for each place; safe from any thread."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[Bell]] = {}
        self._lock = threading.Lock()

    def watch(self, session: str, *, polled: bool, pause_s_max: float = limits.POLL_S_MAX) -> Bell:
        """A watch that is woken by `ring`; `polled` if things may come to the session without that, too."""
        return Bell(self, session, polling=Polling(pause_s_max=pause_s_max) if polled else None)

    def ring(self, session: str) -> None:
        """Wakes all who wait for this session."""
        if self._waiting:
            with self._lock:
                bells = list(self._waiting.get(session, ()))
            for bell in bells:
                bell.rung.set()

    def ring_all(self) -> None:
        """Wakes everybody, for when it is not known what was missed."""
        for session in self.sessions():
            self.ring(session)

    def sessions(self) -> list[str]:
        """The sessions that somebody waits for."""
        with self._lock:
            return list(self._waiting)

    def add(self, session: str, bell: Bell) -> None:
        """It is rung from now on."""
        with self._lock:
            self._waiting.setdefault(session, set()).add(bell)

    def remove(self, session: str, bell: Bell) -> None:
        """It is not rung any more."""
        with self._lock:
            bells = self._waiting.get(session, set())
            bells.discard(bell)
            if not bells:
                self._waiting.pop(session, None)


_PLACES: WeakValueDictionary[str, Bells] = WeakValueDictionary()
_PLACES_LOCK: Final = threading.Lock()


def bells_of(place: str) -> Bells:
    """The bells that all who have this place open in this process share."""
    with _PLACES_LOCK:
        return _PLACES.setdefault(place, Bells())


class Bell(Watch):
    """A watch that is woken when somebody in this process says that something came."""

    def __init__(self, bells: Bells, session: str, *, polling: Polling | None) -> None:
        self.rung = threading.Event()
        self._bells, self._session, self._polling = bells, session, polling

    def __enter__(self) -> Self:
        """See `Watch`."""
        self._bells.add(self._session, self)
        return self

    def wait(self, timeout_s: float) -> bool:
        """See `Watch.wait`."""
        polling = self._polling
        if self.rung.wait(timeout_s if polling is None else min(timeout_s, polling.left_s())):
            self.rung.clear()
            return True
        return polling is not None and polling.wait(0)

    def __exit__(self, *_: object) -> None:
        """See `Watch`."""
        self._bells.remove(self._session, self)
