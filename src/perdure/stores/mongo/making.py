"""How a session comes to be: its document is inserted as a whole, and it is there.

One that needs more than its document (a base, chunks, an envelope) is inserted *hidden*, so that whoever deletes,
amends or drops in its family at that moment knows that it is coming, and can hold it up: its maker then begins anew by
looking. It is there when its document is hidden no more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bson import Int64
from pymongo.errors import DuplicateKeyError

from perdure import faults
from perdure.errors import PerdureError
from perdure.log import Base
from perdure.stores import refusals
from perdure.stores.conditions import check_fork
from perdure.stores.contract import Batch, Lease
from perdure.stores.mongo.chunks import Chunks
from perdure.stores.mongo.commits import Commits, ending
from perdure.stores.mongo.envelopes import Envelopes
from perdure.stores.mongo.layout import CLOSED, Doc, entry, family_key, key_of, new_attempt, size_of
from perdure.stores.mongo.link import Link, PassingError
from perdure.stores.mongo.sessions import Session, Sessions, new_document

_STAMPS = {"at": {"$type": "timestamp"}, "held": True}


@dataclass(slots=True)
class Making:
    """A session that is being made."""

    lease: Lease
    batch: Batch = field(default_factory=lambda: Batch(()))
    family: str | None = None
    base: Base | None = None
    end: int = 0
    point: str = ""
    tried: set[bytes] = field(default_factory=set)
    is_reached: bool = False
    size: int = 0

    @property
    def needs_more(self) -> bool:
        """Whether it is more than its document."""
        return bool(self.base or self.batch.chunks or self.batch.envelope is not None)

    def reach(self) -> None:
        """Tells a listening test, once, that all is written and nothing is visible."""
        if self.point and not self.is_reached:
            self.is_reached = True
            faults.reach(self.point)


class Makers:
    """Makes sessions."""

    def __init__(self, link: Link, sessions: Sessions, commits: Commits, chunks: Chunks, envelopes: Envelopes) -> None:
        self._link, self._sessions, self._commits = link, sessions, commits
        self._chunks, self._envelopes = chunks, envelopes

    def make(self, making: Making) -> None:
        """Makes it; durable on return. Raises what `Store.create` and `Store.fork` do."""
        self._link.use(lambda: self._make(making))

    def _make(self, making: Making) -> None:
        base = None if making.base is None else self._base(making)
        attempt = new_attempt()
        doc = self._document(making, base, attempt)
        if not making.needs_more:
            making.reach()
        if not self._insert(making, doc, attempt) or not making.needs_more:
            return
        try:
            self._fill(making, attempt)
        except PerdureError:
            self._sessions.hold_up([{"_id": key_of(making.lease.session), "hidden": attempt}])
            raise
        making.reach()
        self._show(making, attempt)

    def _base(self, making: Making) -> Session:
        """The session that a fork goes on from, if it may."""
        session, base = making.lease.session, making.base or Base("", 0)
        there = self._link.sessions.find_one({"_id": key_of(session), "hidden": None}, {"made": 1, "erased": 1})
        if there is not None and there.get("made") not in making.tried:
            raise refusals.erased(session) if there.get("erased") else refusals.exists(session)
        found = self._sessions.look(base.session)
        making.end = check_fork(session, making.batch, base=base, own_from=found.seam + 1, head=found.seq)
        return found

    def _document(self, making: Making, base: Session | None, attempt: bytes) -> Doc:
        family = base.family if base is not None else making.family or making.lease.session
        doc = new_document(making.lease, family=family, attempt=attempt)
        batch = making.batch
        if base is not None and making.base is not None:
            bases = [*base.doc["bases"], {"id": making.base.session, "q": Int64(making.base.seq)}]
            seam = Int64(making.base.seq)
            doc |= {"base": base.key, "bases": bases, "seam": seam, "start": seam}
        if batch.records:
            bodies, _ = self._commits.put_bodies(key_of(making.lease.session), batch)
            one = entry(batch, bodies, attempt=attempt, end=making.end)
            doc |= {
                "tail": [one],
                "size": size_of(one),
                "n": Int64(1),
                "seq": Int64(making.end),
                "last": attempt,
            }
            doc |= {"summary": batch.summary, **ending(batch.records)}
        making.size = doc["size"]
        return doc | ({"hidden": attempt, "size": CLOSED} if making.needs_more else {})

    def _insert(self, making: Making, doc: Doc, attempt: bytes) -> bool:
        """Inserts the document. False: an earlier try has made the session."""
        here = {"_id": key_of(making.lease.session)}
        making.tried.add(attempt)
        change = {"$setOnInsert": doc, "$currentDate": _STAMPS}
        try:
            self._link.sessions.update_one({**here, "seq": {"$lt": 0}}, change, upsert=True)
        except DuplicateKeyError as error:
            there = self._link.sessions.find_one(here, {"made": 1, "hidden": 1, "erased": 1})
            if there is not None and there.get("hidden") is None:
                if bytes(there.get("made", b"")) in making.tried:
                    return False
                session = making.lease.session
                raise (refusals.erased if there.get("erased") else refusals.exists)(session) from error
            self._sessions.hold_up([] if there is None else [there])
            raise PassingError(f"{making.lease.session}: another one was about to make it") from error
        return True

    def _fill(self, making: Making, attempt: bytes) -> None:
        """Writes what is to be there before it is."""
        session, batch = making.lease.session, making.batch
        if making.base is not None:
            base = self._base(making)
            armed = {"f": base.family_key, "armed": True}
            self._link.sessions.update_many(armed, {"$set": {"fence": attempt}, "$unset": {"armed": 1}})
            family = self._base(making).family_key
        else:
            family = family_key(making.family or session)
        if batch.chunks:
            self._chunks.put(family, batch.chunks)
        if batch.envelope is not None:
            key = key_of(session)
            self._envelopes.put_first(family, batch.envelope, of=key, attempt=attempt, session=session)

    def _show(self, making: Making, attempt: bytes) -> None:
        hidden = {"_id": key_of(making.lease.session), "hidden": attempt, "fence": None}
        change = {"$unset": {"hidden": 1}, "$set": {"size": making.size}, "$currentDate": _STAMPS}
        if not self._link.sessions.update_one(hidden, change).matched_count:
            raise PassingError(f"{making.lease.session}: others change its family")
