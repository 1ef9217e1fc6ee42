"""What hot has and cold has not is carried over, by whoever opens the session next, and nothing else ever is.

A tail counts if it goes on from the very record that cold ends with, in the epoch that cold knows. Any other branch was
written by an owner whose time was over, or is an older copy of hot: it is left out, and that is said. A copy is frozen
before its tail is read, so that nothing is acknowledged behind the reader's back.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import Final

from perdure import clock, faults
from perdure.errors import ConflictError, FencedError, HeldError, SessionError
from perdure.log import Record
from perdure.log.origin import seam_of
from perdure.stores.contract import Batch, Head, Lease
from perdure.stores.hot import Copy
from perdure.stores.tiered.view import Tiers, View

_log = logging.getLogger("perdure.tiered")

TRIES: Final = 20
_CATCH_UP_MAX: Final = 1000
"""A copy that lacks more records than this is begun anew."""


def freeze(tiers: Tiers, session: str) -> Copy | None:
    """Lets hot take nothing more for its copy; its epoch stays, and says whose it was. The copy, if there is one."""
    for _ in range(TRIES):
        copy = tiers.hot.copy(session)
        if copy is None or copy.is_frozen:
            return copy
        with suppress(HeldError):
            tiers.hot.hand(copy.lease, replace(copy.lease, owner=""))
            faults.reach("tier.frozen")
    raise ConflictError(f"{session}: its copy in {tiers.hot.url} is taken all the time; do it again")


def carry(tiers: Tiers, session: str, *, of: int | None = None) -> View:
    """Writes to cold what hot has more of a session, if that counts. `of`: see `Tiers.look`."""
    for _ in range(TRIES):
        view = tiers.look(session, of=of)
        if not view.has_tail:
            return view
        batch = tail(tiers, view)
        if batch is None and tiers.hot.copy(session) == view.copy:
            return replace(view, has_tail=False)  # hot itself has lost a part of it
        held = tiers.cold.lease(session)
        if held.epoch != view.cold.epoch or batch is None:
            continue
        faults.reach("tier.carry")
        try:
            tiers.cold.append(session, batch, epoch=held.epoch if held.owner else None, head=view.cold.seq)
        except (ConflictError, FencedError, HeldError):  # its owner has copied it meanwhile, or another one has come
            continue
        faults.reach("tier.carried")
    raise ConflictError(f"{session}: what is in front is written and taken over all the time; do it again")


def tail(tiers: Tiers, view: View) -> Batch | None:
    """All that hot has more, as one batch; None if it has changed while it was read."""
    assert view.copy is not None  # noqa: S101 - a view with a tail has a copy
    hot, session, last = tiers.hot, view.cold.session, view.copy.head
    try:
        records = tuple(hot.read(session, after=view.cold.seq, upto=last.seq))
        points = tuple(point for point in hot.points(session) if point.seq <= last.seq)
        keyframes = tuple(pair for pair in hot.keyframes(session) if max(pair) <= last.seq)
        marks = tuple((mark, seq) for mark, seq in hot.marks(session) if view.cold.seq < seq <= last.seq)
        new = hot.chunk_sizes(session).keys() - tiers.cold.chunk_sizes(session).keys()
        chunks = hot.chunks(session, new) if new else {}
    except SessionError:
        return None
    if len(records) != last.seq - view.cold.seq or records[-1].chain != last.chain:
        return None
    return Batch(records, points, marks, keyframes, last.summary, chunks=chunks)


def settle(tiers: Tiers, session: str) -> str:
    """Before a session is taken or changed: hot is frozen, and cold has all that counts. What was left out, or "".

    A copy that is no part of the session's log is forgotten.
    """
    if freeze(tiers, session) is None:
        return ""
    view = carry(tiers, session)
    if view.copy is None or _is_beginning(tiers, view):
        return ""
    if view.copy.head.seq > view.cold.seq and tiers.goes_on_from(view.cold):
        return ""  # it may be about to be carried over by who has just claimed the session
    return _leave(tiers, view)


def _is_beginning(tiers: Tiers, view: View) -> bool:
    """Whether cold's log has the record that the copy ends with."""
    assert view.copy is not None  # noqa: S101 - only asked where there is one
    end, cold = view.copy.head, view.cold
    if end.seq >= cold.seq:
        return (end.seq, end.chain) == (cold.seq, cold.chain)
    return tiers.chain_at(tiers.cold, cold.session, end.seq) == end.chain


def _leave(tiers: Tiers, view: View) -> str:
    """Forgets a copy that is another branch, and says so."""
    assert view.copy is not None  # noqa: S101 - only done where there is one
    there, cold = view.copy.head, view.cold
    left = (
        f"{cold.session}: what is in front is another branch: record {there.seq} of epoch {view.copy.epoch} "
        f"({there.chain.hex()[:12]}…), and the session went on to record {cold.seq} of epoch {cold.epoch} "
        f"({cold.chain.hex()[:12]}…) without it; it is left out"
    )
    _log.error("%s", left)
    _drop(tiers, view.copy)
    return left


def _drop(tiers: Tiers, copy: Copy) -> None:
    """Forgets this copy; one that is another by now belongs to somebody."""
    with suppress(ConflictError, HeldError):
        tiers.hot.forget(copy.lease, head=copy.head.seq)


def take(tiers: Tiers, cold: Head, *, epoch: int, last: Record | None) -> int | None:
    """Makes hot's copy one that takes our appends, where cold ends. By which number; None if it is not ours to take.

    That is one that another writer of our epoch has, or anyone of a later one, frozen or not: what `cold` said may be
    over by now, and what they were acknowledged is for the next opener to carry over. One of an earlier epoch is ours:
    what counted of it was carried over before our epoch began.

    Whoever took it writes to cold once more before hot acknowledges: that proves that nobody opened the session before
    the copy was there, and who opens it later freezes it first. `last` is the record that cold ends with, if known.
    """
    copy = tiers.hot.copy(cold.session)
    if copy is not None and _is_anothers(copy, cold, epoch):
        return None
    lease = Lease(cold.session, new_number(), "taken", epoch)
    try:
        if copy is not None:
            copy = freeze(tiers, cold.session)
        if copy is not None and _is_anothers(copy, cold, epoch):
            return None
        if copy is not None and not _is_beginning(tiers, View(cold, copy)):
            _leave(tiers, View(cold, copy))
        elif copy is not None and copy.head.seq >= max(seam_of(cold.bases), cold.seq - _CATCH_UP_MAX):
            _bring_up(tiers, copy, cold, lease)
            return lease.epoch
        elif copy is not None:
            _drop(tiers, copy)
        _begin(tiers, cold, lease, last)
    except (ConflictError, FencedError, HeldError, SessionError):
        return None  # somebody else is at it
    return lease.epoch


def _is_anothers(copy: Copy, cold: Head, epoch: int) -> bool:
    if copy.epoch == epoch:
        return not copy.is_frozen or copy.head.seq > cold.seq
    return copy.epoch > epoch


def _bring_up(tiers: Tiers, copy: Copy, cold: Head, lease: Lease) -> None:
    """Goes on with a copy that an earlier owner left."""
    tiers.hot.hand(copy.lease, lease)
    lacks = tuple(tiers.cold.read(cold.session, after=copy.head.seq, upto=cold.seq))
    if lacks:
        tiers.hot.append(cold.session, Batch(lacks, summary=cold.summary), epoch=lease.epoch, head=copy.head.seq)


def _begin(tiers: Tiers, cold: Head, lease: Lease, last: Record | None) -> None:
    tiers.hot.adopt(cold, lease)
    if cold.seq > seam_of(cold.bases):  # the proof of a tail begins with the record that cold ends with
        found = [last] if last is not None and last.seq == cold.seq else tiers.cold.read_at(cold.session, [cold.seq])
        tiers.hot.fill(lease, records=found)


def forget(tiers: Tiers, session: str) -> None:
    """Removes hot's copy, whatever it is."""
    for _ in range(TRIES):
        copy = tiers.hot.copy(session)
        if copy is None:
            return
        try:
            tiers.hot.forget(copy.lease, head=copy.head.seq)
        except (ConflictError, HeldError):
            continue
        return
    raise ConflictError(f"{session}: its copy in {tiers.hot.url} changes all the time; do it again")


def new_number() -> int:
    """One that no other copy of the session has, for the lease of one. It is below those of any incarnation."""
    return 1 + int.from_bytes(clock.new_bytes(4)) % (2**32 - 1)
