"""A store that was taken back to an older copy of itself on purpose: accepted on the record, in a new incarnation.

Each session's log says so, and the witness is told; no epoch that was given before is given again. What happened after
the copy was made nobody here knows any more: it decides nothing about that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure import clock, faults
from perdure.errors import DamageError, PerdureError, RefusedError, UnfinishedError
from perdure.log import GENESIS
from perdure.recovery.verify import STRUCTURE, verify
from perdure.session.keeping.lease import acquire
from perdure.session.keeping.opening import take_up
from perdure.session.rules.request import Commit, Draft
from perdure.stores.conditions import INCARNATION_BITS, incarnation_of
from perdure.stores.contract import Head, Store
from perdure.stores.ids import HOUSE
from perdure.stores.witness import WitnessedStore
from perdure.stores.witness.told import ERASED, LOST, Told, told_of

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC = "restored"
"""The topic of the note that says so in each log."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The store's new incarnation; `sessions` go on as they are in this copy, `lost` are not in it.

    `erased` had been erased since and were erased again. `left` could not be accepted, each with why: done again, it
    goes on with those.
    """

    incarnation: int
    sessions: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    erased: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()


def accept(store: Store, *, reason: str, by: str, owner: str, lease_s: float) -> Accepted:
    """See `AgentStore.accept_restored`."""
    if not reason.strip():
        raise RefusedError("say why the store was restored: the reason is recorded in each session")
    inner = store.inner if isinstance(store, WitnessedStore) else store
    inner.protocol = store.protocol
    roll = {told.session: told for told in store.roll()} if isinstance(store, WitnessedStore) else {}
    heads = inner.heads()
    known = [incarnation_of(head.epoch) for head in heads] + [told.incarnation for told in roll.values()]
    number = max(inner.incarnation(), *known, 0) + 1
    inner.begin_incarnation(number)
    faults.reach("restored.begun")
    note = store.guard.body("note", {"topic": TOPIC, "incarnation": number, "reason": reason, "by": by})
    taken, erased, left = [], [], []
    for head in sorted(heads, key=lambda head: len(head.bases), reverse=True):  # forks go before their bases
        told = roll.get(head.session)
        try:
            if told is not None and told.what == ERASED:
                inner.delete(head.session)
                erased.append(head.session)
                continue
            now = _taken_on(inner, head, note | {"told": _named(told)}, owner=owner, lease_s=lease_s)
            _tell(store, [told_of(now)] if now.seq else [])
            taken.append(head.session)
        except PerdureError as error:
            left.append((head.session, str(error)))
        faults.reach("restored.inside")
    lost = _lost(store, roll, {head.session for head in heads}, number=number)
    taken, lost = sorted({*taken} - HOUSE), sorted({*lost} - HOUSE)
    return Accepted(number, tuple(taken), tuple(lost), tuple(sorted(erased)), tuple(sorted(left)))


def _taken_on(store: Store, head: Head, note: Mapping[str, object], *, owner: str, lease_s: float) -> Head:
    """The session in an epoch of the new incarnation, with the note in its log; its new head."""
    session = head.session
    report = verify(store, session, data=STRUCTURE)
    if not report.ok and any(problem.kind != "unfinished" for problem in report.problems):
        raise DamageError(f"{report.problems[0]}; bring back a copy in which it is whole")
    lease = acquire(store, session, owner=owner, wait_s=2 * lease_s, lease_s=lease_s)
    try:
        if head.seq:
            writer, _, _ = take_up(store, session, epoch=lease.epoch)
            writer.commit(Commit((Draft("note", dict(note)),), lambda _: None))
    except UnfinishedError:
        pass  # the import that is done again goes on with it
    finally:
        store.release(lease)
    return store.head(session)


def _named(told: Told | None) -> dict[str, object] | None:
    return None if told is None else {"seq": told.seq, "epoch": told.epoch, "chain": told.chain.hex()}


def _lost(store: Store, roll: Mapping[str, Told], there: set[str], *, number: int) -> list[str]:
    """The sessions that the witness knows and this copy does not have: told so, and named."""
    gone = [told for session, told in roll.items() if session not in there and told.what not in (ERASED, LOST)]
    epoch = number << INCARNATION_BITS
    _tell(store, [Told(told.session, LOST, 0, epoch, GENESIS, clock.now_us()) for told in gone])
    return [told.session for told in gone if told.seq]


def _tell(store: Store, told: list[Told]) -> None:
    if isinstance(store, WitnessedStore):
        store.tell_now(told)
