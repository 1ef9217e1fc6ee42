"""An amendment changes many documents, so it is written down first, and shown by one change of the session's document.

From then on readers see the log through it, until it has been *carried over* into the documents that it changes. Nobody
commits before that is done, and whoever finds it undone does it: the same documents come of it, however often.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import bson
from pymongo import ReplaceOne

from perdure.errors import DamageError
from perdure.stores.contract import Change, Point
from perdure.stores.mongo.chunks import Chunks
from perdure.stores.mongo.layout import (
    Doc,
    Index,
    Outside,
    Row,
    body_in,
    index_in,
    indexed,
    kept_inside,
    new_attempt,
    packed_rows,
    rows_in,
    size_of,
    stored_body,
)
from perdure.stores.mongo.link import Documents, Link, PassingError
from perdure.stores.mongo.parts import Parts
from perdure.stores.mongo.sessions import Session, Sessions

_NUMBER = 0
"""Of the body that an amendment is; records have the numbers above."""

_AT_ONCE_COUNT = 16


@dataclass(frozen=True, slots=True)
class Amendment:
    """What is changed of the records and the index of a log: the new bodies, the rows that go, the chunks that come."""

    bodies: dict[int, bytes]
    gone: Index
    chunks: dict[bytes, bytes]

    def through(self, row: Row) -> Row:
        """The record as it is with this amendment."""
        body = self.bodies.get(row.seq)
        return row if body is None else row.with_body(body)

    def index(self, doc: Doc) -> Doc:
        """A document of the index as it is with this amendment."""
        there = index_in(doc.get("i", ()))
        left = there.without(self.gone)
        return doc if left == there else {**doc, **indexed([left.packed()])}


class Amendments:
    """Those of all sessions; each has at most one that is not carried over."""

    def __init__(self, link: Link, sessions: Sessions, parts: Parts, chunks: Chunks) -> None:
        self._link, self._sessions, self._parts, self._chunks = link, sessions, parts, chunks

    def put(self, key: bytes, change: Change, chunks: dict[bytes, bytes]) -> Doc:
        """Writes one down, which is nobody's yet; durable on return. What a session's document says of it."""
        written = {
            "b": [[seq, body] for seq, body in change.bodies],
            "i": Index(
                [Point(seq, 0, 0, None, 0) for seq in change.points],
                [(of, 0) for of in change.keyframes],
                [*change.marks],
            ).packed(),
            "c": [[digest, content] for digest, content in chunks.items()],
        }
        put = self._parts.put(key, {_NUMBER: bson.encode(written)}, attempt=new_attempt())
        return dict(stored_body(put[_NUMBER]))

    def of(self, session: str, doc: Doc) -> Amendment | None:
        """The one that a session's document names. Raises what passes when it has just been carried over."""
        if doc.get("over") is None:
            return None
        where = body_in(doc["over"], of=f"{session}: an amendment")
        try:
            written = bson.decode(self._parts.get(bytes(doc["_id"]), where, _NUMBER, of=session))
        except DamageError as error:
            if self._is_undone(doc):
                raise
            raise PassingError(f"{session}: is being amended") from error
        return Amendment(
            {int(seq): bytes(body) for seq, body in written["b"]},
            index_in([written["i"]]),
            {bytes(digest): bytes(content) for digest, content in written["c"]},
        )

    def carry_over(self, found: Session) -> None:
        """Brings all documents to what the amendment says; durable on return, and nothing is left to be done."""
        amendment = self.of(found.id, found.doc)
        if amendment is None:
            return
        self._chunks.put(found.family_key, amendment.chunks)
        old = self._bodies(found, amendment)
        if amendment.gone != Index([], [], []):
            rows = self._link.index.find({"s": found.key})
            self._replace(found, self._link.index, ((doc, amendment.index(doc)) for doc in rows))
        over = {"_id": found.key, "over": found.over}
        size = sum(size_of(one) for one in found.tail)
        self._link.sessions.update_one(over, {"$unset": {"over": 1}, "$set": {"size": size}})
        for seq, where in old:
            self._parts.drop_body(found.key, where, seq)
        self._parts.drop_body(found.key, body_in(found.over, of=found.id), _NUMBER)

    def carry_over_all(self, family: bytes) -> None:
        """Does that for every session of a family."""
        for doc in self._link.sessions.find({"f": family, "over": {"$ne": None}, "hidden": None}, {"id": 1}):
            self.carry_over(self._sessions.look(doc["id"]))

    def _bodies(self, found: Session, amendment: Amendment) -> list[tuple[int, Outside]]:
        """Puts the new bodies in the place of the old ones. Those of the old ones that stand elsewhere."""
        if not amendment.bodies or found.over is None:
            return []
        seqs = sorted(amendment.bodies)
        inside = kept_inside([amendment.bodies[seq] for seq in seqs])
        long = {seq: amendment.bodies[seq] for seq, is_in in zip(seqs, inside, strict=True) if not is_in}
        put = self._parts.put(found.key, long, attempt=bytes(found.over["x"])) if long else {}
        new = {seq: put.get(seq, amendment.bodies[seq]) for seq in seqs}
        old: list[tuple[int, Outside]] = []

        def changed() -> Iterator[tuple[Doc, Doc]]:
            wanted = {"s": found.key, "q": {"$gte": seqs[0]}, "f": {"$lt": seqs[-1]}}
            for doc in self._link.records.find(wanted):
                rows = rows_in(found.id, doc["r"], end=doc["q"])
                for place, row in enumerate(rows):
                    if row.seq not in new:
                        continue
                    if isinstance(row.body, Outside) and row.body != new[row.seq]:
                        old.append((row.seq, row.body))
                    rows[place] = row.with_body(new[row.seq])
                yield doc, {**doc, "r": [packed_rows(rows)]}

        self._replace(found, self._link.records, changed())
        return old

    def _replace(self, found: Session, documents: Documents, pairs: Iterable[tuple[Doc, Doc]]) -> None:
        """Replaces documents that nobody has changed since they were read, while the amendment is to be done."""
        some: list[ReplaceOne[Doc]] = []
        for old, new in pairs:
            if old != new:
                some.append(ReplaceOne({"_id": old["_id"], "v": old["v"]}, {**new, "v": old["v"] + 1}))
            if len(some) == _AT_ONCE_COUNT:
                self._write(found, documents, some)
                some = []
        self._write(found, documents, some)

    def _write(self, found: Session, documents: Documents, some: list[ReplaceOne[Doc]]) -> None:
        if not some:
            return
        if not self._is_undone(found.doc) or documents.bulk_write(some, ordered=False).matched_count < len(some):
            raise PassingError(f"{found.id}: is being amended")

    def _is_undone(self, doc: Doc) -> bool:
        here = {"_id": doc["_id"], "over": doc["over"]}
        return self._link.sessions.find_one(here, {"_id": 1}) is not None
