"""Entries move out of a session's document, when there are many, into one document of records and one of the index.

What is moved is acknowledged already, so whoever does it writes the same: who comes second takes over what the first
one wrote. It counts from the moment at which the session's document says so, and until then the entries count.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bson import Int64
from pymongo.errors import DuplicateKeyError

from perdure.errors import DamageError
from perdure.stores.mongo.layout import Doc, documents_of, row_id, size_of
from perdure.stores.mongo.link import Link, PassingError
from perdure.stores.mongo.sessions import Session


@dataclass(frozen=True, slots=True)
class Moved:
    """What a session's document says after a move: the entries that are left, how many were moved, up to where."""

    tail: list[Doc]
    count: int
    start: int

    def fields(self, *more: Doc) -> Doc:
        """The fields of the document, with these entries behind those that are left."""
        tail = [*self.tail, *more]
        size = sum(size_of(one) for one in tail)
        return {"tail": tail, "size": size, "moved": Int64(self.count), "start": Int64(self.start)}


def move(link: Link, found: Session) -> Moved:
    """Writes the session's entries, or as many as who came first has written, elsewhere; durable on return."""
    entries, number, after = found.tail, int(found.doc["moved"]), found.start
    index, records = documents_of(found.key, entries, number=number, after=after)
    try:
        link.index.insert_one(index)
    except DuplicateKeyError as error:
        there = link.index.find_one({"_id": row_id(found.key, number)}, {"c": 1, "a": 1})
        if there is None:
            raise PassingError(f"{found.id}: its newest commits are being moved") from error
        _check_same(found, there)
        index, records = documents_of(found.key, entries[: there["c"]], number=number, after=after)
    with suppress(DuplicateKeyError):
        link.records.insert_one(records)
    return Moved(entries[index["c"] :], number + index["c"], int(records["q"]))


def move_all(link: Link, found: Session) -> Moved:
    """The same, until none is left."""
    moved = Moved(found.tail, int(found.doc["moved"]), found.start)
    while moved.tail:
        moved = move(link, Session(found.lease, found.family, found.doc | moved.fields()))
    return moved


def _check_same(found: Session, there: Mapping[str, Any]) -> None:
    attempts = [one["a"] for one in found.tail]
    if there["a"] != attempts[: there["c"]]:
        raise DamageError(f"{found.id}: what was moved out of its document is not what stands in it")
