"""The contract on two stores: what is decided is decided by cold, and hot answers as far as it is proved to be right.

It routes; how appends go is in `behind` and `through`, what is carried over in `carrying`, where reads come from in
`reading`. It must not know what kinds of stores the two are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, Final, TypeVar
from urllib.parse import quote

from perdure.errors import (
    FencedError,
    HeldError,
    ProcessForkedError,
    SessionErasedError,
    SessionError,
    StoreFailedError,
    StoreUrlError,
)
from perdure.log import Base, Record
from perdure.stores import refusals
from perdure.stores.address import LOCAL, Address, scheme_of
from perdure.stores.around import Around
from perdure.stores.conditions import check_batch, check_change
from perdure.stores.contract import Batch, Change, Head, Health, Held, Lease, Point, Store
from perdure.stores.hot import HotStore
from perdure.stores.opening import open_bare
from perdure.stores.tiered.behind import Behind
from perdure.stores.tiered.carrying import carry, forget, freeze
from perdure.stores.tiered.evicting import Evicted, Evictor
from perdure.stores.tiered.front import HotAwayError, front
from perdure.stores.tiered.reading import Reading
from perdure.stores.tiered.settings import NAMES, Settings
from perdure.stores.tiered.through import Through
from perdure.stores.tiered.view import Tiers, View, in_order

T = TypeVar("T")

_PLAIN: Final = "/:,"
"""Characters that stand for themselves in an option of a URL."""


class TieredStore(Around):
    """`hot` in front of `cold`, which it owns from then on: closing it closes both. See `Settings`.

    Raises `StoreUrlError` for a hot store that cannot keep copies, and for a cold one that was opened with keys.
    """

    def __init__(self, hot: Store, cold: Store, *, settings: Settings | None = None) -> None:
        super().__init__(cold)
        if not isinstance(hot, HotStore):
            raise StoreUrlError(f"{hot.url}: cannot keep copies, so it cannot stand in front; put another store there")
        if cold.keys is not None:
            raise StoreUrlError(f"{cold.url}: is sealed, and hot would not be; give the keys to tiered: instead")
        self.settings = settings or Settings()
        self.cold: Final = cold
        guarded, self._front = front(hot)
        self._tiers = Tiers(guarded, cold)
        self._hot = hot
        self.url = (
            f"tiered://?hot={quote(hot.url, safe=_PLAIN)}&cold={quote(cold.url, safe=_PLAIN)}{self.settings.in_url()}"
        )
        self.durable = cold.durable and (hot.durable or not self.settings.is_behind)
        self._evictor = Evictor(self._tiers, self.settings)
        kind = Behind if self.settings.is_behind else Through
        self._writes: Behind | Through = kind(
            self._tiers, self.settings, url=self.url, beat=self._beat if self._evictor.is_needed else None
        )
        self._reading = Reading(
            self._tiers, self._look, untold=self._writes.untold, makes_copies=not self.settings.is_behind
        )
        self._pid = os.getpid()
        self._closed = False

    # ---------------------------------------------------------------------------------------------- who holds it

    def claim(self, session: str, *, owner: str, seen: Lease) -> Lease:
        """See `Store.claim`."""
        self._settle(session, takes=True)
        lease = self.cold.claim(session, owner=owner, seen=seen)
        with suppress(HotAwayError):  # an owner who took hot again in between: what it was told still counts
            if freeze(self._tiers, session) is not None:
                carry(self._tiers, session, of=seen.epoch)
        self._writes.opened(session, sent=0)
        return lease

    def open(self, session: str, batch: Batch, *, owner: str, seen: Lease | None) -> Held:
        """See `Store.open`."""
        self._here()
        if seen is not None:
            self._settle(session, takes=True)
        held = self.cold.open(session, batch, owner=owner, seen=seen)
        self._writes.opened(session, sent=held.sent)
        return held

    def release(self, lease: Lease) -> None:
        """See `Store.release`. What waits for cold is written first; raises what it was refused with."""
        self._here()
        with suppress(SessionError):  # it is erased
            self._writes.finish(lease.session)
        with suppress(SessionError, HotAwayError):
            if self.cold.lease(lease.session).epoch == lease.epoch:
                self._writes.freeze(lease.session)
        self.cold.release(lease)
        self._writes.leave(lease.session)

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """See `Store.fork`. What the base has is in cold first."""
        self._here()
        self._writes.carry(base.session)
        self.cold.fork(session, batch, base=base, epoch=epoch)
        self._put(base.session, batch.chunks)

    def _settle(self, session: str, *, takes: bool = False) -> None:
        self._here()
        try:
            self._writes.settle(session, takes=takes)
        except HotAwayError as error:
            raise StoreFailedError(
                f"{session}: cannot be taken while hot cannot be asked: its newest saves may be there alone ({error}). "
                "Bring it back, or open the store with mode=through to go on from what cold has"
            ) from error

    # ---------------------------------------------------------------------------------------------- writing

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        """See `Store.append`."""
        check_batch(session, batch, head=head)
        self._here()
        return self._writes.append(session, batch, epoch=epoch, head=head)

    def submit(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> Future[int]:
        """See `Store.submit`."""
        check_batch(session, batch, head=head)
        self._here()
        return self._writes.submit(session, batch, epoch=epoch, head=head)

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        """See `Store.send`."""
        number = self.cold.send(session, content, mark=mark)
        if number is not None:
            self._writes.sent(session, number)
        return number

    def put_chunks(self, session: str, chunks: Mapping[bytes, bytes], *, epoch: int | None) -> None:
        """See `Store.put_chunks`. They go to cold, and hot has them as far as it has the session."""
        self._here()
        self.cold.put_chunks(session, chunks, epoch=epoch)
        self._put(session, chunks)

    def _put(self, session: str, chunks: Mapping[bytes, bytes]) -> None:
        """Hot has no other contents under these addresses."""
        with suppress(HotAwayError, SessionError, FencedError, HeldError):
            copy = self._tiers.hot.copy(session) if chunks else None
            if copy is not None:
                self._tiers.hot.put_chunks(session, chunks, epoch=None if copy.is_frozen else copy.lease.epoch)

    # ---------------------------------------------------------------------------------------------- keeping

    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> None:
        """See `Store.amend`. Hot forgets the family before and after: nothing that was dropped stays there."""
        check_batch(session, batch, head=head)
        check_change(session, change, head=head)
        self._settle(session)
        self._forget_all(family)
        self.cold.amend(session, batch, change, seen=seen, head=head, family=family)
        self._forget_all(family)

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> None:
        """See `Store.drop_chunks`. Hot forgets the family."""
        sessions = [lease.session for lease in seen]
        for session in sessions:
            self._settle(session)
        self._forget_all(sessions)
        self.cold.drop_chunks(digests, seen=seen)
        self._forget_all(sessions)

    def delete(self, session: str) -> None:
        """See `Store.delete`. Hot forgets it first, when cold has all of it, and once more afterwards."""
        with suppress(SessionErasedError):  # what a crash interrupted is finished
            self._settle(session)
        self._forget_all([session])
        self.cold.delete(session)
        self._forget_all([session], wipes=True)
        self._writes.drop(session)

    def purge(self, session: str) -> None:
        """See `Store.purge`. Of both tiers."""
        self.cold.purge(session)
        self._forget_all([session], wipes=True)

    def _forget_all(self, sessions: Iterable[str], *, wipes: bool = False) -> None:
        try:
            for session in sessions:
                forget(self._tiers, session)
            if wipes:
                self._tiers.hot.wipe()
        except HotAwayError as error:
            raise StoreFailedError(f"hot cannot be asked to forget ({error}); bring it back and do it again") from error

    def evict(self) -> Evicted:
        """Takes out of hot what the settings say, now. Raises `StoreFailedError`."""
        self._here()
        return self._evictor.sweep()

    def _beat(self) -> None:
        with suppress(HotAwayError):  # it is reported already, and asked again at the next beat
            self._evictor.sweep()

    def give_back(self, *, bytes_max: int) -> int:
        """See `Store.give_back`. Of both tiers."""
        left = self.cold.give_back(bytes_max=bytes_max)
        with suppress(HotAwayError):
            left += self._tiers.hot.give_back(bytes_max=bytes_max)
        return left

    # ---------------------------------------------------------------------------------------------- reading

    def _look(self, session: str) -> View:
        """How the session is. Without hot: what cold has, if this process writes it, once it has written all of it."""
        self._here()
        try:
            return self._tiers.look(session)
        except HotAwayError:
            if not self._writes.flush_if_ours(session):
                raise
            return View(self.cold.head(session), None)

    def head(self, session: str) -> Head:
        """See `Store.head`."""
        return self._look(session).head if self.settings.is_behind else self.cold.head(session)

    def heads(self, *, prefix: str = "") -> list[Head]:
        """See `Store.heads`. Sessions with what only hot has are the ones appended to last."""
        if not self.settings.is_behind:
            return self.cold.heads(prefix=prefix)
        near = self._tiers.hot.heads(prefix=prefix)
        ends = {head.session: head.seq for head in near}
        there = self.cold.heads(prefix=prefix)
        views = {head.session: self._look(head.session) for head in there if ends.get(head.session, 0) > head.seq}
        there = [views[head.session].cold if head.session in views else head for head in there]
        return in_order(there, near, {session: view.head for session, view in views.items() if view.has_tail})

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """See `Store.read`."""
        return self._reading.records(session, after=after, upto=upto)

    def read_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """See `Store.read_at`."""
        return self._reading.records_at(session, seqs)

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `Store.chunks`."""
        return self._reading.chunks(session, digests)

    def points(self, session: str) -> list[Point]:
        """See `Store.points`."""
        return self._overlaid(session, lambda store: store.points(session), _points)

    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """See `Store.keyframes`."""
        return self._overlaid(
            session, lambda store: store.keyframes(session), lambda c, h: sorted((dict(c) | dict(h)).items())
        )

    def find(self, session: str, mark: bytes) -> list[int]:
        """See `Store.find`."""
        return self._overlaid(session, lambda store: store.find(session, mark), lambda c, h: sorted({*c, *h}))

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """See `Store.marks`."""
        return self._overlaid(session, lambda store: store.marks(session), lambda c, h: [*{*c, *h}])

    def chunk_sizes(self, session: str) -> dict[bytes, int]:
        """See `Store.chunk_sizes`."""
        return self._overlaid(session, lambda store: store.chunk_sizes(session), lambda c, h: h | c)

    def _overlaid(self, session: str, read: Callable[[Store], T], both: Callable[[T, T], T]) -> T:
        """What both tiers have, hot's over cold's. Hot is read first: what leaves it meanwhile is in cold by then.

        What a fork has of its bases is cold's alone, so cold gets it first.
        """
        if not self.settings.is_behind:
            return read(self.cold)
        view = self._look(session)
        for base in view.cold.bases:
            self._writes.carry(base.session)
        over = None
        if view.has_tail:
            with suppress(SessionError):  # it was forgotten meanwhile
                over = read(self._tiers.hot)
        found = read(self.cold)
        return found if over is None else both(found, over)

    # ---------------------------------------------------------------------------------------------- the rest

    def health(self, *, deep: bool) -> Health:
        """See `Store.health`. That of cold, with the problems of both, and what hot had and the log has not."""
        found = self.cold.health(deep=deep)
        problems = [*found.problems, *self._writes.notes]
        try:
            problems += [f"hot: {said}" for said in self._tiers.hot.health(deep=deep).problems]
        except HotAwayError as error:
            problems.append(f"hot: {error}")
        return replace(found, problems=tuple(problems))

    def close(self) -> None:
        """See `Store.close`. What waits for cold is written first; raises what cold raises, once both are closed."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        try:
            self._writes.close()
        finally:
            self._hot.close()
            self.cold.close()

    def _here(self) -> None:
        if self._closed:
            raise refusals.closed(self.url)
        if os.getpid() != self._pid:
            raise ProcessForkedError(f"{self.url}: was opened before os.fork(); open it again in this process")


def _points(cold: list[Point], hot: list[Point]) -> list[Point]:
    found = {point.seq: point for point in (*cold, *hot)}
    return [found[seq] for seq in sorted(found)]


def _keyframes(cold: list[tuple[int, int]], hot: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted((dict(cold) | dict(hot)).items())


def open_url(
    place: Address,
    *,
    hot: Store | str | os.PathLike[str] | None = None,
    cold: Store | str | os.PathLike[str] | None = None,
    **options: Any,
) -> TieredStore:
    """The store of "tiered:?hot=…&cold=…"; `hot` and `cold` may be given as stores, or URLs, instead."""
    place.check(("hot", "cold", *NAMES))
    settings = Settings.of(place, **options)
    with ExitStack() as opened:
        behind = _tier(place, "cold", cold)
        opened.callback(behind.close)
        before = _tier(place, "hot", hot)
        opened.callback(before.close)
        store = TieredStore(before, behind, settings=settings)
        opened.pop_all()
    return store


def _tier(place: Address, which: str, given: Store | str | os.PathLike[str] | None) -> Store:
    if isinstance(given, Store):
        return given
    url = place.option(which, kind=str, default="") if given is None else os.fspath(given)
    if not url:
        raise StoreUrlError(f"tiered: needs {which}=, the URL of a store, with : / ? & written %3A %2F %3F %26")
    is_server = scheme_of(url) not in (None, *LOCAL)
    return open_bare(url, password=place.given if is_server else None)
