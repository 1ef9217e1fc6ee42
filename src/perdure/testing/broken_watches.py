"""Stores that are wrong on purpose about waiting and about the age of leases; see `perdure.testing.broken`."""

from __future__ import annotations

import threading
from typing import Self

from perdure import clock
from perdure.stores import Lease, Store, Watch
from perdure.testing.broken import Passing


class SleepsOn(Passing):
    """Never says that it is time to look."""

    caught_by = "test_what_is_sent_wakes_whoever_watches"

    def watch(self, session: str) -> Watch:
        """Deaf."""
        del session
        return _Deaf()


class _Deaf(Watch):
    def wait(self, timeout_s: float) -> bool:
        """As long as it may."""
        threading.Event().wait(timeout_s)
        return False


class WatchesLate(Passing):
    """Begins to watch when it is waited for."""

    caught_by = "test_what_came_before_the_wait_is_not_missed"

    def watch(self, session: str) -> Watch:
        """Nothing before `wait`."""
        return _Late(self.right.watch(session))


class _Late(Watch):
    def __init__(self, right: Watch) -> None:
        self._right = right

    def wait(self, timeout_s: float) -> bool:
        """From now on."""
        with self._right:
            return self._right.wait(timeout_s)


class WaitsForEver(Passing):
    """Waits for something to come, however long that takes."""

    caught_by = "test_a_watch_ends_in_time"

    def watch(self, session: str) -> Watch:
        """Without an end."""
        return _Endless(self.right.watch(session))


class _Endless(Watch):
    def __init__(self, right: Watch) -> None:
        self._right = right

    def __enter__(self) -> Self:
        self._right.__enter__()
        return self

    def wait(self, timeout_s: float) -> bool:
        """Until it is told."""
        del timeout_s
        while not self._right.wait(1):
            pass
        return True

    def __exit__(self, *_: object) -> None:
        self._right.__exit__(None, None, None)


class Aged(Passing):
    """Knows, right, how long each lease is still: a control, as a store in memory has no clock of its own."""

    def __init__(self, right: Store) -> None:
        super().__init__(right)
        self._since: dict[Lease, float] = {}

    def lease(self, session: str) -> Lease:
        """From the first time that it is seen."""
        lease = self.right.lease(session)
        self._since.setdefault(lease, clock.monotonic_s())
        return lease

    def still_s(self, lease: Lease) -> float | None:
        """Since it was seen first."""
        if not any(head.session == lease.session for head in self.right.heads()):
            return None
        return clock.monotonic_s() - self._since[lease] if self.lease(lease.session) == lease else None


class AgesOn(Aged):
    """Takes the age of the session for that of its lease."""

    caught_by = "test_a_lease_that_moved_is_young_again"

    def still_s(self, lease: Lease) -> float | None:
        """Since any lease of it was seen first."""
        self.lease(lease.session)
        return clock.monotonic_s() - min(since for old, since in self._since.items() if old.session == lease.session)


class NeverAges(Passing):
    """Finds every lease new."""

    caught_by = "test_a_still_lease_grows_old"

    def still_s(self, lease: Lease) -> float | None:
        """None of the time that has passed."""
        return 0.0 if self.right.lease(lease.session) == lease else None


BROKEN = (SleepsOn, WatchesLate, WaitsForEver, AgesOn, NeverAges)
"""All of them."""
