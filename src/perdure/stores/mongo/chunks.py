"""The chunks of a family: kept once, replaced when they are not equal, and dropped in three steps.

Who drops some marks them *dead*, then moves the fences of all sessions of the family, then removes what still bears its
mark. Who writes one looks at the fence, puts it, which takes a mark away, and is refused if the fence has moved
meanwhile. So no chunk goes that a commit was acknowledged with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from bson import Int64

from perdure.errors import DamageError
from perdure.stores.mongo.layout import Doc, Where, body_in, new_attempt, stored_body
from perdure.stores.mongo.link import Link
from perdure.stores.mongo.parts import PIECE_BYTES, Parts, insert_all

_AT_ONCE_COUNT = 32


class Chunks:
    """The chunks of all families; a family is told by its key."""

    def __init__(self, link: Link, parts: Parts) -> None:
        self._link, self._parts, self._all = link, parts, link.chunks

    def put(self, family: bytes, chunks: Mapping[bytes, bytes]) -> None:
        """Keeps these; durable on return."""
        left = dict(chunks)
        while left:
            new = {
                digest: content
                for digest, content in left.items()
                if not self._is_long_and_there(family, digest, content)
            }
            there = insert_all(self._all, self._documents(family, new))
            digests = list(new)
            again = [*(digests[place] for place in there), *(digest for digest in left if digest not in new)]
            left = {digest: left[digest] for digest in again if not self._renew(family, digest, left[digest])}

    def get(self, family: bytes, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """Those of them that are there."""
        wanted, found = list(digests), dict[bytes, bytes]()
        for first in range(0, len(wanted), _AT_ONCE_COUNT):
            some = [_id(family, digest) for digest in wanted[first : first + _AT_ONCE_COUNT]]
            for doc in self._all.find({"_id": {"$in": some}}):
                found[bytes(doc["d"])] = self._content(family, doc)
        return found

    def sizes(self, family: bytes) -> dict[bytes, int]:
        """The address of each, and its length."""
        return {bytes(doc["d"]): int(doc["l"]) for doc in self._all.find({"f": family}, {"d": 1, "l": 1})}

    def mark_dead(self, family: bytes, digests: Collection[bytes] | None, *, mark: bytes) -> None:
        """The first step for these, or for all."""
        some = {"f": family} if digests is None else {"_id": {"$in": [_id(family, one) for one in digests]}}
        self._all.update_many(some, {"$set": {"dead": mark}})

    def drop_dead(self, family: bytes, *, mark: bytes) -> None:
        """The last step; durable on return."""
        dead = {"f": family, "dead": mark}
        long = [doc["c"] for doc in self._all.find(dead | {"c.x": {"$exists": True}}, {"c": 1})]
        self._all.delete_many(dead)
        there = {bytes(doc["c"]["x"]) for doc in self._all.find({"f": family, "c.x": {"$exists": True}})}
        self._parts.drop(family, {bytes(one["x"]) for one in long} - there)

    def _documents(self, family: bytes, chunks: Mapping[bytes, bytes]) -> list[Doc]:
        return [self._document(family, digest, content) for digest, content in chunks.items()]

    def _document(self, family: bytes, digest: bytes, content: bytes) -> Doc:
        where: Where = content
        if len(content) > PIECE_BYTES:
            where = self._parts.put(family, {0: content}, attempt=new_attempt())[0]
        about = {"f": family, "d": digest, "l": Int64(len(content))}
        return {"_id": _id(family, digest), **about, "c": stored_body(where)}

    def _is_long_and_there(self, family: bytes, digest: bytes, content: bytes) -> bool:
        """Whether its pieces had better not be written before one has looked at what is there."""
        return len(content) > PIECE_BYTES and self._all.find_one({"_id": _id(family, digest)}, {"_id": 1}) is not None

    def _is(self, family: bytes, doc: Doc, content: bytes) -> bool:
        try:
            return int(doc["l"]) == len(content) and self._content(family, doc) == content
        except DamageError:
            return False  # that is repaired by putting it again

    def _content(self, family: bytes, doc: Doc) -> bytes:
        of = f"chunk {bytes(doc['d']).hex()}"
        return self._parts.get(family, body_in(doc["c"], of=of), 0, of=of)

    def _renew(self, family: bytes, digest: bytes, content: bytes) -> bool:
        """Leaves one that is there and equal as it is, without a mark, or replaces it. False: it has gone."""
        doc = self._all.find_one({"_id": _id(family, digest)})
        if doc is None:
            return False
        same = {"_id": doc["_id"], "c": doc["c"]} if isinstance(doc["c"], dict) else {"_id": doc["_id"]}
        if self._is(family, doc, content):
            return self._all.update_one(same, {"$unset": {"dead": 1}}).matched_count == 1
        self._all.replace_one({"_id": doc["_id"]}, self._document(family, digest, content), upsert=True)
        self._parts.drop_body(family, body_in(doc["c"], of="chunk"), 0)
        return True


def _id(family: bytes, digest: bytes) -> bytes:
    return family + digest
