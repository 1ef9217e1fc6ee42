"""What a log says: of each session that it goes on from, and of its own, what was moved out of the document or not.

A reader takes what the documents of the sessions said at one moment, so it sees whole commits only; nothing is held
between two pages. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from perdure.errors import DamageError
from perdure.log import Record
from perdure.stores import refusals
from perdure.stores.contract import Point
from perdure.stores.mongo.amendments import Amendment, Amendments
from perdure.stores.mongo.layout import (
    SEQ_MAX,
    Doc,
    Index,
    Outside,
    Row,
    are_numbers,
    index_in,
    key_of,
    parts_of,
    rows_in,
)
from perdure.stores.mongo.link import Link
from perdure.stores.mongo.parts import Parts
from perdure.stores.mongo.sessions import Session, Sessions, session_in

_PAGE_COUNT: Final = 8
"""So many documents of records are read at once."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of a log that one session wrote, and the last record of it that counts."""

    found: Session
    after: int
    last: int
    amendment: Amendment | None

    def tail(self) -> Iterator[Row]:
        """The records that stand in the document."""
        for one in self.found.tail:
            yield from rows_in(self.found.id, parts_of(one, "r"), end=one["q"])

    def rows(self, doc: Doc) -> list[Row]:
        """The records of a document of them, as they are to be seen."""
        rows = rows_in(self.found.id, doc.get("r"), end=doc.get("q"))
        return rows if self.amendment is None else [self.amendment.through(row) for row in rows]


class Reading:
    """Reads the logs of a database."""

    def __init__(self, link: Link, sessions: Sessions, parts: Parts, amendments: Amendments) -> None:
        self._link, self._sessions, self._parts, self._amendments = link, sessions, parts, amendments

    def segments(self, session: str) -> list[Segment]:
        """The runs that its log is made of, the oldest first."""
        found = self._sessions.look(session)
        runs, after = list[Segment](), 0
        there = self._sessions.documents(base["k"] for base in self._keyed(found)) if found.bases else {}
        for base in self._keyed(found):
            doc = there.get(base["k"])
            if doc is None or base["q"] <= after:
                raise DamageError(f"{session}: the session that it is a fork of is missing, or its document is damaged")
            runs.append(self._segment(session_in(base["id"], doc), after=after, last=base["q"]))
            after = base["q"]
        return [*runs, self._segment(found, after=after, last=SEQ_MAX)]

    def _keyed(self, found: Session) -> list[Doc]:
        return [{"k": key_of(base.session), "id": base.session, "q": base.seq} for base in found.bases]

    def _segment(self, found: Session, *, after: int, last: int) -> Segment:
        return Segment(found, after, min(last, found.seq), self._amendments.of(found.id, found.doc))

    # --------------------------------------------------------------------------------------------------------- records

    def pages(self, segments: list[Segment], *, after: int, upto: int) -> Iterator[list[tuple[Segment, Row]]]:
        """The records after + 1 ... upto, some at a time."""
        for segment in segments:
            first, last = max(after, segment.after), min(upto, segment.last)
            while first < min(last, segment.found.start):
                page = self._link.use(partial(self._page, segment, first, last))
                if not page:
                    break
                yield [(segment, row) for row in page]
                first = page[-1].seq
            if first < last:
                yield [(segment, row) for row in segment.tail() if first < row.seq <= last]

    def _page(self, segment: Segment, first: int, last: int) -> list[Row]:
        wanted = {"s": segment.found.key, "q": {"$gt": first}, "f": {"$lt": min(last, segment.found.start)}}
        docs = self._link.records.find(wanted).sort([("q", 1), ("n", 1)]).limit(_PAGE_COUNT)
        return [row for doc in docs for row in segment.rows(doc) if first < row.seq <= last]

    def whole(self, segment: Segment, row: Row) -> Record:
        """A record with its body. One whose body has gone is looked up once more: it may have been amended."""
        key, body = segment.found.key, row.body
        if isinstance(body, Outside):
            try:
                return row.record(self._body(key, row))
            except DamageError:
                row = self._at(self._looked_again(segment), row.seq) or row
        return row.record(self._body(key, row))

    def _body(self, key: bytes, row: Row) -> bytes:
        of = f"{row.session}: record {row.seq}"
        return self._link.use(lambda: self._parts.get(key, row.body, row.seq, of=of))

    def _looked_again(self, segment: Segment) -> Segment:
        def again() -> Segment:
            return self._segment(self._sessions.look(segment.found.id), after=segment.after, last=segment.last)

        return self._link.use(again)

    def records_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """These records, in this order."""
        segments, found = self.segments(session), dict[int, tuple[Segment, Row]]()
        for seq in (wanted := list(seqs)):
            if seq not in found:
                found |= self._around(segments, seq)
            if seq not in found:
                raise refusals.missing_record(session, seq=seq)
        return [self.whole(*found[seq]) for seq in wanted]

    def _around(self, segments: list[Segment], seq: int) -> dict[int, tuple[Segment, Row]]:
        """The record, and those that stand in one document with it."""
        for segment in segments:
            if segment.after < seq <= segment.last:
                return {row.seq: (segment, row) for row in self._beside(segment, seq) if row.seq <= segment.last}
        return {}

    def _at(self, segment: Segment, seq: int) -> Row | None:
        return next((row for row in self._beside(segment, seq) if row.seq == seq), None)

    def _beside(self, segment: Segment, seq: int) -> list[Row]:
        if seq > segment.found.start:
            return list(segment.tail())
        wanted = {"s": segment.found.key, "q": {"$gte": seq}, "f": {"$lt": seq}}
        docs = self._link.use(lambda: list(self._link.records.find(wanted).sort("q", 1).limit(1)))
        return [row for doc in docs for row in segment.rows(doc)]

    # ----------------------------------------------------------------------------------------------------- the indexes

    def points(self, session: str) -> list[Point]:
        """The points of a log, by seq."""
        found: dict[int, Point] = {}
        for segment, index in self._index(session):
            found |= {point.seq: point for point in index.points if point.seq <= segment.last}
        return [found[seq] for seq in sorted(found)]

    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """The keyframes of a log, by snapshot."""
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for segment, index in self._index(session):
            found |= {(segment.last, of): (of, record) for of, record in index.keyframes}
        return sorted(dict(pair for (last, _), pair in found.items() if max(pair) <= last).items())

    def marks(self, session: str, mark: bytes | None = None) -> list[tuple[bytes, int]]:
        """The marks of a log, or this one of them, each place once."""
        found: dict[tuple[bytes, int], None] = {}
        for segment, index in self._index(session, {} if mark is None else {"m": mark}):
            there = (one for one in index.marks if one[1] <= segment.last)
            found |= dict.fromkeys(one for one in there if mark is None or one[0] == mark)
        return list(found)

    def _index(self, session: str, more: Doc | None = None) -> list[tuple[Segment, Index]]:
        """What the index of a log says, as it is to be seen, in the order of the commits."""
        found: list[tuple[Segment, Index]] = []
        for segment in self.segments(session):
            wanted = {"s": segment.found.key, **(more or {})}
            docs = list(self._link.index.find(wanted, {"n": 1, "i": 1, "_id": 0}))
            docs = [doc for doc in docs if are_numbers(doc.get("n")) and doc["n"] < segment.found.doc["moved"]]
            docs.sort(key=lambda doc: int(doc["n"]))
            if segment.amendment is not None:
                docs = [segment.amendment.index(doc) for doc in docs]
            packed = [doc.get("i", []) for doc in docs] + [parts_of(one, "i") for one in segment.found.tail]
            found += [(segment, index_in(one)) for one in packed]
        return found
