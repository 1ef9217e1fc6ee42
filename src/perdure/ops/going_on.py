"""Going on from what is provably good of a damaged session: a fork that ends before the damage.

The damaged session stays as it is, and is never written to: it is the evidence, and what is good in it can be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure import values
from perdure.errors import DamageError, FormatNewerError, RefusedError
from perdure.log.action import Actions
from perdure.log.branch import SNAPSHOTS, branch
from perdure.recovery.history import History, history
from perdure.recovery.restore import newest_of
from perdure.recovery.verify import verify
from perdure.session.keeping.forking import fork
from perdure.session.rules import call as calls

if TYPE_CHECKING:
    from perdure.stores.contract import Store


@dataclass(frozen=True, slots=True)
class GoneOn:
    """The new session; the record of the damaged one that it goes on from, and the snapshot that its code finds there.

    `newer` is a snapshot of the damaged session that is good, too, and newer; 0 for none. `standing` are the actions
    that the damaged session recorded after that place and that may not run twice: the new one does not know of them.
    """

    session: str
    source: str
    at: int
    snapshot: int
    newer: int
    standing: tuple[str, ...]


@values.inert()
def go_on(store: Store, session: str, into: str, *, by: str) -> GoneOn:
    """Forks a damaged session at the last record before the damage. Durable on return.

    Raises `RefusedError` if it is not damaged, `DamageError` if not even its opening is good, and as a fork does.
    """
    report = verify(store, session)
    if report.ok:
        raise RefusedError(f"{session} is not damaged: go on with it as it is, or fork it")
    found = history(store, session)
    good, point = _good(found)
    if good < 1:
        raise DamageError(f"{session}: not even its opening is good; bring back a copy of the store")
    newest = newest_of(found).seq
    fork(store, session, into, at=good, reason="the records after it are damaged", by=by)
    return GoneOn(into, session, good, point, newest if newest > good else 0, _standing(found, good))


def _good(found: History) -> tuple[int, int]:
    """The last record up to which all are good and the state can be had; and the snapshot that is the newest there."""
    good = next((seq - 1 for seq in range(1, found.last + 1) if seq not in found.entries), found.last)
    while good:
        tip = branch(found.entries[seq] for seq in range(1, good + 1))
        point = next((entry.seq for entry in reversed(tip) if entry.kind in SNAPSHOTS), 0)
        try:
            found.state(point)
        except FormatNewerError:
            raise
        except DamageError:
            good = point - 1  # its deltas or chunks are what is damaged
        else:
            return good, point
    return 0, 0


def _standing(found: History, good: int) -> tuple[str, ...]:
    later = Actions(entry for entry in found.entries.values() if entry.seq > good)
    return tuple(
        f"{calls.call_text(action.name, action.args)} (record {seq})"
        for seq, action in later.items()
        if action.effect != "repeatable" and action.standing
    )
