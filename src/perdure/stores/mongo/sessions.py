"""The one document of a session, which says all that counts of it; and what is refused by what it says.

Whatever stands elsewhere is there for a reader only if this document says so, so that one change of it is one
transaction. Only looks and judges; who writes is next door.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bson import Int64

from perdure import clock
from perdure.errors import DamageError
from perdure.log import GENESIS, Base
from perdure.stores import refusals
from perdure.stores.contract import Head, Lease
from perdure.stores.ids import check_session_id
from perdure.stores.mongo.layout import Doc, are_numbers, blob, family_key, key_of, text
from perdure.stores.mongo.link import Link

NOBODY: Final = b""
VISIBLE: Final[Doc] = {"hidden": None, "erased": None}
_HEAD: Final = dict.fromkeys(("id", "family", "seq", "chain", "epoch", "summary", "bases", "hidden", "erased"), 1)
_LEASE: Final = dict.fromkeys(("owner", "epoch", "counter", "hidden", "erased"), 1)
_ORDER: Final = {"at": 1, "tie": 1}


@dataclass(frozen=True, slots=True)
class Session:
    """A session as its document says it, at the moment of a look."""

    lease: Lease
    family: str
    doc: Doc

    @property
    def id(self) -> str:
        """The session's id."""
        return self.lease.session

    @property
    def key(self) -> bytes:
        """What its documents are found by."""
        return bytes(self.doc["_id"])

    @property
    def family_key(self) -> bytes:
        """What its family's documents are found by."""
        return bytes(self.doc["f"])

    @property
    def seq(self) -> int:
        """Where its log ends."""
        return int(self.doc["seq"])

    @property
    def start(self) -> int:
        """The last record that is not in its document any more."""
        return int(self.doc["start"])

    @property
    def seam(self) -> int:
        """The last record that it has from its base; 0 without one."""
        return int(self.doc["seam"])

    @property
    def sent(self) -> int:
        """The number of the newest item that was sent to it."""
        return int(self.doc["sent"])

    @property
    def tail(self) -> list[Doc]:
        """The entries of its newest commits."""
        return list(self.doc["tail"])

    @property
    def inbox(self) -> list[Doc]:
        """The items that nobody has taken."""
        return list(self.doc["inbox"])

    @property
    def over(self) -> Doc | None:
        """The amendment that is not carried over into what it changes yet."""
        return self.doc.get("over")

    @property
    def fence(self) -> bytes | None:
        """Moves when what others keep beside the document may be gone."""
        return self.doc.get("fence")

    @property
    def bases(self) -> tuple[Base, ...]:
        """The places that its log goes on from, the oldest first."""
        return bases_in(self.doc)


class Sessions:
    """The documents of a database."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._all = link.sessions

    def look(self, session: str) -> Session:
        """The session as it is now. Raises when there is none."""
        found = self.find(session)
        if found is None:
            raise refusals.unknown(session, url=self._link.url)
        return found

    def find(self, session: str) -> Session | None:
        """The same, None for one that never was. Raises for one that was erased."""
        doc = self._all.find_one({"_id": key_of(check_session_id(session))})
        if doc is None or doc.get("hidden") is not None:
            return None
        return session_in(session, doc)

    def head(self, session: str) -> Head:
        """Where its log ends, without its newest commits."""
        doc = self._all.find_one({"_id": key_of(check_session_id(session))}, _HEAD)
        return head_in(self._there(session, doc))

    def lease(self, session: str, *more: str) -> tuple[Lease, Doc]:
        """Its newest lease, and the document with these fields besides."""
        wanted = _LEASE | dict.fromkeys(more, 1)
        doc = self._there(session, self._all.find_one({"_id": key_of(check_session_id(session))}, wanted))
        return lease_in(session, doc), doc

    def heads(self, prefix: str) -> list[Head]:
        """The heads of those whose id begins so, the one written to last first."""
        if any("\ud800" <= character <= "\udfff" for character in prefix):
            return []
        ids = {"id": {"$gte": prefix, "$lt": prefix + "\U0010ffff"}} if prefix else {}
        found = list(self._all.find(VISIBLE | ids, _HEAD | _ORDER))
        found.sort(key=lambda doc: (doc["at"], doc["tie"]), reverse=True)
        return [head_in(doc) for doc in found]

    def documents(self, keys: Iterable[bytes], *fields: str) -> dict[bytes, Doc]:
        """These documents, or these fields of them, by their keys."""
        wanted = {"_id": {"$in": list(keys)}}
        return {bytes(doc["_id"]): doc for doc in self._all.find(wanted, dict.fromkeys(fields, 1) or None)}

    def kin(self, family: bytes) -> list[str]:
        """The ids of a family's sessions. Those that are about to be made will be made anew."""
        there = list(self._all.find({"f": family, "erased": None}, {"id": 1, "hidden": 1}))
        self.hold_up([doc for doc in there if doc.get("hidden") is not None])
        return [doc["id"] for doc in there if doc.get("hidden") is None]

    def forks(self, key: bytes) -> list[str]:
        """The ids of the sessions whose logs go on from this one's. As with `kin`."""
        there = list(self._all.find({"base": key, "erased": None}, {"id": 1, "hidden": 1}))
        self.hold_up([doc for doc in there if doc.get("hidden") is not None])
        return [doc["id"] for doc in there if doc.get("hidden") is None]

    def hold_up(self, hidden: list[Doc]) -> None:
        """Takes away what is not visible yet: its maker notices, and begins again by looking."""
        for doc in hidden:
            self._all.delete_one({"_id": doc["_id"], "hidden": doc["hidden"]})

    def _there(self, session: str, doc: Doc | None) -> Doc:
        if doc is None or doc.get("hidden") is not None:
            raise refusals.unknown(session, url=self._link.url)
        if doc.get("erased"):
            raise refusals.erased(session)
        return doc


# ------------------------------------------------------------------------------------------------------ what it says


def session_in(session: str, doc: Doc) -> Session:
    """The session that this document is of. Raises `DamageError`, and for one that was erased."""
    if doc.get("erased"):
        raise refusals.erased(session)
    numbers = (doc.get(name) for name in ("seq", "n", "moved", "start", "seam", "sent", "takes"))
    lists = (doc.get(name) for name in ("tail", "inbox", "bases"))
    if not (are_numbers(*numbers) and all(isinstance(one, list) for one in lists) and doc.get("id") == session):
        raise _damage(session)
    return Session(lease_in(session, doc), doc["family"], doc)


def lease_in(session: str, doc: Doc) -> Lease:
    """The newest lease that a document tells of."""
    if not are_numbers(doc.get("epoch"), doc.get("counter")):
        raise _damage(session)
    return Lease(session, int(doc["epoch"]), text(doc.get("owner")), int(doc["counter"]))


def head_in(doc: Doc) -> Head:
    """Where the log ends that a document tells of."""
    session, chain, summary = doc.get("id"), doc.get("chain"), doc.get("summary")
    is_whole = isinstance(doc.get("family"), str) and are_numbers(doc.get("seq"), doc.get("epoch"))
    if not (isinstance(session, str) and is_whole and isinstance(chain, bytes) and isinstance(summary, bytes)):
        raise _damage(str(session))
    bases = bases_in(doc)
    return Head(session, doc["family"], int(doc["seq"]), bytes(chain), int(doc["epoch"]), bytes(summary), bases)


def bases_in(doc: Doc) -> tuple[Base, ...]:
    """The places that a log goes on from."""
    try:
        return tuple(Base(one["id"], int(one["q"])) for one in doc["bases"])
    except (TypeError, KeyError) as error:
        raise _damage(str(doc.get("id"))) from error


def _damage(session: str) -> DamageError:
    return DamageError(f"{session}: its document is not what was written")


def new_document(lease: Lease, *, family: str, attempt: bytes) -> Doc:
    """That of an empty session, without what the server itself says of the time."""
    return {
        "id": lease.session,
        "family": family,
        "f": family_key(family),
        "made": attempt,
        **held_by(lease),
        **{name: Int64(0) for name in ("seq", "n", "moved", "start", "seam", "sent", "takes")},
        "size": 0,
        "chain": GENESIS,
        "summary": b"",
        "tail": [],
        "inbox": [],
        "bases": [],
        "tie": tie(),
    }


def held_by(lease: Lease) -> Doc:
    """The fields that say who holds it."""
    return {"owner": blob(lease.owner), "epoch": Int64(lease.epoch), "counter": Int64(lease.counter)}


def seen_as(lease: Lease, *, head: int) -> Doc:
    """The condition that lease and head are these."""
    return {**VISIBLE, **held_by(lease), "seq": Int64(head)}


def tie() -> Int64:
    """Orders what this process writes within one tick of the server's own counter, where that is a coarse one."""
    return Int64(int(clock.monotonic_s() * 1e9))


# ---------------------------------------------------------------------------------------------------- what is refused


def check_held(found: Session, *, epoch: int | None) -> None:
    """Raises unless it is held in this epoch, or without one by nobody."""
    if epoch is None and found.lease.owner:
        raise refusals.held_by(found.lease)
    if epoch is not None and (found.lease.epoch != epoch or not found.lease.owner):
        raise refusals.fenced(found.lease, epoch=epoch)


def check_head(found: Session, head: int) -> None:
    """Raises unless its log ends there."""
    if found.seq != head:
        raise refusals.conflict(found.id, head=found.seq, expected=head)


def check_seen(found: Session, seen: Lease, *, head: int) -> None:
    """Raises unless lease and head are these."""
    if found.lease != seen:
        raise refusals.held(found.lease)
    check_head(found, head)


def check_taken(found: Session, taken: Iterable[int]) -> None:
    """Raises unless these items are in its inbox."""
    there = {int(item["n"]) for item in found.inbox}
    for number in taken:
        if number not in there:
            raise refusals.taken(found.id, number=number)


def same_holder(newest: Lease, lease: Lease) -> bool:
    """Whether who holds the newest one is who holds this one."""
    return bool(lease.owner) and (newest.epoch, newest.owner) == (lease.epoch, lease.owner)
