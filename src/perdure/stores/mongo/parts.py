"""Long bodies, in documents of their own: written before what names them, and nobody's until then.

They belong to who wrote them, an *attempt*, so that none is ever written over. It knows no session's document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pymongo.errors import BulkWriteError

from perdure.errors import DamageError
from perdure.stores.mongo.layout import Doc, Outside, Where
from perdure.stores.mongo.link import Documents, Link

PIECE_BYTES: Final = 8 << 20
"""So much of a body is in one document: half of what MongoDB bears."""

AT_ONCE_BYTES: Final = 32 << 20
"""So much is sent in one message, which may have 48 MB."""

_DUPLICATE: Final = 11000


class Parts:
    """The documents of long bodies. `key` is that of a session, or of a family for its chunks."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def put(self, key: bytes, bodies: Mapping[int, bytes], *, attempt: bytes) -> dict[int, Outside]:
        """Writes these bodies, by their numbers; durable on return. Those that are there stay."""
        insert_all(self._link.parts, _pieces(key, bodies, attempt=attempt))
        return {number: Outside(attempt, _count(body), len(body)) for number, body in bodies.items()}

    def get(self, key: bytes, where: Where, number: int, *, of: str) -> bytes:
        """The bytes of a body. Raises `DamageError` when some of it is missing."""
        if isinstance(where, bytes):
            return where
        ids = [_id(key, where.attempt, number, place) for place in range(where.count)]
        there = {bytes(doc["_id"]): bytes(doc["d"]) for doc in self._link.parts.find({"_id": {"$in": ids}})}
        body = b"".join(there.get(bytes(one), b"") for one in ids)
        if len(body) != where.length:
            raise DamageError(f"{of}: of its {where.length:,} bytes {len(body):,} are there")
        return body

    def attempts(self, key: bytes) -> set[bytes]:
        """Who wrote what is there."""
        return {bytes(doc["x"]) for doc in self._link.parts.find({"s": key}, {"x": 1, "_id": 0})}

    def drop(self, key: bytes, attempts: Iterable[bytes]) -> None:
        """Removes what these wrote; durable on return."""
        gone = list(attempts)
        if gone:
            self._link.parts.delete_many({"s": key, "x": {"$in": gone}})

    def drop_body(self, key: bytes, where: Where, number: int) -> None:
        """Removes one body; durable on return."""
        if isinstance(where, Outside):
            ids = [_id(key, where.attempt, number, place) for place in range(where.count)]
            self._link.parts.delete_many({"_id": {"$in": ids}})


def insert_all(documents: Documents, docs: Iterable[Doc]) -> list[int]:
    """Inserts documents, some at a time. The places of those that were there already; they stay as they are."""
    there: list[int] = []
    first, some, size = 0, list[Doc](), 0
    for doc in docs:
        length = len(doc.get("d", b"")) + 200
        if some and size + length > AT_ONCE_BYTES:
            there += [first + place for place in _insert(documents, some)]
            first, some, size = first + len(some), [], 0
        some.append(doc)
        size += length
    return there + [first + place for place in _insert(documents, some)]


def _insert(documents: Documents, some: list[Doc]) -> list[int]:
    if not some:
        return []
    try:
        documents.insert_many(some, ordered=False)
    except BulkWriteError as error:
        details = error.details or {}
        if details["writeConcernErrors"] or any(one["code"] != _DUPLICATE for one in details["writeErrors"]):
            raise
        return [one["index"] for one in details["writeErrors"]]
    return []


def _pieces(key: bytes, bodies: Mapping[int, bytes], *, attempt: bytes) -> Iterator[Doc]:
    for number, body in bodies.items():
        for place in range(_count(body)):
            piece = body[place * PIECE_BYTES : (place + 1) * PIECE_BYTES]
            one = _id(key, attempt, number, place)
            yield {"_id": one, "s": key, "x": attempt, "d": piece}


def _count(body: bytes) -> int:
    return max(1, -(-len(body) // PIECE_BYTES))


def _id(key: bytes, attempt: bytes, number: int, place: int) -> bytes:
    return key + attempt + number.to_bytes(8, "big") + place.to_bytes(4, "big")
