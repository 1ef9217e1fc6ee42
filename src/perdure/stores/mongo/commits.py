"""A commit: what is long is written first and is nobody's, then one change of the session's document shows all of it.

The change is made on condition that the document is as the writer knows it. So it may be tried again after a lost
reply: it carries the mark of its attempt, and who finds that mark in the document has written already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bson import Int64
from pymongo import ReturnDocument

from perdure import faults
from perdure.log import Record
from perdure.stores.contract import Batch
from perdure.stores.mongo.amendments import Amendments
from perdure.stores.mongo.chunks import Chunks
from perdure.stores.mongo.inbox import Inbox
from perdure.stores.mongo.layout import CLOSED, TAIL_BYTES, Doc, Where, entry, kept_inside, key_of, new_attempt, size_of
from perdure.stores.mongo.link import Link
from perdure.stores.mongo.moving import Moved, move, move_all
from perdure.stores.mongo.parts import Parts
from perdure.stores.mongo.sessions import Session, Sessions, check_taken, tie


@dataclass(slots=True)
class Commit:
    """One that is under way.

    `judge` raises what the contract says for a session as it is, and passes one for which `when`, the same as a
    condition on the document, is met. `then` are further fields that change with it, `stamps` those that the server
    sets to its time. `listed`: it moves the session to the front of listings.
    """

    session: str
    batch: Batch
    end: int
    judge: Callable[[Session], None]
    when: Doc
    then: Doc = field(default_factory=dict)
    stamps: Doc = field(default_factory=dict)
    point: str = "append.inside"
    listed: bool = True
    alone: bool = False
    """Its entry is to be the only one in the document."""

    attempt: bytes = field(default_factory=new_attempt)
    is_tried: bool = False
    is_reached: bool = False
    elsewhere: Elsewhere | None = None

    def reach(self) -> None:
        """Tells a listening test, once, that all is written and nothing is visible."""
        if not self.is_reached:
            self.is_reached = True
            faults.reach(self.point)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What a commit has written elsewhere than in the document, and how the fence of the session was then."""

    fence: bytes | None
    bodies: list[Where]
    is_fenced: bool


class Commits:
    """Writes commits."""

    def __init__(self, link: Link, sessions: Sessions, parts: Parts, chunks: Chunks) -> None:
        self._link, self._sessions, self._parts, self._chunks = link, sessions, parts, chunks
        self._inbox, self._amendments = Inbox(link, sessions, parts), Amendments(link, sessions, parts, chunks)

    def write(self, commit: Commit) -> int:
        """Durable on return: the number of the newest item that was sent to the session."""
        return self._link.use(lambda: self._write(commit))

    def _write(self, commit: Commit) -> int:
        patience = self._link.patience()
        found = self._sessions.look(commit.session) if commit.is_tried or not _is_plain(commit) else None
        while True:
            if found is not None and self._is_written(found, commit):
                return found.sent
            if found is None or self._is_ready(found, commit):
                sent = self._try(found, commit)
                if sent is not None:
                    self._inbox.forget(found, commit.batch.taken)
                    return sent
                if found is not None:
                    patience.wait(f"{commit.session}: others write to it all the time")
            found = self._sessions.look(commit.session)

    def _is_written(self, found: Session, commit: Commit) -> bool:
        """Whether an earlier try was done. What was moved out of the document is looked at only after one."""
        if not commit.is_tried:
            return False
        if commit.attempt in (found.doc.get("last"), *(one["a"] for one in found.tail)):
            return True
        moved = {"s": found.key, "a": commit.attempt}
        return self._link.index.find_one(moved, {"_id": 1}) is not None

    def _is_ready(self, found: Session, commit: Commit) -> bool:
        """Judges; then brings what is in the way out of it, and what stands elsewhere to its place."""
        commit.judge(found)
        check_taken(found, commit.batch.taken)
        if found.over is not None:
            self._amendments.carry_over(found)
            return False
        self._inbox.remember(found, commit.batch.taken)
        if commit.elsewhere is None or commit.elsewhere.fence != found.fence:
            commit.elsewhere = self._put_elsewhere(found, commit.batch)
        return True

    def put_bodies(self, key: bytes, batch: Batch) -> tuple[list[Where], bool]:
        """Writes what is long of a batch: its bodies, or where they are, and whether any is elsewhere."""
        inside = kept_inside([record.body for record in batch.records])
        long = {record.seq: record.body for record, is_in in zip(batch.records, inside, strict=True) if not is_in}
        put = self._parts.put(key, long, attempt=new_attempt()) if long else {}
        return [put.get(record.seq, record.body) for record in batch.records], bool(put)

    def _put_elsewhere(self, found: Session, batch: Batch) -> Elsewhere:
        bodies, is_elsewhere = self.put_bodies(found.key, batch)
        if batch.chunks:
            self._chunks.put(found.family_key, batch.chunks)
        return Elsewhere(found.fence, bodies, is_elsewhere or bool(batch.chunks))

    def _try(self, found: Session | None, commit: Commit) -> int | None:
        """Changes the document, if it is as it must be. None: it is not."""
        bodies = (
            [record.body for record in commit.batch.records] if commit.elsewhere is None else commit.elsewhere.bodies
        )
        one = entry(commit.batch, bodies, attempt=commit.attempt, end=commit.end)
        moved = self._moved(found, commit)
        commit.reach()
        when, change = _condition(found, commit, moved), _change(commit, one, moved)
        commit.is_tried = True
        done = self._link.sessions.find_one_and_update(
            when, change, projection={"sent": 1}, return_document=ReturnDocument.AFTER
        )
        return None if done is None else int(done["sent"])

    def _moved(self, found: Session | None, commit: Commit) -> Moved | None:
        if found is None:
            return None
        if commit.alone:
            return move_all(self._link, found)
        return move(self._link, found) if found.doc["size"] >= TAIL_BYTES else None


def _is_plain(commit: Commit) -> bool:
    """Whether all of it has its place in the session's document, so that one need not look before."""
    batch = commit.batch
    is_short = all(kept_inside([record.body for record in batch.records]))
    return is_short and not (batch.chunks or batch.taken or commit.alone)


def _condition(found: Session | None, commit: Commit, moved: Moved | None) -> Doc:
    when: Doc = {"_id": key_of(commit.session)}
    if not commit.batch.records:
        when["last"] = {"$ne": commit.attempt}  # with records the head has moved, if it was written
    if moved is None:
        when["size"] = {"$lt": TAIL_BYTES}
    elif found is not None:
        when["n"] = found.doc["n"]
    if commit.batch.taken and found is not None:
        when["takes"] = found.doc["takes"]  # so what was in the inbox then is there still
    if commit.elsewhere is not None and commit.elsewhere.is_fenced:
        when["fence"] = commit.elsewhere.fence
    return when | commit.when


def _change(commit: Commit, one: Doc, moved: Moved | None) -> Doc:
    batch = commit.batch
    fields: Doc = {"last": commit.attempt, "seq": Int64(commit.end), **commit.then, **ending(batch.records)}
    if batch.summary:
        fields["summary"] = batch.summary
    change: Doc = {"$set": fields, "$inc": {"n": Int64(1)}}
    if moved is None:
        change["$push"] = {"tail": one}
        change["$inc"]["size"] = size_of(one)
    else:
        fields |= moved.fields(one) | ({"size": CLOSED} if "over" in commit.then else {})
    if batch.taken:
        change["$pull"] = {"inbox": {"n": {"$in": [Int64(number) for number in batch.taken]}}}
        change["$inc"]["takes"] = Int64(1)
    stamps = dict(commit.stamps)
    if commit.listed:
        stamps["at"] = {"$type": "timestamp"}
        fields["tie"] = tie()
    return change | ({"$currentDate": stamps} if stamps else {})


def ending(records: tuple[Record, ...]) -> Doc:
    """The chain digest at the end of the log, if it moves."""
    return {"chain": records[-1].chain} if records else {}
