"""The parts of logs: objects that are put once and never changed, so that what was read of one may be kept at hand.

Small ones are read whole, of large ones the index and the bodies that are asked for. Their names say at which change of
the head they were put: one that the head does not name, and that is of a change which is over, belongs to nobody.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from perdure import clock
from perdure.errors import DamageError
from perdure.log import Record
from perdure.stores.contract import Item
from perdure.stores.s3 import names
from perdure.stores.s3.bucket import Bucket
from perdure.stores.s3.head import Kept, Part, State
from perdure.stores.s3.rows import Index, Rows, index_of, packed, rows_of

WHOLE_BYTES: Final = 256 * 1024
"""A part up to so long is read whole, with the first request that it needs."""

_KEPT_BYTES: Final = 32 << 20
_INDEXES_COUNT_MAX: Final = 512


class Shelf:
    """The parts of all sessions of a place."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._mutex = threading.Lock()
        self._whole: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._indexes: OrderedDict[str, Index] = OrderedDict()

    def put(self, key: str, content: bytes, *, change: int) -> str:
        """Puts an object that change `change` of the head is to name. Its name."""
        name = f"{change:012d}-{clock.new_bytes(6).hex()}"
        self._bucket.put(names.part(key, name), content)
        return name

    def put_rows(self, key: str, rows: Rows, *, change: int) -> Part:
        """Puts a part. What the head says of it."""
        content, front = packed(rows, key=key)
        name = self.put(key, content, change=change)
        self._keep(names.part(key, name), content)
        return Part(name, rows.after, rows.upto, front, len(content))

    def index(self, state: State, part: Part) -> Index:
        """What a part holds, without bodies. Raises `DamageError`."""
        place = names.part(state.key, part.name)
        with self._mutex:
            found = self._indexes.get(place)
        if found is None:
            content = self._front(state, part)
            found = index_of(content, key=state.key, session=state.session, what=place)
            with self._mutex:
                self._indexes[place] = found
                while len(self._indexes) > _INDEXES_COUNT_MAX:
                    self._indexes.popitem(last=False)
        return found

    def rows(self, state: State, part: Part) -> Rows:
        """All of a part. Raises `DamageError`."""
        place = names.part(state.key, part.name)
        return rows_of(self._read(state, part), key=state.key, session=state.session, what=place)

    def records(self, state: State, part: Part, seqs: Sequence[int]) -> list[Record]:
        """These records of a part, in order. Raises `DamageError`."""
        index = self.index(state, part)
        places = [index.place(seq) for seq in seqs]
        if part.size <= WHOLE_BYTES:
            content = self._read(state, part)
            bodies: list[bytes] | None = [content[begin:end] for begin, end in places]
        else:
            key = names.part(state.key, part.name)
            full = [(begin, end) for begin, end in places if begin < end]
            found = self._bucket.ranges(key, [b for b, _ in full], [e for _, e in full]) if full else []
            given = iter(found or ())
            bodies = None if found is None else [next(given) if begin < end else b"" for begin, end in places]
        if bodies is None:
            raise _gone(state, part.name)
        for seq, body, (begin, end) in zip(seqs, bodies, places, strict=True):
            if len(body) != end - begin:
                raise DamageError(f"{state.session}: record {seq} is not what was written: {part.name} is cut")
        return [index.record(seq, body) for seq, body in zip(seqs, bodies, strict=True)]

    def item(self, state: State, item: Kept) -> Item:
        """An item of the inbox. Raises `DamageError`."""
        content = item.content if item.content is not None else self._bucket.read(names.part(state.key, item.name))
        if content is None:
            raise _gone(state, item.name)
        return Item(item.number, content)

    def remove(self, key: str, gone: Sequence[str]) -> None:
        """Removes objects that no head names any more."""
        self._bucket.delete([names.part(key, name) for name in gone])

    def names(self, key: str) -> list[tuple[str, int]]:
        """Every object of a session, also what its head does not name, each with its length."""
        folder = f"{names.PARTS}/{key}"
        return [(one.key.rpartition("/")[2], one.size) for one in self._bucket.list(folder)]

    def _front(self, state: State, part: Part) -> bytes:
        if part.size <= WHOLE_BYTES:
            return self._read(state, part)
        found = self._bucket.ranges(names.part(state.key, part.name), [0], [part.front])
        if found is None:
            raise _gone(state, part.name)
        return found[0]

    def _read(self, state: State, part: Part) -> bytes:
        place = names.part(state.key, part.name)
        with self._mutex:
            content = self._whole.get(place)
            if content is not None:
                self._whole.move_to_end(place)
                return content
        content = self._bucket.read(place)
        if content is None:
            raise _gone(state, part.name)
        self._keep(place, content)
        return content

    def _keep(self, place: str, content: bytes) -> None:
        if len(content) > WHOLE_BYTES:
            return
        with self._mutex:
            if place not in self._whole:
                self._whole[place] = content
                self._bytes += len(content)
            while self._bytes > _KEPT_BYTES:
                self._bytes -= len(self._whole.popitem(last=False)[1])


def orphans(listed: Sequence[tuple[str, int]], *, state: State | None, changes: int) -> dict[str, int]:
    """Which of a session's objects nothing needs and nothing can come to need: `changes` of its head are over."""
    needed = state.named() if state is not None else set()
    return {name: size for name, size in listed if name not in needed and _change(name) <= changes}


def _change(name: str) -> int:
    number = name.partition("-")[0]
    return int(number) if number.isdigit() else 1 << 62


def _gone(state: State, name: str) -> DamageError:
    return DamageError(f"{state.session}: {name}, a part of its log, is missing")
