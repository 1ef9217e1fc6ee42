"""The contract on a Redis server: which script does an operation, with which arguments, and what its answer means.

Durable when it returns as far as the server is: see `docs/stores.md`. Connections and scripts are next door.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from redis.exceptions import ResponseError

from perdure import clock, faults
from perdure.errors import FormatNewerError, SessionUnknownError, StoreFailedError, StoreUrlError
from perdure.log import GENESIS, Base
from perdure.stores import refusals
from perdure.stores.address import Address
from perdure.stores.conditions import (
    check_batch,
    check_change,
    check_first,
    check_incarnation,
    check_opening,
    epoch_after,
)
from perdure.stores.contract import Batch, Change, Health, Held, Lease, Watch
from perdure.stores.redis import rows, scrub
from perdure.stores.redis.commit import Writers
from perdure.stores.redis.copies import RedisCopies, lease_words
from perdure.stores.redis.failures import meaning
from perdure.stores.redis.health import health
from perdure.stores.redis.link import Link
from perdure.stores.redis.listener import Listener
from perdure.stores.redis.scripts import Call, Word
from perdure.stores.redis.settings import VERSION_MIN
from perdure.stores.redis.target import Target
from perdure.stores.redis.verdicts import Asked, IncarnationOverError
from perdure.stores.tails import Tails

T = TypeVar("T")

_log = logging.getLogger("perdure.store")

_RENEWED_AT_ONCE: Final = 50
"""Leases that are renewed in one run of a script: so many hold the server up about as long as a save."""

_RECEIPT_S_MIN: Final = 60.0
"""For so long it is known what an operation came to, if its answer was lost."""

_PUT_BYTES: Final = 4 << 20
_LAYOUT: Final = b"1"


def open_url(place: Address, **options: Any) -> RedisStore:
    """The store of "redis://..." and "rediss://..."."""
    return RedisStore(Target.of(place, options))


class RedisStore(RedisCopies):
    """Sessions under the prefix of the target, on its server. Any number of processes and machines may use it.

    Operations that are under way together share a pipeline. Raises `StoreUrlError` for a server older than Redis 7, and
    for an option that it cannot keep; `FormatNewerError`.
    """

    forgets = True

    def __init__(self, target: Target) -> None:
        link = Link(target)
        super().__init__(link)
        self._group = Writers(link)
        self._tails = Tails()
        self._listener = Listener(connect=target.connection, channel=self._channel)
        self._newest = 0
        self._identity = b""
        self._receipt_ms = b"%d" % round(max(_RECEIPT_S_MIN, 6 * target.busy_s) * 1000)
        self._ttl = b"" if target.ttl_ms is None else b"%d" % target.ttl_ms
        try:
            self.durable = self._enter()
        except BaseException:
            link.close()
            raise

    def create(self, session: str, *, owner: str, family: str | None = None, epoch: int = 1) -> Lease:
        """See `Store.create`."""
        name = self._id(session)
        founder = self._id(session if family is None else family)

        def create() -> Lease:
            began = epoch_after(epoch - 1, incarnation=self._newest)
            lease = Lease(session, began, refusals.named(owner), 0)
            args = (name, rows.blob(owner), founder, began, self._newest, GENESIS, self._known())
            self._write("create", session, args)
            return lease

        return self._in_incarnation(create)

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """See `Store.fork`."""
        name = self._id(session)
        try:
            end = check_first(session, batch, base=base)
        except ValueError:
            self._check_sessions(session, base)  # what is wrong with those is told first
            raise
        args: tuple[Word, ...] = (
            name,
            epoch,
            self._id(base.session),
            base.seq,
            *rows.batch(batch, end=end),
            self._known(),
        )
        self._write("fork", session, args, point="fork.inside", head=base.seq)

    def claim(self, session: str, *, owner: str, seen: Lease) -> Lease:
        """See `Store.claim`."""
        name = self._id(session)

        def claim() -> Lease:
            epoch = epoch_after(seen.epoch, incarnation=self._newest)
            lease = Lease(session, epoch, refusals.named(owner), 0)
            self._tails.forget(session)  # whoever claims has looked
            self._write("claim", session, (name, rows.blob(owner), epoch, self._newest, *lease_words(seen)))
            return lease

        return self._in_incarnation(claim)

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """See `Store.open`."""
        name, head = self._id(session), check_opening(session, batch, seen=seen)
        envelope = (b"", b"") if batch.envelope is None or seen is not None else (1, batch.envelope)

        def take() -> Held:
            epoch = epoch_after(seen.epoch if seen else 0, incarnation=self._newest)
            lease = Lease(session, epoch, refusals.named(owner), 0)
            check_incarnation(session, batch, newest=epoch)
            known = self._tails.at(session, head) if seen else b""
            before = (
                name,
                rows.blob(owner),
                epoch,
                self._newest,
                head,
                known,
                *(lease_words(seen) if seen else (b"",) * 3),
            )
            end = batch.records[-1].seq
            args = (*before, *envelope, *rows.batch(batch, end=end), b"" if seen else self._known())
            with self._tails.looked_at_again(session):
                (sent,) = self._write("open", session, args, point="append.inside", head=head)
            return Held(lease, sent)

        held = self._in_incarnation(take)
        self._tails.move(session, batch)
        return held

    def renew(self, lease: Lease) -> Lease:
        """See `Store.renew`."""
        args = (self._id(lease.session), lease.epoch, rows.blob(lease.owner))
        (counter,) = self._write("renew", lease.session, args, receipt=False, epoch=lease.epoch)
        return Lease(lease.session, lease.epoch, lease.owner, counter)

    def renew_all(self, leases: Iterable[Lease]) -> list[Lease]:
        """See `Store.renew_all`. Some at a time, so that savers hardly notice."""
        all_of_them, renewed = [lease for lease in leases if lease.owner], []
        for start in range(0, len(all_of_them), _RENEWED_AT_ONCE):
            some = all_of_them[start : start + _RENEWED_AT_ONCE]
            args = [word for one in some for word in (self._id(one.session), one.epoch, rows.blob(one.owner))]
            told = self._write("renew_all", "", tuple(args), receipt=False)
            for lease, counter in zip(some, told, strict=True):
                if counter is not None:
                    renewed.append(Lease(lease.session, lease.epoch, lease.owner, counter))
        return renewed

    def release(self, lease: Lease) -> None:
        """See `Store.release`."""
        args = (self._id(lease.session), lease.epoch, rows.blob(lease.owner))
        if lease.owner:
            self._write("release", lease.session, args, receipt=False)
            self._tails.forget(lease.session)

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """See `Store.append`."""
        return self._group.write(self._appending(session, batch, epoch=epoch, head=head))  # type: ignore[no-any-return]

    def submit(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Future[int]:
        """See `Store.submit`."""
        return self._group.submit(self._appending(session, batch, epoch=epoch, head=head))

    def _appending(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Call:
        name, end = self._id(session), check_batch(session, batch, head=head)
        asked = Asked(self.url, session, epoch or 0, head)

        def told(reply: Any) -> int:
            if epoch is None:
                with self._tails.looked_at_again(session):
                    (sent,) = asked.told(reply)
            else:
                (sent,) = asked.told(reply)
            self._tails.move(session, batch)
            return sent  # type: ignore[no-any-return]

        start = self._start(receipt=not batch.records)
        place = (name, b"" if epoch is None else b"%d" % epoch, b"%d" % head, self._tails.at(session, head), b"")
        args = [*start, *place, *rows.batch(batch, end=end)]
        return Call("append", args, tells=told, session=name, point="append.inside", again=len(start) + 4)

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        """See `Store.send`."""
        args = (self._id(session), b"" if mark is None else 1, mark or b"", content)
        told = self._write("send", session, args)
        return told[0] if told else None

    def watch(self, session: str) -> Watch:
        """See `Store.watch`."""
        self._link.check()
        return self._listener.watch(session)

    def put_chunks(self, session: str, chunks: Mapping[bytes, bytes], *, epoch: int | None) -> None:
        """See `Store.put_chunks`. Some megabytes at a time."""
        for some in _slices(chunks):
            words = [word for pair in some for word in pair]
            args = (self._id(session), b"" if epoch is None else epoch, *words)
            self._write("put_chunks", session, args, receipt=False, epoch=epoch or 0)

    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> None:
        """See `Store.amend`."""
        end = check_batch(session, batch, head=head)
        check_change(session, change, head=head)
        lists: list[list[Word]] = [
            [word for pair in change.bodies for word in pair],
            [*change.points],
            [*change.keyframes],
            [rows.marked(mark, seq) for mark, seq in change.marks],
            [self._id(one) for one in set(family)],
        ]
        whole = replace(batch, chunks={**batch.chunks, **change.chunks})
        place = (self._id(session), *lease_words(seen), head, self._tails.at(session, head))
        words = (word for one in lists for word in one)
        args = (*place, *map(len, lists), *rows.batch(whole, end=end), *words)
        with self._tails.looked_at_again(session):
            self._write("amend", session, args, point="amend.inside", head=head, lasts=False)
        self._tails.move(session, batch)

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """See `Store.drop_chunks`."""
        of = [word for one, head in seen.items() for word in (self._id(one.session), *lease_words(one), head)]
        args = (len(digests), *digests, *of)
        self._write("drop_chunks", "", args, point="sweep.inside", lasts=False)

    def put_envelope(self, session: str | None, new: bytes, *, seen: bytes | None) -> None:
        """See `Store.put_envelope`."""
        of = (b"", b"") if session is None else (1, self._id(session))
        args = (*of, 0 if seen is None else 1, seen or b"", new)
        self._write("put_envelope", session or "", args, point="envelope.inside", lasts=False)
        if seen is not None:
            self._scrub("replaced")

    def begin_incarnation(self, number: int) -> None:
        """See `Store.begin_incarnation`."""
        self._write("begin_incarnation", "", (number,), receipt=False)

    def purge(self, session: str) -> None:
        """See `Store.purge`. Memory has nothing left; the server's files are written anew."""
        self.lease(session)
        self._scrub("replaced")

    def give_back(self, *, bytes_max: int) -> int:
        """See `Store.give_back`. The server has what is freed at once; its file is written anew in the background."""
        del bytes_max
        self._link.say(("MEMORY", "PURGE"))
        scrub.begin_rewriting(self._link)
        return 0

    def health(self, *, deep: bool) -> Health:
        """See `Store.health`."""
        return health(self._link, deep=deep)

    def delete(self, session: str) -> None:
        """See `Store.delete`. The server's files are written anew without it."""
        self._write("delete", session, (self._id(session),), receipt=False, point="erase.inside", lasts=False)
        faults.reach("erase.after")
        self._scrub("deleted")

    def close(self) -> None:
        """See `Store.close`."""
        if self._link.is_ours():
            self._group.end()
            self._listener.end()
            self._link.close()

    def _enter(self) -> bool:
        """Looks at the server and the place. Whether what is acknowledged outlives the machine."""
        now, target = scrub.settings(self._link), self._link.target
        if now.version < VERSION_MIN:
            raise StoreUrlError(f"{self.url}: is Redis {now.info.get('redis_version')}; it takes 7.0 or newer")
        self._link.argument_bytes_max = now.argument_bytes_max
        layout, identity, *denied = self._link.ask(Call("enter", (), tells=Asked(self.url).told))
        if layout not in (None, _LAYOUT):
            raise FormatNewerError(
                f"{self.url}: is of layout {layout.decode(errors='replace')}, made by a newer perdure"
            )
        if denied:
            words = ", ".join(sorted(word.decode() for word in denied))
            self._link.denied = f"its user may not do all that a store needs (ACL): {words}"
            _log.warning("%s: %s", self.url, self._link.denied)
        if target.aof and not (now.can_wait_for_aof or now.syncs_always):
            raise StoreUrlError(
                f"{self.url}: wait_aof needs an append-only file and Redis 7.2, which can tell that a write is synced; "
                f"with Redis {now.info.get('redis_version')} set appendfsync always, which does the same"
            )
        if target.aof and now.can_wait_for_aof:
            self._link.proof = ("WAITAOF", 1, target.replicas, round(500 * target.timeout_s))
        elif target.replicas:
            self._link.proof = ("WAIT", target.replicas, round(500 * target.timeout_s))
        if identity is not None:
            self._identity = identity
        elif now.info.get("role") == "master":
            with suppress(StoreFailedError):  # it may still be read; what begins a session says why it cannot
                self._known()
        for loss in now.losses():
            _log.warning("%s: %s", self.url, loss)
        return target.aof or bool(now.syncs_always)

    def _known(self) -> bytes:
        """The identity of the place when this store first saw it; a place that has none is given one."""
        if not self._identity and not self._link.denied:
            house, new = self._key("place"), clock.new_bytes(16).hex()
            told = self._link.say(("HSETNX", house, "identity", new), ("HGET", house, "identity"))
            for reply in told:
                if isinstance(reply, ResponseError):
                    raise meaning(reply, url=self.url)
            self._identity = told[1]
        return self._identity

    def _start(self, *, receipt: bool, lasts: bool = True) -> tuple[bytes, ...]:
        """What the arguments of every script that writes begin with."""
        return (clock.new_bytes(16).hex().encode() if receipt else b"", self._receipt_ms, self._ttl if lasts else b"")

    def _write(
        self,
        name: str,
        session: str,
        args: tuple[Word, ...],
        *,
        receipt: bool = True,
        lasts: bool = True,
        point: str | None = None,
        epoch: int = 0,
        head: int = 0,
    ) -> list[Any]:
        asked = Asked(self.url, session, epoch, head)
        start = self._start(receipt=receipt, lasts=lasts)
        call = Call(name, (*start, *args), tells=asked.told, session=session.encode(), point=point)
        return self._group.write(call)  # type: ignore[no-any-return]

    def _in_incarnation(self, work: Callable[[], T]) -> T:
        """What it does in the newest incarnation of the place, which it may learn of by being refused."""
        while True:
            try:
                return work()
            except IncarnationOverError as other:
                self._newest = other.newest

    def _check_sessions(self, session: str, base: Base) -> None:
        with suppress(SessionUnknownError):
            self.lease(session)
            raise refusals.exists(session)
        self.lease(base.session)

    def _channel(self, session: str) -> bytes:
        return rows.blob(self._key(f"written:{session}"))

    def _scrub(self, done: str) -> None:
        if self._link.target.scrub:
            scrub.rewrite(self._link, done=done)


def _slices(chunks: Mapping[bytes, bytes]) -> Iterator[list[tuple[bytes, bytes]]]:
    """A few megabytes at a time, one at least."""
    some: list[tuple[bytes, bytes]] = []
    size = 0
    for pair in chunks.items():
        if some and size + len(pair[1]) > _PUT_BYTES:
            yield some
            some, size = [], 0
        some.append(pair)
        size += len(pair[1])
    yield some
