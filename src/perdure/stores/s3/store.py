"""The contract on a bucket: what each operation makes of a session's head, which is put on condition of what was seen.

Durable when it returns: the put of the head is the commit, and what the head names was put before. Conditions are
judged on the head as this process knows it, which costs nothing; if that was not the newest, the put is refused, and
all is judged again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from perdure import faults
from perdure.errors import FencedError, ProcessForkedError, SessionErasedError, SessionError
from perdure.log import Base, Record
from perdure.stores import refusals
from perdure.stores.address import Address
from perdure.stores.conditions import check_batch, check_change, check_incarnation, check_opening, epoch_after
from perdure.stores.contract import Batch, Change, Head, Health, Held, Item, Lease, Point, Store, Watch
from perdure.stores.ids import check_session_id
from perdure.stores.s3 import judging, names
from perdure.stores.s3.bucket import Bucket
from perdure.stores.s3.cell import Cell, Seen
from perdure.stores.s3.families import Families
from perdure.stores.s3.family import Family, ValueCodec
from perdure.stores.s3.head import State
from perdure.stores.s3.heads import TOGETHER, Heads
from perdure.stores.s3.keeping import Keeping
from perdure.stores.s3.merging import Merging
from perdure.stores.s3.place import bucket_at, make_or_check
from perdure.stores.s3.reading import Reading
from perdure.stores.s3.sessions import Sessions
from perdure.stores.s3.shelf import Shelf
from perdure.stores.s3.trial import check_conditions
from perdure.stores.s3.writing import Changing
from perdure.stores.submitting import Submitting
from perdure.stores.watch import bells_of

BUSY_S: Final = 10.0
POLL_S: Final = 1.0
TIMEOUT_S: Final = 30.0


def open_url(place: Address, **options: Any) -> S3Store:
    """The store of "s3://bucket/prefix?endpoint=…"."""
    busy_s = options.pop("busy_s", place.option("busy_s", kind=float, default=BUSY_S))
    timeout_s = options.pop("timeout_s", place.option("timeout_s", kind=float, default=TIMEOUT_S))
    poll_s = options.pop("poll_s", place.option("poll_s", kind=float, default=POLL_S))
    bucket = bucket_at(place, busy_s=busy_s, timeout_s=timeout_s)
    return S3Store(bucket, busy_s=busy_s, poll_s=poll_s, **options)


class S3Store(Store):
    """Sessions under one prefix of a bucket, which is tried and marked if nothing is there. The bucket must be there.

    Any number of processes on any machines may have it open. `busy_s`: how long a server that fails is asked again
    before it is `StoreFailedError`. `poll_s`: how often, at the least, whoever waits for a session asks.
    """

    durable = True

    def __init__(self, bucket: Bucket, *, busy_s: float = BUSY_S, poll_s: float = POLL_S) -> None:
        self.url, self.bucket, self._poll_s = bucket.url, bucket, poll_s
        self._bells = bells_of(bucket.url)
        self._process, self._closed = os.getpid(), False
        make_or_check(bucket)
        self._heads = Heads(bucket, busy_s=busy_s)
        self._shelf = Shelf(bucket)
        self._families = Families(bucket, self._heads, busy_s=busy_s)
        self._sessions = Sessions(bucket, self._heads, self._families, self._shelf)
        self._reading = Reading(self._heads, self._shelf)
        self._merging = Merging(bucket, self._heads, self._shelf, self._families)
        self._keeping = Keeping(bucket, self._heads, self._families, self._reading)
        self._submitting = Submitting(url=self.url)
        self._incarnation = Cell(bucket, names.INCARNATION, codec=ValueCodec(), busy_s=busy_s)
        self._envelope = Cell(bucket, names.ENVELOPE, codec=ValueCodec(), busy_s=busy_s)

    # ---------------------------------------------------------------------------------------------- sessions

    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """See `Store.create`."""
        check_session_id(session)
        family = check_session_id(session if family is None else family)
        self._check()
        lease = Lease(session, self._epoch_after(epoch - 1), refusals.named(owner), 0)
        return self._sessions.make(lease, family=family).lease

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """See `Store.fork`. Its base is told of it first."""
        check_session_id(session)
        self._check()
        self._sessions.fork(session, batch, base=base, epoch=epoch)

    def delete(self, session: str) -> None:
        """See `Store.delete`. Of the id a digest stays, in the key of the tombstone."""
        self._check()
        self._sessions.delete(session)
        self._bells.ring(session)

    # ---------------------------------------------------------------------------------------------- leases

    def claim(self, session: str, *, owner: str, seen: Lease) -> Lease:
        """See `Store.claim`."""
        self._check()
        lease = Lease(session, self._epoch_after(seen.epoch), refusals.named(owner), 0)

        def work(state: State, _: int) -> State:
            if state.lease != seen:
                raise refusals.held(state.lease)
            return replace(state, lease=lease)

        claimed = self._heads.change(session, work).lease
        self._bells.ring(session)
        return claimed

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """See `Store.open`."""
        head = check_opening(check_session_id(session), batch, seen=seen)
        self._check()
        lease = Lease(session, self._epoch_after(seen.epoch if seen else 0), refusals.named(owner), 0)
        check_incarnation(session, batch, newest=lease.epoch)
        if seen is None:
            return Held(self._sessions.make(lease, family=session, batch=batch).lease)

        def judge(state: State) -> State:
            judging.as_seen(state, seen, head=head)
            return replace(state, lease=lease)

        state = self._written(session, batch, judge)
        return Held(lease, state.sent)

    def renew(self, lease: Lease) -> Lease:
        """See `Store.renew`. One put of the head."""
        self._check()

        def work(state: State, _: int) -> State:
            if not judging.is_holder(state, lease):
                raise refusals.fenced(state.lease, epoch=lease.epoch)
            return replace(state, lease=replace(state.lease, counter=state.lease.counter + 1))

        return self._heads.change(lease.session, work).lease

    def renew_all(self, leases: Iterable[Lease]) -> list[Lease]:
        """See `Store.renew_all`. Several at a time."""
        with ThreadPoolExecutor(TOGETHER, thread_name_prefix="perdure-s3-renew") as pool:
            return [lease for lease in pool.map(self._renewed, list(leases)) if lease is not None]

    def _renewed(self, lease: Lease) -> Lease | None:
        with suppress(FencedError, SessionError):
            return self.renew(lease)
        return None

    def release(self, lease: Lease) -> None:
        """See `Store.release`."""
        self._check()

        def work(state: State, _: int) -> State | None:
            if not judging.is_holder(state, lease) or not lease.owner:
                return None
            return replace(state, lease=replace(state.lease, owner="", counter=state.lease.counter + 1))

        if self._heads.is_over(lease):
            return
        with suppress(SessionError):
            self._heads.change(lease.session, work)
            self._bells.ring(lease.session)

    def lease(self, session: str) -> Lease:
        """See `Store.lease`."""
        return self._state(session).lease

    def still_s(self, lease: Lease) -> float | None:
        """See `Store.still_s`. Both ends are the server's: it is asked when the head was put, and what time it is."""
        put = self.bucket.modified(names.head(names.key_of(lease.session)))
        self.bucket.put(names.CLOCK, b"")
        now = self.bucket.modified(names.CLOCK)
        with suppress(SessionError):
            if put is not None and now is not None and self._state(lease.session).lease == lease:
                return max(0.0, (now - put).total_seconds() - 1.0)  # both are cut to whole seconds
        return None

    # ---------------------------------------------------------------------------------------------- the log

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """See `Store.append`. One put, and now and then one more."""
        check_batch(session, batch, head=head)
        self._check()

        def judge(state: State) -> State:
            judging.held(state, epoch=epoch)
            check_incarnation(session, batch, newest=state.lease.epoch)
            judging.at(state, head)
            return state

        return self._written(session, batch, judge).sent

    def submit(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Future[int]:
        """See `Store.submit`. Sessions are written side by side."""
        check_batch(session, batch, head=head)
        self._check()
        return self._submitting.submit(session, lambda: self.append(session, batch, epoch=epoch, head=head))

    def _written(self, session: str, batch: Batch, judge: Callable[[State], State]) -> State:
        def made(state: State, number: int, changing: Changing) -> State:
            state = judge(state)
            judging.takes(state, batch.taken)
            after = changing.written(state, batch, change=number, tick=self._heads.tick(state))
            faults.reach("append.inside")
            return after

        return self._changed(session, made, family=bool(batch.chunks))

    def _changed(
        self, session: str, made: Callable[[State, int, Changing], State | None], *, family: bool = False
    ) -> State:
        """One change with what it puts beside the head; `family`: chunks may be among that."""
        changing = Changing(names.key_of(session), shelf=self._shelf, families=self._families)
        try:
            state = self._heads.change(session, lambda state, number: made(state, number, changing))
        except BaseException as error:
            changing.given_up(error)
            if family and isinstance(error, SessionErasedError):
                self._sessions.finish(session)  # chunks may have come to a family that is no more
            raise
        self._bells.ring(session)
        changing.done(state)
        self._merging.later(state)
        return state

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        """See `Store.send`. One put, of a head that this process knows."""
        self._check()
        number: int | None = None

        def made(state: State, change: int, changing: Changing) -> State | None:
            nonlocal number
            number = None if mark is not None and self._reading.was_sent(state, mark) else state.sent + 1
            return None if number is None else changing.sent(state, content, mark=mark, change=change)

        self._changed(session, made)
        return number

    def inbox(self, session: str, *, after: int = 0) -> list[Item]:
        """See `Store.inbox`."""
        state = self._state(session)
        wanted = [item for item in state.items if item.number > after]
        return self._heads.together(lambda item: self._shelf.item(state, item), wanted)

    def watch(self, session: str) -> Watch:
        """See `Store.watch`. Others of this process are told at once; those elsewhere every `poll_s` at the latest."""
        return self._bells.watch(session, polled=True, pause_s_max=self._poll_s)

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """See `Store.read`."""
        self._check()
        return self._reading.records(session, after=after, upto=upto)

    def read_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """See `Store.read_at`."""
        self._check()
        return self._reading.at(session, seqs)

    def head(self, session: str) -> Head:
        """See `Store.head`."""
        return self._state(session).head

    def heads(self, *, prefix: str = "") -> list[Head]:
        """See `Store.heads`. One listing per 1,000 sessions, and a small request for each."""
        self._check()
        return self._heads.listed(prefix)

    def points(self, session: str) -> list[Point]:
        """See `Store.points`."""
        self._check()
        return self._reading.points(session)

    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """See `Store.keyframes`."""
        self._check()
        return self._reading.keyframes(session)

    def find(self, session: str, mark: bytes) -> list[int]:
        """See `Store.find`."""
        self._check()
        return sorted({seq for found, seq in self._reading.marks(session) if found == mark})

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """See `Store.marks`."""
        self._check()
        return self._reading.marks(session)

    # ---------------------------------------------------------------------------------------------- chunks

    def put_chunks(self, session: str, chunks: Mapping[bytes, bytes], *, epoch: int | None) -> None:
        """See `Store.put_chunks`. An object for each; again, if they were swept meanwhile."""
        state = self._state(session)
        judging.held(state, epoch=epoch)
        while True:
            self._families.put_chunks(names.key_of(state.family), state.generation, chunks)
            try:
                newest = self._state(session)
            except SessionErasedError:
                self._sessions.finish(session)  # these go, too
                raise
            judging.held(newest, epoch=epoch)
            if newest.generation == state.generation:
                return
            state = newest

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `Store.chunks`."""
        return self._families.chunks(self._state(session), digests)

    def chunk_sizes(self, session: str) -> dict[bytes, int]:
        """See `Store.chunk_sizes`. A listing."""
        key = names.key_of(self._state(session).family)
        return {digest: size for (_, digest), size in sorted(self._families.generations(key).items())}

    # ---------------------------------------------------------------------------------------------- keeping house

    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> None:
        """See `Store.amend`. Parts with something that changes are put anew, and the old ones removed."""
        check_batch(session, batch, head=head)
        check_change(session, change, head=head)
        self._check()

        def made(state: State, number: int, changing: Changing) -> State:
            judging.as_seen(state, seen, head=head)
            after = self._keeping.amended(state, batch, change, family=set(family), number=number, changing=changing)
            faults.reach("amend.inside")
            return after

        self._changed(session, made, family=True)

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """See `Store.drop_chunks`."""
        self._check()
        self._keeping.drop_chunks(set(digests), seen=seen)

    def envelope(self, session: str | None = None) -> bytes | None:
        """See `Store.envelope`."""
        self._check()
        if session is None:
            found = self._envelope.look().value
            return found if isinstance(found, bytes) else None
        return self._families.look(names.key_of(self._state(session).family)).envelope

    def put_envelope(self, session: str | None, new: bytes, *, seen: bytes | None) -> None:
        """See `Store.put_envelope`."""
        self._check()
        if session is None:
            self._envelope.change(lambda now: _envelope(self.url, now.value, new, seen))
            return
        key = names.key_of(self._state(session).family)

        def work(now: Seen[Family]) -> Family:
            known = now.value or Family((key,))
            _envelope(session, known.envelope, new, seen)
            return replace(known, envelope=new)

        self._families.cell(key).change(work)

    def incarnation(self) -> int:
        """See `Store.incarnation`."""
        self._check()
        return _number(self._incarnation.look().value)

    def begin_incarnation(self, number: int) -> None:
        """See `Store.begin_incarnation`."""
        self._check()
        self._incarnation.change(lambda now: number if number > _number(now.value) else None)

    def _epoch_after(self, seen: int) -> int:
        return epoch_after(seen, incarnation=self.incarnation())

    def give_back(self, *, bytes_max: int) -> int:
        """See `Store.give_back`. What changes that were killed have left over; and parts are merged."""
        self._check()
        return self._merging.give_back(bytes_max=bytes_max)

    def purge(self, session: str) -> None:
        """See `Store.purge`. An amendment has put anew what it changed; this does so with replaced names of points.

        And it removes what a crash has left over.
        """
        self._check()
        self._changed(session, lambda state, number, changing: changing.tidied(state, change=number))
        self._merging.clean(session)

    def health(self, *, deep: bool) -> Health:
        """See `Store.health`. `deep` tries the server's conditions, and lists all."""
        self._check()
        problems = []
        if self.bucket.keeps_versions(names.CLOCK):
            problems.append("the bucket keeps old versions: what is erased or replaced stays in them; switch that off")
        if not deep:
            return Health(tuple(problems))
        check_conditions(self.bucket)
        return Health(tuple(problems), used=sum(found.size for found in self.bucket.list("")))

    def close(self) -> None:
        """See `Store.close`."""
        if self._closed or os.getpid() != self._process:
            self._closed = True
            return
        self._submitting.end()
        self._closed = True
        self._merging.close()
        self._heads.close()

    def _state(self, session: str) -> State:
        self._check()
        return self._heads.of(session)

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise ProcessForkedError(f"{self.url}: was opened before os.fork(); open it in a process that was spawned")
        if self._closed:
            raise refusals.closed(self.url)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _envelope(what: str, there: object, new: bytes, seen: bytes | None) -> bytes:
    """The new envelope, if it is to replace what is there."""
    if there != seen:
        raise refusals.other_envelope(what)
    faults.reach("envelope.inside")
    return new
