"""Fewer and larger parts, so that a long log is read with a handful of requests; and what nobody needs is removed.

Eight parts of a size become one of the next: a log of N parts as they were put is in about 8 log N of them. A merge may
be killed at any point, and runs beside a writer: what it put is named in the head by one change, or by none.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby, islice
from typing import Final

from perdure import clock
from perdure.errors import PerdureError
from perdure.stores.s3 import names
from perdure.stores.s3.bucket import Bucket, Listed
from perdure.stores.s3.families import Families
from perdure.stores.s3.head import Part, State, Tomb
from perdure.stores.s3.heads import Heads
from perdure.stores.s3.rows import joined
from perdure.stores.s3.shelf import Shelf, orphans

RUN_COUNT: Final = 8
"""So many parts of a size become one."""

LEVEL_BYTES: Final = (256 << 10, 2 << 20, 16 << 20)
"""Up to these lengths a part is of level 0, 1, 2; longer ones stay as they are."""

_AHEAD: Final = 1000
"""How many changes of a head a merge may take: what it puts is named as of a change so far ahead."""

_MERGES_COUNT_MAX: Final = 16

SCAN_COUNT: Final = 5000
"""Objects that one search for what is left over looks at: all of a small place, of a large one a piece."""

_log: Final = logging.getLogger("perdure.store")


def due(parts: Collection[Part]) -> tuple[Part, ...]:
    """The parts, the last ones of a log, that are to become one."""
    for level in range(len(LEVEL_BYTES)):
        run: list[Part] = []
        for part in reversed(tuple(parts)):
            if _level(part) > level:
                break
            run.insert(0, part)
        if sum(_level(part) == level for part in run) >= RUN_COUNT:
            return tuple(run)
    return ()


def _level(part: Part) -> int:
    return sum(part.size > limit for limit in LEVEL_BYTES)


class Merging:
    """Keeps the parts of a place's logs few; a thread of its own does it beside the saves."""

    def __init__(self, bucket: Bucket, heads: Heads, shelf: Shelf, families: Families) -> None:
        self._bucket, self._heads, self._shelf, self._families = bucket, heads, shelf, families
        self._mutex, self._giving = threading.Lock(), threading.Lock()
        self._worker: ThreadPoolExecutor | None = None
        self._asked: set[str] = set()
        self._left: dict[str, int] = {}

    def later(self, state: State) -> None:
        """Merges parts of the session soon, if it is time."""
        if not due(state.parts):
            return
        with self._mutex:
            if state.key in self._asked:
                return
            self._asked.add(state.key)
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="perdure-s3-merge")
            self._worker.submit(self._soon, state.session)

    def _soon(self, session: str) -> None:
        try:
            self.merge(session)
        except PerdureError as error:  # it stays as it is, and is tried again after the next part
            _log.info("parts of %s were not merged: %s", session, error)
        finally:
            self._asked.discard(names.key_of(session))

    def merge(self, session: str) -> bool:
        """Makes one part of several, if it is time. Whether it has; may be killed and done again."""
        state, seen = self._heads.of(session), self._heads.cell(names.key_of(session)).known()
        run = due(state.parts)
        if not run:
            return False
        rows = joined(self._heads.together(lambda part: self._shelf.rows(state, part), run))
        change = seen.version + _AHEAD
        merged = self._shelf.put_rows(state.key, rows, change=change)
        done = self._heads.change(session, lambda now, number: _swapped(now, run, merged) if number <= change else None)
        is_done = merged in done.parts
        self._shelf.remove(state.key, [part.name for part in run] if is_done else [merged.name])
        return is_done

    def close(self) -> None:
        """Waits for the merge under way."""
        with self._mutex:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.shutdown(cancel_futures=True)

    # ---------------------------------------------------------------------------------------------- what is left over

    def give_back(self, *, bytes_max: int) -> int:
        """Removes objects that nothing needs, until that are so many bytes. How many are left.

        They are searched once, with a listing of all parts, and then removed in steps.
        """
        with self._giving:
            if not self._left:
                self._left = self._scan()
            going: list[str] = []
            size = 0
            for place, one in self._left.items():
                if size >= bytes_max:
                    break
                going.append(place)
                size += one
            self._bucket.delete(going)
            for place in going:
                del self._left[place]
            return sum(self._left.values())

    def clean(self, session: str) -> None:
        """Removes what nothing needs of one session."""
        key = names.key_of(session)
        self._shelf.remove(key, list(self._unneeded(key, self._shelf.names(key))))

    def _scan(self) -> dict[str, int]:
        found = self._families.left_over(self._piece(names.FAMILIES))
        merges = 0
        listed = self._piece(names.PARTS)
        keys = dict.fromkeys(one.key.rsplit("/", 2)[1] for one in listed)
        self._heads.together(lambda key: self._heads.cell(key).look(), keys)  # several at a time
        for key, objects in groupby(listed, key=lambda one: one.key.rsplit("/", 2)[1]):
            some = [(one.key.rpartition("/")[2], one.size) for one in objects]
            found |= {names.part(key, name): size for name, size in self._unneeded(key, some).items()}
            state = self._heads.cell(key).known().value
            if isinstance(state, State) and merges < _MERGES_COUNT_MAX:
                merges += self.merge(state.session)
        return found

    def _piece(self, folder: str) -> list[Listed]:
        """The objects of a folder if they are not many, else those behind a random place."""
        found = list(islice(self._bucket.list(folder), SCAN_COUNT + 1))
        if len(found) <= SCAN_COUNT:
            return found
        begin = f"{folder}/{clock.new_bytes(4).hex()}"
        return list(islice(self._bucket.list(folder, after=begin), SCAN_COUNT))

    def _unneeded(self, key: str, listed: list[tuple[str, int]]) -> dict[str, int]:
        """Those that its head does not name. No change that is under way can come to name them afterwards."""
        seen = self._heads.cell(key).known()
        state = seen.value
        if orphans(listed, state=state if isinstance(state, State) else None, changes=1 << 62):
            seen = self._heads.cell(key).look()
            state = seen.value
        if isinstance(state, Tomb):
            return dict(listed)
        if not isinstance(state, State):
            _, seen = self._heads.void(key)
            state = seen.value if isinstance(seen.value, State) else None
        strange = orphans(listed, state=state, changes=1 << 62)
        if not strange:
            return {}
        newest = max((change for change in map(_change, strange)), default=0)
        if newest > seen.version and state is not None:
            seen = self._heads.cell(key).change(
                lambda now: replace(now.value) if isinstance(now.value, State) else None, to=newest
            )
            state = seen.value if isinstance(seen.value, State) else None
        return orphans(listed, state=state, changes=seen.version)


def _change(name: str) -> int:
    number = name.partition("-")[0]
    return int(number) if number.isdigit() else 0


def _swapped(state: State, run: tuple[Part, ...], merged: Part) -> State | None:
    """With one part in the place of these; None if they are not there any more."""
    if not set(run) <= set(state.parts):
        return None
    first = state.parts.index(run[0])
    return replace(state, parts=(*state.parts[:first], merged, *state.parts[first + len(run) :]))
