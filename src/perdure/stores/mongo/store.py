"""The contract on MongoDB: each operation is one change of one session's document, which says all that counts.

So it needs no transaction of several documents, and a server without them keeps the same promises. What the documents
are, and how each kind of change is made, is next door.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from bson import Int64
from pymongo import ReturnDocument, UpdateOne

from perdure.errors import StoreUrlError
from perdure.log import Base, Record
from perdure.stores import refusals
from perdure.stores.address import Address
from perdure.stores.conditions import (
    INCARNATION_BITS,
    check_batch,
    check_change,
    check_incarnation,
    check_opening,
    epoch_after,
    incarnation_of,
)
from perdure.stores.contract import Batch, Change, Head, Health, Held, Item, Lease, Point, Store
from perdure.stores.ids import check_session_id
from perdure.stores.mongo.amendments import Amendments
from perdure.stores.mongo.chunks import Chunks
from perdure.stores.mongo.commits import Commit, Commits
from perdure.stores.mongo.envelopes import Envelopes, new_mark
from perdure.stores.mongo.inbox import Inbox
from perdure.stores.mongo.keeping import Keeping
from perdure.stores.mongo.layout import Doc, blob, key_of, new_attempt
from perdure.stores.mongo.link import Link
from perdure.stores.mongo.making import Makers, Making
from perdure.stores.mongo.parts import Parts
from perdure.stores.mongo.place import Database
from perdure.stores.mongo.reading import Reading
from perdure.stores.mongo.sessions import (
    NOBODY,
    VISIBLE,
    Session,
    Sessions,
    check_head,
    check_held,
    check_seen,
    held_by,
    seen_as,
)
from perdure.stores.mongo.stream import Stream
from perdure.stores.submitting import Submitting
from perdure.stores.watch import Watch

_RENEWED_AT_ONCE = 500


def open_url(address: Address, **options: Any) -> MongoStore:
    """The store of "mongodb://..." and "mongodb+srv://..."."""
    options = {"busy_s": address.option("busy_s", kind=float, default=10.0), **options}
    return MongoStore(address, **options)


class MongoStore(Store):
    """Sessions in a database of a MongoDB server, which is made if it is not there.

    Any number of processes of any number of machines may have it open. Every write waits until most of the replica set
    have it on their disks. When the place does not answer, an operation waits for it up to `busy_s` seconds.
    """

    durable = True

    def __init__(self, address: Address, *, busy_s: float = 10.0) -> None:
        if not address.path:
            raise StoreUrlError(f"{address.shown}: names no database, as in mongodb://host/agents")
        self.url = address.shown
        self._link = link = Link(address, busy_s=busy_s)
        self._sessions = Sessions(link)
        self._parts = Parts(link)
        self._chunks = Chunks(link, self._parts)
        self._envelopes = Envelopes(link, self._sessions)
        self._commits = Commits(link, self._sessions, self._parts, self._chunks)
        self._makers = Makers(link, self._sessions, self._commits, self._chunks, self._envelopes)
        self._keeping = Keeping(
            link,
            self._sessions,
            parts=self._parts,
            chunks=self._chunks,
            commits=self._commits,
            envelopes=self._envelopes,
        )
        self._amendments = Amendments(link, self._sessions, self._parts, self._chunks)
        self._reading = Reading(link, self._sessions, self._parts, self._amendments)
        self._inbox = Inbox(link, self._sessions, self._parts)
        self._place = Database(link)
        self._submitting, self._stream = Submitting(url=self.url), Stream(link)
        try:
            self._place.prepare()
        except BaseException:
            self.close()
            raise

    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """See `Store.create`."""
        check_session_id(session)
        family = check_session_id(session if family is None else family)
        began = epoch_after(epoch - 1, incarnation=self.incarnation())
        lease = Lease(session, began, refusals.named(owner), 0)
        self._makers.make(Making(lease, family=family))
        return lease

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """See `Store.fork`."""
        check_session_id(session)
        self._makers.make(Making(Lease(session, epoch, "", 0), batch, base=base, point="fork.inside"))

    def claim(self, session: str, *, owner: str, seen: Lease) -> Lease:
        """See `Store.claim`."""
        lease = Lease(session, self._next_epoch(seen), refusals.named(owner), 0)
        mark = new_attempt()
        self._link.use(lambda: self._claim(seen, lease, mark))
        return lease

    def _claim(self, seen: Lease, lease: Lease, mark: bytes) -> None:
        here = {"_id": key_of(check_session_id(seen.session))}
        taken = {**held_by(lease), "took": mark}
        change = {"$set": taken, "$currentDate": {"held": True}}
        if not self._link.sessions.update_one({**here, **VISIBLE, **held_by(seen)}, change).matched_count:
            newest, doc = self._sessions.lease(seen.session, "took")
            if (newest, doc.get("took")) != (lease, mark):
                raise refusals.held(newest)

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """See `Store.open`."""
        head = check_opening(check_session_id(session), batch, seen=seen)
        lease = Lease(session, self._next_epoch(seen), refusals.named(owner), 0)
        check_incarnation(session, batch, newest=lease.epoch)
        end = batch.records[-1].seq
        if seen is None:
            self._makers.make(Making(lease, batch, end=end, point="append.inside"))
            return Held(lease)
        then = {**held_by(lease), "took": new_attempt()}
        commit = Commit(
            session,
            batch,
            end,
            judge=lambda found: check_seen(found, seen, head=head),
            when=seen_as(seen, head=head),
            then=then,
            stamps={"held": True},
        )
        return Held(lease, self._commits.write(commit))

    def renew(self, lease: Lease) -> Lease:
        """See `Store.renew`."""
        return self._link.use(lambda: self._renew(lease))

    def _renew(self, lease: Lease) -> Lease:
        check_session_id(lease.session)
        done = self._link.sessions.find_one_and_update(
            _holder(lease),
            {"$inc": {"counter": Int64(1)}, "$currentDate": {"held": True}},
            projection={"counter": 1},
            return_document=ReturnDocument.AFTER,
        )
        if done is None or not lease.owner:
            raise refusals.fenced(self._sessions.lease(lease.session)[0], epoch=lease.epoch)
        return Lease(lease.session, lease.epoch, lease.owner, int(done["counter"]))

    def renew_all(self, leases: Iterable[Lease]) -> list[Lease]:
        """See `Store.renew_all`. Many in one round trip."""
        wanted = [lease for lease in leases if lease.owner]
        renewed = []
        for first in range(0, len(wanted), _RENEWED_AT_ONCE):
            some = wanted[first : first + _RENEWED_AT_ONCE]
            renewed += self._link.use(lambda some=some: self._renew_some(some))  # type: ignore[misc]
        return renewed

    def _renew_some(self, leases: list[Lease]) -> list[Lease]:
        change = {"$inc": {"counter": Int64(1)}, "$currentDate": {"held": True}}
        self._link.sessions.bulk_write([UpdateOne(_holder(lease), change) for lease in leases], ordered=False)
        there = self._sessions.documents((key_of(lease.session) for lease in leases), "owner", "epoch", "counter")
        newest = [(lease, there.get(key_of(lease.session), {})) for lease in leases]
        return [
            Lease(lease.session, lease.epoch, lease.owner, int(doc["counter"]))
            for lease, doc in newest
            if (doc.get("epoch"), doc.get("owner")) == (lease.epoch, blob(lease.owner))
        ]

    def release(self, lease: Lease) -> None:
        """See `Store.release`."""
        change: Doc = {"$set": {"owner": NOBODY}, "$inc": {"counter": Int64(1)}, "$currentDate": {"held": True}}
        self._link.use(lambda: lease.owner and self._link.sessions.update_one(_holder(lease), change))

    def lease(self, session: str) -> Lease:
        """See `Store.lease`."""
        return self._link.use(lambda: self._sessions.lease(session)[0])

    def still_s(self, lease: Lease) -> float | None:
        """See `Store.still_s`."""
        return self._link.use(lambda: self._still_s(lease))

    def _still_s(self, lease: Lease) -> float | None:
        now_ms = self._place.now_ms()  # before the look: rather too young than too old
        key, fields = key_of(lease.session), ("owner", "epoch", "counter", "held", "hidden")
        found = self._sessions.documents([key], *fields).get(key, {})
        if "held" not in found or found.get("hidden") is not None or not _is(found, lease):
            return None
        still_s: float = now_ms / 1000 - found["held"].timestamp()
        return max(0.0, still_s)

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """See `Store.append`."""
        return self._commits.write(self._appending(session, batch, epoch=epoch, head=head))

    def submit(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Future[int]:
        """See `Store.submit`."""
        commit = self._appending(session, batch, epoch=epoch, head=head)
        self._link.check()
        return self._submitting.submit(session, lambda: self._commits.write(commit))

    def _appending(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Commit:
        end = check_batch(session, batch, head=head)

        def judge(found: Session) -> None:
            check_held(found, epoch=epoch)
            check_incarnation(session, batch, newest=found.lease.epoch)
            check_head(found, head)

        return Commit(check_session_id(session), batch, end, judge=judge, when=_writable(batch, epoch=epoch, head=head))

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        """See `Store.send`."""
        return self._inbox.send(session, content, mark=mark)

    def inbox(self, session: str, *, after: int = 0) -> list[Item]:
        """See `Store.inbox`."""
        return self._link.use(lambda: self._inbox.items(session, after=after))

    def watch(self, session: str) -> Watch:
        """See `Store.watch`."""
        self._link.check()
        return self._stream.watch(session)

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """See `Store.read`."""
        segments = self._link.use(lambda: self._reading.segments(session))
        end = segments[-1].found.seq
        pages = self._reading.pages(segments, after=max(after, 0), upto=end if upto is None else min(upto, end))
        return (self._reading.whole(segment, row) for page in pages for segment, row in page)

    def read_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """See `Store.read_at`."""
        wanted = list(seqs)
        return self._link.use(lambda: self._reading.records_at(session, wanted))

    def head(self, session: str) -> Head:
        """See `Store.head`."""
        return self._link.use(lambda: self._sessions.head(session))

    def heads(self, *, prefix: str = "") -> list[Head]:
        """See `Store.heads`."""
        return self._link.use(lambda: self._sessions.heads(prefix))

    def points(self, session: str) -> list[Point]:
        """See `Store.points`."""
        return self._link.use(lambda: self._reading.points(session))

    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """See `Store.keyframes`."""
        return self._link.use(lambda: self._reading.keyframes(session))

    def find(self, session: str, mark: bytes) -> list[int]:
        """See `Store.find`."""
        found = self._link.use(lambda: self._reading.marks(session, mark))
        return sorted({seq for _, seq in found})

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """See `Store.marks`."""
        return self._link.use(lambda: self._reading.marks(session))

    def put_chunks(self, session: str, chunks: Mapping[bytes, bytes], *, epoch: int | None) -> None:
        """See `Store.put_chunks`."""

        def put() -> None:
            found = self._sessions.look(session)
            check_held(found, epoch=epoch)
            self._chunks.put(found.family_key, chunks)

        self._link.use(put)

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `Store.chunks`."""
        wanted = list(digests)
        return self._link.use(lambda: self._kept(session, wanted))

    def _kept(self, session: str, wanted: list[bytes]) -> dict[bytes, bytes]:
        family = self._sessions.look(session).family_key
        kept = self._chunks.get(family, wanted)
        if any(digest not in kept for digest in wanted):
            self._amendments.carry_over_all(family)
            kept = self._chunks.get(family, wanted)
        for digest in wanted:
            if digest not in kept:
                raise refusals.missing_chunk(session, digest=digest)
        return {digest: kept[digest] for digest in wanted}

    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> None:
        """See `Store.amend`."""
        end = check_batch(session, batch, head=head)
        check_change(session, change, head=head)
        self._keeping.amend(batch, change, seen=seen, head=head, end=end, family=family)

    def chunk_sizes(self, session: str) -> dict[bytes, int]:
        """See `Store.chunk_sizes`."""
        return self._link.use(lambda: self._sizes(session))

    def _sizes(self, session: str) -> dict[bytes, int]:
        family = self._sessions.look(session).family_key
        self._amendments.carry_over_all(family)
        return self._chunks.sizes(family)

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """See `Store.drop_chunks`."""
        self._keeping.drop_chunks(digests, seen=seen)

    def envelope(self, session: str | None = None) -> bytes | None:
        """See `Store.envelope`."""
        if session is None:
            return self._link.use(self._envelopes.of_store)
        return self._link.use(lambda: self._envelopes.of(self._sessions.look(session).family_key))

    def put_envelope(self, session: str | None, new: bytes, *, seen: bytes | None) -> None:
        """See `Store.put_envelope`."""
        mark = new_mark()

        def put() -> bool:
            if session is None:
                return self._envelopes.put_of_store(new, seen=seen, mark=mark)
            return self._envelopes.put(self._sessions.look(session), new, seen=seen, mark=mark)

        if not self._link.use(put):
            raise refusals.other_envelope(session or self.url)

    def incarnation(self) -> int:
        """See `Store.incarnation`."""
        return self._link.use(self._place.incarnation)

    def begin_incarnation(self, number: int) -> None:
        """See `Store.begin_incarnation`."""
        self._link.use(lambda: self._place.begin_incarnation(number))

    def give_back(self, *, bytes_max: int) -> int:
        """See `Store.give_back`."""
        del bytes_max
        return self._link.use(self._place.give_back)

    def purge(self, session: str) -> None:
        """See `Store.purge`."""
        self._keeping.purge(session)

    def health(self, *, deep: bool) -> Health:
        """See `Store.health`."""
        return self._link.use(lambda: self._place.health(deep=deep))

    def delete(self, session: str) -> None:
        """See `Store.delete`."""
        self._keeping.delete(session)

    def close(self) -> None:
        """See `Store.close`."""
        self._submitting.end()
        self._stream.end()
        self._link.close()

    def _next_epoch(self, seen: Lease | None) -> int:
        return epoch_after(seen.epoch if seen else 0, incarnation=self.incarnation())


def _holder(lease: Lease) -> Doc:
    """The condition that whoever holds this lease holds it still."""
    return {
        "_id": key_of(lease.session),
        **VISIBLE,
        "epoch": Int64(lease.epoch),
        "owner": blob(lease.owner) if lease.owner else {"$in": []},
    }


def _writable(batch: Batch, *, epoch: int | None, head: int) -> Doc:
    """The condition that who writes in this epoch, or without one, may append here."""
    when: Doc = {"owner": NOBODY if epoch is None else {"$ne": NOBODY}, "seq": Int64(head)}
    epochs: Doc = {} if epoch is None else {"$eq": Int64(epoch)}
    if batch.records:
        epochs["$lt"] = Int64((incarnation_of(batch.records[0].epoch) + 1) << INCARNATION_BITS)
    return {**when, "epoch": epochs} if epochs else when


def _is(doc: Doc, lease: Lease) -> bool:
    return (doc.get("owner"), doc.get("epoch"), doc.get("counter")) == (
        blob(lease.owner),
        lease.epoch,
        lease.counter,
    )
