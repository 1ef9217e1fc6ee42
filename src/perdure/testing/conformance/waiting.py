"""Whoever waits is told in time and misses nothing; how long a lease is still is known by one clock, or not at all."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from perdure import clock
from perdure.stores import Lease, Store, Watch
from perdure.testing.conformance.tools import Log, Place, same


class WaitChecks(Place):
    """`watch` and `still_s`."""

    patience_s: ClassVar[float] = 30.0
    """So long a store may take to tell of something, and its clock to move on."""

    def test_a_watch_ends_in_time(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            Log(store)
            over = threading.Event()

            def wait() -> None:
                with store.watch("s") as watch:
                    watch.wait(0)
                    watch.wait(0.01)
                over.set()

            threading.Thread(target=wait, daemon=True).start()
            if not over.wait(self.patience_s):
                raise AssertionError("a watch that was to wait for 0.01 s waits on")

    def test_what_is_sent_wakes_whoever_watches(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store, self.open(tmp_path) as other:
            Log(store)
            with store.watch("s") as watch:
                sender = threading.Timer(0.01, lambda: other.send("s", b"1"))
                sender.start()
                while not store.inbox("s"):
                    self._told(watch)
                sender.join()

    def test_what_came_before_the_wait_is_not_missed(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store, self.open(tmp_path) as other:
            log = Log(other)
            happenings: list[Callable[[], object]] = [
                lambda: other.send("s", b"1"),
                lambda: log.append(b"1"),
                lambda: other.release(log.lease),
                lambda: other.delete("s"),
            ]
            for come in happenings:
                with store.watch("s") as watch:
                    come()
                    self._told(watch)

    def test_a_watch_of_no_session_is_a_watch(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store, store.watch("s") as watch:
            Log(store)
            store.send("s", b"1")
            self._told(watch)

    def test_a_still_lease_grows_old(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            lease = store.create("s", owner="me")
            self._grown(store, lease)

    def test_a_lease_that_moved_is_young_again(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            lease, young = store.create("s", owner="me"), False
            for _ in range(5):
                old = self._grown(store, lease)
                moved = store.renew(lease)
                if old is None:
                    return
                same(store.still_s(lease), None)
                young = young or (store.still_s(moved) or 0.0) < old
                lease = moved
            if not young:
                raise AssertionError(f"{lease} is as old as the one that was renewed")

    def test_how_old_another_lease_is_is_not_known(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            lease = store.create("s", owner="me")
            for other in (
                Lease("s", 1, "you", 0),
                Lease("s", 2, "me", 0),
                Lease("s", 1, "me", 1),
                Lease("nobody", 1, "me", 0),
            ):
                same(store.still_s(other), None)
            newer = store.claim("s", owner="you", seen=lease)
            same(store.still_s(lease), None)
            store.delete("s")
            same(store.still_s(newer), None)

    def _told(self, watch: Watch) -> None:
        if not watch.wait(self.patience_s):
            raise AssertionError(f"something came, and for {self.patience_s:g} s nobody was told")

    def _grown(self, store: Store, lease: Lease) -> float | None:
        """How long it is still, once that is more than it was; None if the store cannot know."""
        first = store.still_s(lease)
        if first is None:
            return None
        end = clock.monotonic_s() + self.patience_s
        while (now := store.still_s(lease)) is not None and now <= first:
            if clock.monotonic_s() > end:
                raise AssertionError(f"{lease} was still for {first} s then, and is for {now} s now")
            threading.Event().wait(0.01)
        if now is None or first < 0:
            raise AssertionError(f"{lease} did not move, and was still for {first} s, then {now}")
        return now
