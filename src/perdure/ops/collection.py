"""`gc`: old snapshots and what only they needed go, and their space goes back to the file system.

It holds no session: one that somebody has is left alone and told. What it may drop, `retention` says.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perdure import clock, limits
from perdure.errors import (
    ConflictError,
    DamageError,
    HeldError,
    RefusedError,
    SessionErasedError,
    SessionUnknownError,
    UnfinishedError,
)
from perdure.ops import retention
from perdure.ops.amending import amend, slices
from perdure.ops.bases import Made, bases
from perdure.ops.facts import Facts, facts
from perdure.ops.retention import Policy
from perdure.session.keeping.lease import is_dead, owner_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.stores.contract import Store

_log = logging.getLogger("perdure.gc")

EVERYTHING: Final = Policy(None, float("inf"))
"""Under this policy every snapshot stays."""

REASON: Final = "retention"
"""What the records of dropped bodies say."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What went from one session, or would go: snapshots, bodies of records and their bytes; `kept` snapshots stay.

    `left_alone` says why it was not done, or not to its end; "" if it was.
    """

    session: str
    snapshots: int = 0
    records: int = 0
    bytes: int = 0
    kept: int = 0
    left_alone: str = ""


@dataclass(frozen=True, slots=True)
class GcReport:
    """What `gc` did, or would do if it is a dry run.

    `chunks` and `chunk_bytes` are those that nothing needs any more; `given_back` is how many bytes went back to the
    file system: at the end, or at once where files get smaller.
    """

    dry_run: bool
    sessions: tuple[Collected, ...]
    chunks: int
    chunk_bytes: int
    given_back: int

    @property
    def bytes(self) -> int:
        """Of bodies and chunks together."""
        return self.chunk_bytes + sum(one.bytes for one in self.sessions)


@dataclass(slots=True)
class _Planned:
    """What is to be done with one session."""

    facts: Facts
    pieces: list[tuple[int, ...]] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    kept: int = 0

    def collected(self, left_alone: str = "", *, left: Iterable[int] = ()) -> Collected:
        """The figures; without those that are left to do."""
        seqs = {seq for piece in self.pieces for seq in piece}.difference(left)
        points = sum(self.facts.kinds[seq] == "saved" for seq in seqs)
        size = sum(self.facts.sizes[seq] for seq in seqs)
        return Collected(self.facts.session, points, len(seqs), size, self.kept, left_alone)


def gc(store: Store, session: str | None, policy: Policy, *, dry_run: bool) -> GcReport:
    """Collects one session, or all that nobody holds, with their families. See `AgentStore.gc`."""
    if policy.last is None and policy.younger_s is None:
        raise RefusedError("say what is kept: keep_last=, the newest restore points, or keep_s=, an age in seconds")
    if (policy.last or 0) < 0 or (policy.younger_s or 0) < 0:
        raise RefusedError("keep_last and keep_s are 0 or more")
    families, pins = _families(store, session)
    used = store.health(deep=False).used
    found: list[Collected] = []
    chunks: dict[bytes, int] = {}
    for ids in families:
        done, orphans = _family(store, ids, policy, pins, only=session, dry_run=dry_run)
        found += done
        chunks |= orphans
    given = 0 if dry_run else max(_give_back(store), (used or 0) - (store.health(deep=False).used or 0))
    return GcReport(dry_run, tuple(found), len(chunks), sum(chunks.values()), given)


def sweep(store: Store, family: list[str]) -> tuple[int, str]:
    """Removes only the chunks that nothing needs, of the family of these sessions: how many bytes.

    Or why not: somebody holds one of them, or it is damaged.
    """
    known = []
    for session in family:
        planned, why = _planned(store, session, EVERYTHING, pinned=0)
        if planned is None:
            return 0, f"{session}: {why}"
        known.append(planned)
    went = _swept(store, known, only=None, dry_run=False)
    _give_back(store)
    return sum(went.values()), ""


def _families(store: Store, session: str | None) -> tuple[list[list[str]], dict[str, int]]:
    """The ids of the sessions by family (of one family, if a session is named); up to where forks pin a session.

    A session is pinned by the forks that go on from it, and a fork has all up to there from another.
    """
    if session is not None:
        store.lease(session)
    by_family: dict[str, list[str]] = defaultdict(list)
    pins: dict[str, int] = defaultdict(int)
    for head in store.heads():
        by_family[head.family].append(head.session)
        for base in head.bases:
            pins[base.session] = max(pins[base.session], base.seq)
            pins[head.session] = max(pins[head.session], base.seq)
    return [sorted(ids) for ids in by_family.values() if session is None or session in ids], pins


def _family(
    store: Store, ids: list[str], policy: Policy, pins: dict[str, int], *, only: str | None, dry_run: bool
) -> tuple[list[Collected], dict[bytes, int]]:
    """Collects the sessions of one family, then the chunks that none of them needs."""
    found, known = [], []
    for session in ids:
        planned, why = _planned(store, session, policy, pinned=pins[session])
        if planned is None:
            found.append(Collected(session, left_alone=why))
            continue
        known.append(planned)
        if only in (None, session):
            found.append(planned.collected() if dry_run else _done(planned, family=ids))
    whole = len(known) == len(ids)
    shown = [one for one in found if only in (None, one.session)]
    if not whole or any(one.left_alone for one in found):
        return shown, {}
    return shown, _swept(store, known, only=only, dry_run=dry_run)


def _planned(store: Store, session: str, policy: Policy, *, pinned: int) -> tuple[_Planned | None, str]:
    """What may go from a session; or None and why it is left alone."""
    try:
        lease = store.lease(session)
        if lease.owner and not is_dead(lease.owner):
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


def _kept(one: Facts, policy: Policy, *, pinned: int) -> tuple[retention.Stay, list[Made]]:
    """What stays, and the keyframes to be made for it. What a snapshot is made from can be gone back to, too."""
    snapshots = retention.asked_for(one, policy, now_us=clock.now_us(), pinned=pinned)
    while True:
        kept = retention.stay(one, snapshots, pinned=pinned)
        snapshots = set(kept.snapshots)
        made = bases(one, kept)
        if snapshots == kept.snapshots:
            return kept, made
        snapshots = kept.snapshots


def _done(planned: _Planned, *, family: list[str]) -> Collected:
    """Drops what may go, slice by slice; stops when somebody comes."""
    left = {seq for piece in planned.pieces for seq in piece}
    made = planned.made
    try:
        for one in slices(planned.pieces):
            amend(planned.facts, one, made, family=family, reason=REASON)
            left.difference_update(one.seqs)
            made = []
    except (HeldError, ConflictError) as error:
        return planned.collected(f"somebody came: {error}", left=left)
    return planned.collected()


def _swept(store: Store, known: list[_Planned], *, only: str | None, dry_run: bool) -> dict[bytes, int]:
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
    if dry_run:
        return orphans
    seen = {one.facts.lease: one.facts.head.seq for one in known}
    went: dict[bytes, int] = {}
    try:
        for portion in _portions(orphans):
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


def _give_back(store: Store) -> int:
    """Gives what is free back to the file system, in steps. How many bytes that were."""
    left = store.give_back(bytes_max=1)
    given = 0
    while left:
        now = store.give_back(bytes_max=limits.SLICE_BYTES)
        if now >= left:
            break
        given, left = given + left - now, now
    return given
