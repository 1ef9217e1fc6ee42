"""`gc`: old snapshots and what only they needed go, and their space goes back to the file system.

It holds no session: one that somebody has is left alone and told. What it may drop, `retention` says.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from perdure import clock, limits
from perdure.errors import (
    ConflictError,
    DamageError,
    HeldError,
    SessionErasedError,
    SessionUnknownError,
    UnfinishedError,
)
from perdure.log.origin import seam_of
from perdure.log.record import STUB_BYTES
from perdure.ops import retention
from perdure.ops.amending import amend, slices
from perdure.ops.bases import Made, bases
from perdure.ops.facts import Facts, facts
from perdure.ops.gone import Collected, GcReport
from perdure.ops.retention import EVERYTHING, LEAST, Retention
from perdure.ops.sizes import chunks_of, size_of
from perdure.session.keeping.lease import is_held, owner_text
from perdure.stores.ids import HOUSE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from perdure.stores.contract import Store

_log = logging.getLogger("perdure.gc")

REASON: Final = "retention"
"""What the records of dropped bodies say."""


Between: TypeAlias = "Callable[[], None]"
"""Called between two transactions: what it raises ends the work there, and nothing is half done."""


def nothing() -> None:
    """Lets the work go on."""


@dataclass(frozen=True, slots=True)
class _How:
    """How it is done: for real or not, interrupted by what, and whether what is left is measured."""

    dry_run: bool
    between: Between = nothing
    measure: bool = False


class _Family(NamedTuple):
    """What became of one family: figures of its sessions, chunks that went, the bytes that are left of it."""

    found: list[Collected]
    chunks: dict[bytes, int]
    left_bytes: int = 0


@dataclass(slots=True)
class _Planned:
    """What is to be done with one session."""

    facts: Facts
    pieces: list[tuple[int, ...]] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    kept: int = 0

    @property
    def own_bytes(self) -> int:
        """Of the bodies that the session wrote itself, and of what stands for those that are gone."""
        own = [seq for seq in self.facts.kinds if seq > seam_of(self.facts.head.bases)]
        return sum(self.facts.sizes.get(seq, STUB_BYTES) for seq in own)

    def collected(self, left_alone: str = "", *, left: Iterable[int] = ()) -> Collected:
        """The figures; without those that are left to do."""
        seqs = {seq for piece in self.pieces for seq in piece}.difference(left)
        points = sum(self.facts.kinds[seq] == "saved" for seq in seqs)
        size = sum(self.facts.sizes[seq] for seq in seqs)
        return Collected(self.facts.session, points, len(seqs), size, self.kept, left_alone)


def collected(
    store: Store,
    session: str | None,
    policy: Retention,
    *,
    dry_run: bool,
    without: Collection[str] = (),
    between: Between = nothing,
) -> GcReport:
    """Collects one session, or all that nobody holds, with their families; none of those that it is to go `without`."""
    families, pins = _families(store, session, without=without)
    used = store.health(deep=False).used
    bounded = policy.bytes_max is not None
    how = _How(dry_run, between, measure=bounded)
    done = [_family(store, ids, policy, pins, only=session, how=how) for ids in families]
    for place in reversed(range(len(families))):
        if policy.bytes_max is None or sum(one.left_bytes for one in done) <= policy.bytes_max:
            break
        again = _family(store, families[place], LEAST, pins, only=None, how=how)
        done[place] = again if dry_run else _both(done[place], again)
    given = 0 if dry_run else max(given_back(store), (used or 0) - (store.health(deep=False).used or 0))
    stored = sum(one.left_bytes for one in done) if bounded else None
    return GcReport(
        dry_run,
        tuple(one for family in done for one in family.found),
        sum(len(family.chunks) for family in done),
        sum(size for family in done for size in family.chunks.values()),
        given,
        stored_bytes=stored,
        over_bytes=max(0, (stored or 0) - (policy.bytes_max or 0)),
    )


def _both(first: _Family, then: _Family) -> _Family:
    """What went in two goes."""
    before = {one.session: one for one in first.found}
    found = [_added(before.get(one.session), one) for one in then.found]
    return _Family(found, first.chunks | then.chunks, then.left_bytes)


def _added(first: Collected | None, then: Collected) -> Collected:
    if first is None:
        return then
    return replace(
        then,
        snapshots=first.snapshots + then.snapshots,
        records=first.records + then.records,
        bytes=first.bytes + then.bytes,
    )


def sweep(store: Store, family: list[str], *, give_back: bool = True) -> tuple[int, str]:
    """Removes only the chunks that nothing needs, of the family of these sessions: how many bytes.

    Or why not: somebody holds one of them, or it is damaged. Whoever sweeps many gives their space back at the end.
    """
    known = []
    for session in family:
        planned, why = _planned(store, session, EVERYTHING, pinned=0)
        if planned is None:
            return 0, f"{session}: {why}"
        known.append(planned)
    went = _swept(store, known, only=None, how=_How(dry_run=False))
    if give_back:
        given_back(store)
    return sum(went.values()), ""


def _families(store: Store, session: str | None, *, without: Collection[str]) -> tuple[list[list[str]], dict[str, int]]:
    """The ids of the sessions by family (of one family, if a session is named); up to where forks pin a session.

    The family that was written to last comes first. A session is pinned by the forks that go on from it, and a fork has
    all up to there from another.
    """
    if session is not None:
        store.lease(session)
    by_family: dict[str, list[str]] = defaultdict(list)
    pins: dict[str, int] = defaultdict(int)
    for head in store.heads():
        if head.session in HOUSE or head.session in without:
            continue
        by_family[head.family].append(head.session)
        for base in head.bases:
            pins[base.session] = max(pins[base.session], base.seq)
            pins[head.session] = max(pins[head.session], base.seq)
    return [sorted(ids) for ids in by_family.values() if session is None or session in ids], pins


def _family(
    store: Store, ids: list[str], policy: Retention, pins: dict[str, int], *, only: str | None, how: _How
) -> _Family:
    """Collects the sessions of one family, then the chunks that none of them needs."""
    found, known = [], []
    for session in ids:
        how.between()
        planned, why = _planned(store, session, policy, pinned=pins[session])
        if planned is None:
            found.append(Collected(session, left_alone=why))
            continue
        known.append(planned)
        if only in (None, session):
            found.append(planned.collected() if how.dry_run else _done(planned, family=ids, between=how.between))
    whole = len(known) == len(ids) and not any(one.left_alone for one in found)
    shown = [one for one in found if only in (None, one.session)]
    orphans = _swept(store, known, only=only, how=how) if whole else {}
    left = _left(store, ids, known, shown, orphans, how=how) if how.measure else 0
    return _Family(shown, orphans, left)


def _left(
    store: Store,
    ids: list[str],
    known: list[_Planned],
    found: list[Collected],
    orphans: dict[bytes, int],
    *,
    how: _How,
) -> int:
    """The bytes of bodies and chunks that a family has afterwards. Where nothing was planned they are counted."""
    if not how.dry_run or not known:
        return sum(size_of(store, session) for session in ids) + chunks_of(store, ids)
    there = {one.facts.session for one in known}
    bodies = sum(size_of(store, session) for session in ids if session not in there)
    bodies += sum(one.own_bytes for one in known) - sum(one.bytes - one.records * STUB_BYTES for one in found)
    chunks = chunks_of(store, ids) - sum(orphans.values())
    return bodies + chunks + sum(made.bytes for one in known for made in one.made)


def _planned(store: Store, session: str, policy: Retention, *, pinned: int) -> tuple[_Planned | None, str]:
    """What may go from a session; or None and why it is left alone."""
    try:
        lease = store.lease(session)
        if is_held(store, lease):
            return None, f"{owner_text(lease.owner)} holds it"
        one = facts(store, session)
        if one.head.seq == 0:
            return _Planned(one), ""
        kept, made = _kept(one, policy, pinned=pinned)
    except UnfinishedError as error:
        return None, str(error)
    except DamageError as error:
        return None, f"damaged: {error}; run: perdure verify {session}"
    except (SessionErasedError, SessionUnknownError):
        return None, "it was erased meanwhile"
    return _Planned(one, retention.dropped(one, kept), made, len(kept.snapshots)), ""


def _kept(one: Facts, policy: Retention, *, pinned: int) -> tuple[retention.Stay, list[Made]]:
    """What stays, and the keyframes to be made for it. What a snapshot is made from can be gone back to, too."""
    snapshots = retention.asked_for(one, policy, now_us=clock.now_us(), pinned=pinned)
    while True:
        kept = retention.stay(one, snapshots, pinned=pinned)
        snapshots = set(kept.snapshots)
        made = bases(one, kept)
        if snapshots == kept.snapshots:
            return kept, made
        snapshots = kept.snapshots


def _done(planned: _Planned, *, family: list[str], between: Between) -> Collected:
    """Drops what may go, slice by slice; stops when somebody comes."""
    left = {seq for piece in planned.pieces for seq in piece}
    made = planned.made
    try:
        for one in slices(planned.pieces):
            between()
            amend(planned.facts, one, made, family=family, reason=REASON)
            left.difference_update(one.seqs)
            made = []
    except (HeldError, ConflictError) as error:
        return planned.collected(f"somebody came: {error}", left=left)
    return planned.collected()


def _swept(store: Store, known: list[_Planned], *, only: str | None, how: _How) -> dict[bytes, int]:
    """Removes the chunks that nothing in the family needs. Those that went, with their bytes."""
    needed: set[bytes] = set()
    for one in known:
        if only in (None, one.facts.session):
            gone = frozenset(seq for piece in one.pieces for seq in piece)
            needed = needed.union(one.facts.needed(without=gone), *(made.needs for made in one.made))
        else:
            needed |= one.facts.needed()
    sizes = store.chunk_sizes(known[0].facts.session)
    orphans = {digest: size for digest, size in sizes.items() if digest not in needed}
    if how.dry_run:
        return orphans
    seen = {one.facts.lease: one.facts.head.seq for one in known}
    went: dict[bytes, int] = {}
    try:
        for portion in _portions(orphans):
            how.between()
            store.drop_chunks(portion, seen=seen)
            went |= {digest: orphans[digest] for digest in portion}
    except (HeldError, ConflictError) as error:
        _log.info("the rest of the chunks stay until next time: %s", error)
    return went


def _portions(sizes: dict[bytes, int]) -> Iterable[list[bytes]]:
    portion: list[bytes] = []
    size = 0
    for digest, one in sizes.items():
        portion.append(digest)
        size += one
        if size >= limits.SLICE_BYTES or len(portion) >= limits.SLICE_RECORDS:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def given_back(store: Store) -> int:
    """Gives what is free back to the file system, in steps. How many bytes that were."""
    left = store.give_back(bytes_max=1)
    given = 0
    while left:
        now = store.give_back(bytes_max=limits.SLICE_BYTES)
        if now >= left:
            break
        given, left = given + left - now, now
    return given
