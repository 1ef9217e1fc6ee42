"""Envelopes: one beside each family that has one, and one beside the store.

One that comes with the opening of a new session counts from the moment at which that session is there. Whoever reads
one that is marked *dead*, as that of a family whose last session goes, takes the mark away, so that it stays.
"""

from __future__ import annotations

from pymongo.errors import DuplicateKeyError

from perdure import faults
from perdure.stores import refusals
from perdure.stores.mongo.layout import Doc, new_attempt
from perdure.stores.mongo.link import Link
from perdure.stores.mongo.sessions import VISIBLE, Session, Sessions

PLACE = "place"
"""The id of the one document that tells of the store itself."""


class Envelopes:
    """Those of all families and of the store."""

    def __init__(self, link: Link, sessions: Sessions) -> None:
        self._link, self._sessions, self._all = link, sessions, link.families

    def of_store(self) -> bytes | None:
        """The store's own."""
        found = (self._link.place.find_one({"_id": PLACE}) or {}).get("envelope")
        return None if found is None else bytes(found)

    def put_of_store(self, new: bytes, *, seen: bytes | None, mark: bytes) -> bool:
        """Replaces the one that was seen. False: another is there. `mark` tells a second try of the same."""
        faults.reach("envelope.inside")
        old = {"_id": PLACE, "envelope": seen}
        change = {"$set": {"envelope": new, "by": mark}}
        if self._link.place.update_one(old, change).matched_count:
            return True
        return self._link.place.find_one({"_id": PLACE, "by": mark}, {"_id": 1}) is not None

    def of(self, family: bytes) -> bytes | None:
        """That of a family which has a session."""
        while (doc := self._find(family)) is not None:
            alive = {"_id": doc["_id"], "by": doc["by"]}
            if "dead" not in doc or self._all.update_one(alive, {"$unset": {"dead": 1}}).matched_count:
                return bytes(doc["envelope"])
        return None

    def put(self, found: Session, new: bytes, *, seen: bytes | None, mark: bytes) -> bool:
        """Replaces that of the session's family, as `put_of_store` does."""
        while True:
            doc = self._find(found.family_key)
            if doc is not None and doc["by"] == mark:
                return True
            if (None if doc is None else bytes(doc["envelope"])) != seen:
                return False
            faults.reach("envelope.inside")
            if self._write(found.family_key, new, seen=doc, mark=mark, of=None):
                return True

    def put_first(self, family: bytes, new: bytes, *, of: bytes, attempt: bytes, session: str) -> None:
        """Writes one for a session that is about to be made, and counts when it is. Raises `ConflictError`."""
        while True:
            doc = self._find(family)
            if doc is not None:
                raise refusals.other_envelope(session)
            if self._write(family, new, seen=None, mark=attempt, of=of):
                return

    def mark_dead(self, family: bytes, *, mark: bytes) -> None:
        """The first step of its removal."""
        self._all.update_one({"_id": family}, {"$set": {"dead": mark}})

    def drop_dead(self, family: bytes, *, mark: bytes) -> None:
        """The last step; durable on return."""
        self._all.delete_one({"_id": family, "dead": mark})

    def _find(self, family: bytes) -> Doc | None:
        """The document of a family, if it counts; then it counts for ever, whatever becomes of who brought it."""
        doc = self._all.find_one({"_id": family})
        if doc is None or doc.get("of") is None:
            return doc
        maker = {"_id": doc["of"], "made": doc["by"], **VISIBLE}
        if self._link.sessions.find_one(maker, {"_id": 1}) is None:
            return None
        self._all.update_one({"_id": doc["_id"], "by": doc["by"]}, {"$unset": {"of": 1}})
        return {**doc, "of": None}

    settle = _find

    def _write(self, family: bytes, new: bytes, *, seen: Doc | None, mark: bytes, of: bytes | None) -> bool:
        """Writes it in the place of what was seen, or of what does not count. False: something else is there by now."""
        doc: Doc = {"_id": family, "envelope": new, "by": mark}
        if of is not None:
            doc["of"] = of
        if seen is None:
            void = self._all.find_one({"_id": family})
            if void is None:
                return self._insert(doc)
            if void.get("of") is None:
                return False
            self._sessions.hold_up([{"_id": void["of"], "hidden": void["by"]}] if void["by"] != mark else [])
            if self._find(family) is not None:  # it came to count just now
                return False
            seen = void
        return (
            self._all.replace_one({"_id": doc["_id"], "by": seen["by"], "of": seen.get("of")}, doc).matched_count == 1
        )

    def _insert(self, doc: Doc) -> bool:
        try:
            self._all.insert_one(doc)
        except DuplicateKeyError:
            return False
        return True


def new_mark() -> bytes:
    """What tells one change of an envelope from every other."""
    return new_attempt()
