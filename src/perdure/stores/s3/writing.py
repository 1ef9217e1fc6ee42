"""What one change of a session puts before its head says so, and how a batch changes a head.

The newest records stand in the head itself; when they have become long, they are put as a part. What was put for a
change that did not come about is taken away again, or by `give_back` if the process died meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from perdure.errors import PerdureError, StoreFailedError
from perdure.stores.contract import Batch, Change
from perdure.stores.s3 import names
from perdure.stores.s3.families import Families
from perdure.stores.s3.head import Kept, Part, State
from perdure.stores.s3.rows import Rows, changed, joined, packed
from perdure.stores.s3.shelf import Shelf

TAIL_BYTES: Final = 64 * 1024
"""The newest records stand in the head up to so long: each save puts them again, and none needs another request."""

ITEM_BYTES: Final = 2 * 1024
"""A longer item of the inbox is an object of its own …"""

INBOX_BYTES: Final = 32 * 1024
"""… and so is every one beyond so much."""

_REFUSED: Final = (PerdureError, ValueError, InterruptedError)
"""What is raised before the head is put."""

_log: Final = logging.getLogger("perdure.store")


class Changing:
    """One change of one session, from its first request to the last."""

    def __init__(self, key: str, *, shelf: Shelf, families: Families) -> None:
        self._key, self._shelf, self._families = key, shelf, families
        self._put: list[str] = []
        self._chunks: tuple[str, int] | None = None
        self.gone: list[str] = []
        """What the head names no more when it is done."""

    def written(self, state: State, batch: Batch, *, change: int, tick: int) -> State:
        """The session with this batch, whose chunks are put."""
        self.put_chunks(state.family, state.generation, batch.chunks)
        rows = Rows(state.seq, batch.records, batch.points, batch.keyframes, batch.marks)
        self.gone += [item.name for item in state.items if item.number in batch.taken and item.name]
        after = replace(
            state,
            tail=joined([state.tail, rows]),
            chain=batch.records[-1].chain if batch.records else state.chain,
            summary=batch.summary or state.summary,
            tick=tick,
            items=tuple(item for item in state.items if item.number not in batch.taken),
        )
        return self.shortened(after, change=change)

    def shortened(self, state: State, *, change: int) -> State:
        """The session with an end that is short enough to stand in its head."""
        content, front = packed(state.tail, key=self._key)
        if len(content) <= TAIL_BYTES:
            return state
        name = self._shelf.put(self._key, content, change=change)
        self._put.append(name)
        part = Part(name, state.tail.after, state.tail.upto, front, len(content))
        return replace(state, parts=(*state.parts, part), tail=Rows(state.tail.upto))

    def put_chunks(self, family: str, generation: int, chunks: Mapping[bytes, bytes]) -> None:
        """Puts the chunks, again only if another generation has begun."""
        place = names.key_of(family), generation
        if chunks and self._chunks != place:
            self._families.put_chunks(*place, chunks)
            self._chunks = place

    def sent(self, state: State, content: bytes, *, mark: bytes | None, change: int) -> State:
        """The session with one more item in its inbox."""
        number = state.sent + 1
        room = INBOX_BYTES - sum(len(item.content or b"") for item in state.items)
        if len(content) <= min(ITEM_BYTES, room):
            item = Kept(number, content)
        else:
            item = Kept(number, None, self._shelf.put(self._key, content, change=change))
            self._put.append(item.name)
        marked = Rows(state.seq, sent=() if mark is None else (mark,))
        after = replace(state, sent=number, items=(*state.items, item), tail=joined([state.tail, marked]))
        return self.shortened(after, change=change)

    def amended(self, state: State, what: Change, *, change: int) -> State:
        """The session with what an amendment changes of what is there; each part that has some of it is put anew."""
        parts = []
        for part in state.parts:
            is_same = not _has(self._shelf.index(state, part).rows, what)
            parts.append(part if is_same else self._anew(state, part, what, change=change))
        return replace(state, parts=tuple(parts), tail=_without(state.tail, what))

    def tidied(self, state: State, *, change: int) -> State | None:
        """The session without the rows of points that a later part replaces; None if there are none."""
        parts: list[Part] = []
        newer = {point.seq for point in state.tail.points}
        for part in reversed(state.parts):
            own = {point.seq for point in self._shelf.index(state, part).rows.points}
            over = Change(points=tuple(own & newer))
            parts.insert(0, self._anew(state, part, over, change=change) if over.points else part)
            newer |= own
        return None if tuple(parts) == state.parts else replace(state, parts=tuple(parts))

    def _anew(self, state: State, part: Part, what: Change, *, change: int) -> Part:
        """The part that takes the place of this one."""
        rows = _without(self._shelf.rows(state, part), what)
        put = self._shelf.put_rows(self._key, rows, change=change)
        self._put.append(put.name)
        self.gone.append(part.name)
        return put

    def done(self, state: State) -> None:
        """Takes away what the session does not need now that it is so."""
        needed = state.named()
        over = [name for name in dict.fromkeys([*self._put, *self.gone]) if name not in needed]
        try:
            self._shelf.remove(self._key, over)
        except StoreFailedError as error:
            _log.info("what %s does not need any more stays until give_back: %s", state.session, error)

    def given_up(self, error: BaseException) -> None:
        """Takes away what was put for nothing, if it is sure that it was for nothing."""
        if isinstance(error, _REFUSED) and not isinstance(error, StoreFailedError):
            self._shelf.remove(self._key, self._put)


def _has(rows: Rows, what: Change) -> bool:
    return (
        any(rows.after < seq <= rows.upto for seq, _ in what.bodies)
        or not {point.seq for point in rows.points}.isdisjoint(what.points)
        or not {of for of, _ in rows.keyframes}.isdisjoint(what.keyframes)
        or not set(rows.marks).isdisjoint(what.marks)
    )


def _without(rows: Rows, what: Change) -> Rows:
    return changed(
        rows, bodies=dict(what.bodies), points=set(what.points), keyframes=set(what.keyframes), marks=set(what.marks)
    )
