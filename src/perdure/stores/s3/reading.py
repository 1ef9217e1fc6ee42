"""A log read through: the records and rows of a session and of what it goes on from, wherever they are.

A part that is gone was put anew under another name, by an amendment or a merge, since its head was read: then the head
is read again. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from perdure.errors import DamageError
from perdure.log import Record
from perdure.stores import refusals
from perdure.stores.contract import Point
from perdure.stores.s3.head import Part, State
from perdure.stores.s3.heads import Heads
from perdure.stores.s3.rows import Rows
from perdure.stores.s3.shelf import Shelf

T = TypeVar("T")

_PAGE_BYTES: Final = 4 << 20
_PAGE_COUNT: Final = 2000


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a log has of one session: its records `after` + 1 … `upto`."""

    state: State
    after: int
    upto: int


class Reading:
    """What is read of the sessions of a place."""

    def __init__(self, heads: Heads, shelf: Shelf) -> None:
        self._heads, self._shelf = heads, shelf

    def stretches(self, session: str) -> list[Stretch]:
        """Whose records the log is made of, the oldest first."""
        state = self._heads.of(session)
        bases = self._heads.together(lambda base: self._heads.of(base.session), state.bases)
        ends = [*(base.seq for base in state.bases), state.seq]
        begins = [0, *ends]
        return [Stretch(*one) for one in zip([*bases, state], begins, ends, strict=False)]

    def records(self, session: str, *, after: int, upto: int | None) -> Iterator[Record]:
        """The records, some read at a time; the end is that of this moment."""
        stretches = self.stretches(session)
        end = stretches[-1].upto if upto is None else min(upto, stretches[-1].upto)
        return self._pages(stretches, after=max(0, after), end=end)

    def _pages(self, stretches: list[Stretch], *, after: int, end: int) -> Iterator[Record]:
        for one in stretches:
            state, last = one.state, min(one.upto, end)
            while after < last:
                state, page = self._again(state, lambda now, a=after, b=last: self._page(now, a, b))  # type: ignore[misc]
                if not page:
                    break
                yield from page
                after = page[-1].seq

    def _page(self, state: State, after: int, upto: int) -> list[Record]:
        """The next records, at least one if there is one."""
        if after >= state.tail.after:
            return list(state.tail.records[after - state.tail.after : upto - state.tail.after])
        part = _part_of(state, after + 1)
        if part is None:
            return []
        index = self._shelf.index(state, part)
        begin, end = index.place(after + 1)[0], after + 1
        last = min(upto, part.upto, after + _PAGE_COUNT)
        while end < last and index.place(end + 1)[1] - begin <= _PAGE_BYTES:
            end += 1
        return self._shelf.records(state, part, range(after + 1, end + 1))

    def at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """These records, in the order asked. Raises `MissingError`, `DamageError`."""
        wanted = list(seqs)
        stretches = self.stretches(session)
        found: dict[int, Record] = {}
        for one in stretches:
            mine = sorted({seq for seq in wanted if one.after < seq <= one.upto})
            if mine:
                _, some = self._again(one.state, lambda now, mine=mine: self._some(now, mine))  # type: ignore[misc]
                found |= {record.seq: record for record in some}
        for seq in wanted:
            if seq not in found:
                raise refusals.missing_record(session, seq=seq)
        return [found[seq] for seq in wanted]

    def _some(self, state: State, seqs: list[int]) -> list[Record]:
        records = [state.tail.records[seq - state.tail.after - 1] for seq in seqs if seq > state.tail.after]
        by_part: dict[Part, list[int]] = {}
        for seq in seqs:
            part = _part_of(state, seq) if seq <= state.tail.after else None
            if part is not None:
                by_part.setdefault(part, []).append(seq)
        pages = self._heads.together(lambda pair: self._shelf.records(state, pair[0], pair[1]), by_part.items())
        return [record for page in pages for record in page] + records

    def rows(self, session: str) -> Iterator[tuple[Rows, int]]:
        """The rows of the log in order, without bodies, each with the last record of which they count."""
        for one in self.stretches(session):
            _, found = self._again(one.state, self.indexes)
            yield from ((rows, one.upto) for rows in found)

    def indexes(self, state: State) -> list[Rows]:
        """The rows of a session itself, in order."""
        indexes = self._heads.together(lambda part: self._shelf.index(state, part), state.parts)
        return [*(index.rows for index in indexes), state.tail]

    def points(self, session: str) -> list[Point]:
        """See `Store.points`."""
        found = {point.seq: point for rows, last in self.rows(session) for point in rows.points if point.seq <= last}
        return [found[seq] for seq in sorted(found)]

    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """See `Store.keyframes`."""
        pairs = ((pair, last) for rows, last in self.rows(session) for pair in rows.keyframes)
        return sorted(dict(pair for pair, last in pairs if max(pair) <= last).items())

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """See `Store.marks`."""
        found = (pair for rows, last in self.rows(session) for pair in rows.marks if pair[1] <= last)
        return list(dict.fromkeys(found))

    def was_sent(self, state: State, mark: bytes) -> bool:
        """Whether an item with this mark was ever sent."""
        return any(mark in rows.sent for rows in self.indexes(state))

    def _again(self, state: State, work: Callable[[State], T]) -> tuple[State, T]:
        """What `work` gives; with a head that is read again if it is not the newest, and a part of it is gone."""
        try:
            return state, work(state)
        except DamageError:
            newest = self._heads.of(state.session)
            if newest.parts == state.parts:
                raise
        return newest, work(newest)


def _part_of(state: State, seq: int) -> Part | None:
    return next((part for part in state.parts if part.after < seq <= part.upto), None)
