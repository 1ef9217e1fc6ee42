"""The heads of a place: one cell for each session that this process has met lately, and the listing of all.

It gives the sessions as they are, and makes sure, where one must know, that none is being made at that moment.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from perdure import clock
from perdure.errors import DamageError
from perdure.log import GENESIS
from perdure.stores.contract import Head, Lease
from perdure.stores.s3 import judging, names
from perdure.stores.s3.bucket import Bucket
from perdure.stores.s3.cell import Cell, Seen
from perdure.stores.s3.head import HeadCodec, State, Told, Tomb, Void

T = TypeVar("T")
R = TypeVar("R")

_CELLS_COUNT_MAX: Final = 1024
"""Heads that a process keeps at hand; one that is met again later costs one request more."""

TOGETHER: Final = 16
"""Requests that one operation makes at the same time."""


class Heads:
    """The sessions of a place."""

    def __init__(self, bucket: Bucket, *, busy_s: float) -> None:
        self._bucket, self._busy_s = bucket, busy_s
        self._cells: OrderedDict[str, Cell[Told]] = OrderedDict()
        self._mutex = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._tick = 0

    def cell(self, key: str) -> Cell[Told]:
        """The head of the session of this key."""
        with self._mutex:
            found = self._cells.pop(key, None)
            if found is None:
                found = Cell(self._bucket, names.head(key), codec=HeadCodec(key), busy_s=self._busy_s)
            self._cells[key] = found
            while len(self._cells) > _CELLS_COUNT_MAX:
                self._cells.popitem(last=False)
            return found

    def of(self, session: str) -> State:
        """The session as it is now. Raises `SessionUnknownError`, `SessionErasedError`."""
        state = judging.there(session, self.cell(names.key_of(session)).look().value, url=self._bucket.url)
        self._met(state)
        return state

    def is_over(self, lease: Lease) -> bool:
        """Whether this process knows that the lease counts no more; it never will again."""
        known = self.cell(names.key_of(lease.session)).last
        state = known.value if known is not None else None
        return isinstance(state, State) and state.lease.epoch >= lease.epoch and not judging.is_holder(state, lease)

    def change(self, session: str, work: Callable[[State, int], State | None]) -> State:
        """The session as `work` has changed it; see `Cell.change`. `work` is given the number of the change."""

        def checked(seen: Seen[Told]) -> State | None:
            return work(judging.there(session, seen.value, url=self._bucket.url), seen.version + 1)

        return judging.there(session, self.cell(names.key_of(session)).change(checked).value, url=self._bucket.url)

    def all_of(self, keys: Collection[str], *, settle: bool = False) -> list[State | None]:
        """The sessions of these keys; None where there is none. `settle`: and nobody is making one any more."""
        told = self.together(lambda key: self.cell(key).look().value, keys)
        return [
            one if isinstance(one, State) else self.void(key)[0] if settle and not isinstance(one, Tomb) else None
            for key, one in zip(keys, told, strict=True)
        ]

    def void(self, key: str) -> tuple[State | None, Seen[Told]]:
        """Makes anew that there is no session, so that whoever is making one must look again."""

        def work(seen: Seen[Told]) -> Told | None:
            return None if isinstance(seen.value, State | Tomb) else Void()

        seen = self.cell(key).change(work)
        return (seen.value if isinstance(seen.value, State) else None), seen

    def listed(self, prefix: str) -> list[Head]:
        """The sessions whose id begins so, the one written last first. One that cannot be read has no family."""
        found = [pair for pair in self.together(self._told, self._entries(prefix)) if pair is not None]
        found.sort(key=lambda pair: -pair[0])
        return [head for _, head in found if head.session.startswith(prefix)]

    def _told(self, name: str) -> tuple[int, Head] | None:
        session = names.id_of(name) or self._entry(name)
        try:
            told = self.cell(names.key_of(session)).look().value
        except DamageError:
            return 0, Head(session, "", 0, GENESIS, 0, b"")
        if not isinstance(told, State):
            return None
        self._met(told)
        return told.tick, told.head

    def _entry(self, name: str) -> str:
        """The id whose name was cut: it stands in the entry."""
        return (self._bucket.read(f"{names.IDS}/{name}") or b"").decode(errors="replace")

    def _entries(self, prefix: str) -> list[str]:
        begin = f"{names.IDS}/{names.range_of(prefix)}" if prefix else None
        folder = len(names.IDS) + 1
        found = []
        if begin is not None and self._bucket.get(begin) is not None:
            found.append(begin[folder:])  # a listing begins behind what it is told to begin at
        for one in self._bucket.list(names.IDS, after=begin):
            if begin is not None and not one.key.startswith(begin):
                break
            found.append(one.key[folder:])
        return found

    def _met(self, state: State) -> None:
        if state.tick > self._tick:
            with self._mutex:
                self._tick = max(self._tick, state.tick)

    def tick(self, state: State | None = None) -> int:
        """A number above all that this process has given or met in this session: whose is higher was written later."""
        with self._mutex:
            self._tick = max(self._tick + 1, clock.now_us(), state.tick + 1 if state is not None else 0)
            return self._tick

    def together(self, work: Callable[[T], R], given: Iterable[T]) -> list[R]:
        """The results, in order; several requests at a time."""
        wanted = list(given)
        if len(wanted) < 2:
            return [work(one) for one in wanted]
        with self._mutex:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(TOGETHER, thread_name_prefix="perdure-s3")
        return list(self._pool.map(work, wanted))

    def close(self) -> None:
        """Ends its threads."""
        with self._mutex:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()


def each_kin(states: Iterable[State | None], *, family: str) -> Iterator[State]:
    """Those of them that are of this family."""
    return (state for state in states if state is not None and names.key_of(state.family) == family)
