"""The inbox: the items that nobody has taken stand in the session's document, so a commit takes them with one change.

What is long of an item stands elsewhere. A mark that was sent once is remembered elsewhere before its item is taken,
and who sends does it on condition that nothing was taken since it looked there: so a mark is sent once, for ever.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from pymongo import ReturnDocument

from perdure.errors import DamageError, LimitError
from perdure.stores.contract import Item
from perdure.stores.mongo.layout import Doc, Outside, are_numbers, body_in, kept_inside, new_attempt, stored_body
from perdure.stores.mongo.link import Link
from perdure.stores.mongo.parts import Parts, insert_all
from perdure.stores.mongo.sessions import VISIBLE, Session, Sessions

COUNT_MAX: Final = 10_000
"""Items that may wait in one inbox: all of them stand in one document, which every save changes."""

INLINE_BYTES: Final = 512
_NUMBER: Final = 0
"""Of the one body that an item has."""


@dataclass(slots=True)
class Sending:
    """An item that is being sent."""

    content: bytes
    mark: bytes | None
    attempt: bytes = field(default_factory=new_attempt)
    unknown: int | None = None
    """How many times something had been taken when it was tried last, unless that is known to have failed."""


class Inbox:
    """The items of all sessions."""

    def __init__(self, link: Link, sessions: Sessions, parts: Parts) -> None:
        self._link, self._sessions, self._parts = link, sessions, parts

    def send(self, session: str, content: bytes, *, mark: bytes | None) -> int | None:
        """See `Store.send`."""
        sending = Sending(content, mark)
        return self._link.use(lambda: self._send(session, sending))

    def items(self, session: str, *, after: int) -> list[Item]:
        """See `Store.inbox`."""
        found = self._sessions.look(session)
        there = [item for item in found.inbox if _number(found, item) > after]
        return [Item(int(item["n"]), self._content(found, item)) for item in there]

    def remember(self, found: Session, taken: Collection[int]) -> None:
        """Keeps the marks of items that are about to be taken; durable on return."""
        marked = [item for item in found.inbox if item["n"] in taken and "m" in item]
        docs = [{**_mark_id(found, item["m"]), "s": found.key, "a": item["a"], "n": item["n"]} for item in marked]
        insert_all(self._link.sent, docs)

    def forget(self, found: Session | None, taken: Collection[int]) -> None:
        """Removes what stands elsewhere of items that were taken. What a crash leaves of it, `purge` finds."""
        for item in found.inbox if found is not None else ():
            if item["n"] in taken and isinstance(item["c"], dict):
                self._parts.drop_body(found.key, body_in(item["c"], of="item"), _NUMBER)  # type: ignore[union-attr]

    def _send(self, session: str, sending: Sending) -> int | None:
        patience = self._link.patience()
        while True:
            found = self._sessions.look(session)
            if (mine := self._mine(found, sending)) is not None:
                return mine
            if sending.mark is not None and self._was_sent(found, sending.mark):
                return None
            if len(found.inbox) >= COUNT_MAX:
                raise LimitError(
                    f"{session}: {COUNT_MAX:,} items wait in its inbox, more it does not take; nothing was sent"
                )
            sent = self._push(found, sending)
            if sent is not None:
                return sent
            patience.wait(f"{session}: others write to it all the time")

    def _mine(self, found: Session, sending: Sending) -> int | None:
        """The number of the item, if an earlier try was done."""
        if sending.unknown is None:
            return None
        for item in found.inbox:
            if item["a"] == sending.attempt:
                return int(item["n"])
        if sending.mark is not None:
            there = self._link.sent.find_one(_mark_id(found, sending.mark))
            if there is not None and there["a"] == sending.attempt:
                return int(there["n"])
        elif sending.unknown != found.doc["takes"]:
            raise self._link.failed(f"{found.id}: whether the item was sent, and taken by now, cannot be told")
        return None

    def _was_sent(self, found: Session, mark: bytes) -> bool:
        if any(item.get("m") == mark for item in found.inbox):
            return True
        return self._link.sent.find_one(_mark_id(found, mark), {"_id": 1}) is not None

    def _push(self, found: Session, sending: Sending) -> int | None:
        """Puts the item behind the others, if nothing was taken and nobody sent its mark since the look."""
        when = {
            "_id": found.key,
            **VISIBLE,
            "takes": found.doc["takes"],
            "inbox.a": {"$ne": sending.attempt},
        }
        item: Doc = {"n": {"$add": ["$sent", 1]}, "a": {"$literal": sending.attempt}}
        if sending.mark is not None:
            when["inbox.m"] = {"$ne": sending.mark}
            item["m"] = {"$literal": sending.mark}
        if kept_inside([sending.content], inline=INLINE_BYTES)[0]:
            content: Any = sending.content
        else:
            put = self._parts.put(found.key, {_NUMBER: sending.content}, attempt=new_attempt())
            content, when["fence"] = stored_body(put[_NUMBER]), found.fence
        item["c"] = {"$literal": content}
        sending.unknown = int(found.doc["takes"])
        done = self._link.sessions.find_one_and_update(
            when,
            [{"$set": {"sent": {"$add": ["$sent", 1]}, "inbox": {"$concatArrays": ["$inbox", [item]]}}}],
            projection={"sent": 1},
            return_document=ReturnDocument.AFTER,
        )
        sending.unknown = None
        return None if done is None else int(done["sent"])

    def _content(self, found: Session, item: Doc) -> bytes:
        of = f"{found.id}: item {item['n']} of the inbox"
        return self._parts.get(found.key, body_in(item.get("c"), of=of), _NUMBER, of=of)


def attempts_of(found: Session) -> set[bytes]:
    """Who wrote what stands elsewhere of the items that wait."""
    bodies = [body_in(item.get("c"), of=f"{found.id}: an item of the inbox") for item in found.inbox]
    return {body.attempt for body in bodies if isinstance(body, Outside)}


def _number(found: Session, item: Any) -> int:
    if not isinstance(item, dict) or not are_numbers(item.get("n")):
        raise DamageError(f"{found.id}: an item of the inbox is not what was sent")
    return int(item["n"])


def _mark_id(found: Session, mark: bytes) -> Doc:
    return {"_id": sha256(found.key + mark).digest()}
