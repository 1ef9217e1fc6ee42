"""Going on from what is provably good of a damaged session, because a person says so: in a session that he names.

It is what a restore does by itself (`recovery/ladder.py`), under any policy. The damaged session is never written to:
it is the evidence, and what is good in it can be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure import values
from perdure.errors import DamageError, RefusedError, SessionExistsError, SessionUnknownError
from perdure.log.action import Actions
from perdure.log.branch import SNAPSHOTS, branch
from perdure.log.origin import seam_of
from perdure.recovery.history import history
from perdure.recovery.ladder import beside, last_good
from perdure.recovery.replacement import replace
from perdure.recovery.restore import newest_of
from perdure.recovery.verify import verify
from perdure.session.keeping.succession import replaced_by
from perdure.session.rules import call as calls

if TYPE_CHECKING:
    from perdure.recovery.ladder import Rung
    from perdure.stores.contract import Store


@dataclass(frozen=True, slots=True)
class GoneOn:
    """The new session; the record of the damaged one that it goes on from, and the snapshot that its code finds there.

    `newer` is a snapshot of the damaged session that is good, too, and newer; 0 for none. `standing` are the actions
    that the damaged session recorded after that place and that may not run twice; the new one has them as left behind.
    `lost` is how many records cannot be read and may each have been the start of another: it asks about those.
    """

    session: str
    source: str
    at: int
    snapshot: int
    newer: int
    standing: tuple[str, ...]
    lost: int = 0


@values.inert()
def go_on(store: Store, session: str, into: str, *, by: str) -> GoneOn:
    """Makes the session that goes on. Durable on return.

    Raises `RefusedError` if it is not damaged, `DamageError` if not even its opening is good, and as a fork does.
    """
    report = verify(store, session)
    if report.ok:
        raise RefusedError(f"{session} is not damaged: go on with it as it is, or fork it")
    found = history(store, session)
    good = last_good(found)
    rung = beside(found, good, why=str(report.problems[0]), fresh=True) if good > seam_of(found.head.bases) else None
    if rung is None:
        raise DamageError(f"{session}: not even its opening is good; bring back a copy of the store")
    _check_free(store, into)
    if (other := replaced_by(store, session)) not in ("", into):
        raise RefusedError(f"{other} goes on in the place of {session} already; a second one would do the same again")
    newest = newest_of(found).seq
    replace(store, session, into, rung, by=by)
    return GoneOn(
        into, session, rung.at, _snapshot(rung), newest if newest > rung.at else 0, _standing(rung), rung.lost
    )


def _check_free(store: Store, into: str) -> None:
    """Before the damaged session is told that another goes on."""
    try:
        store.head(into)
    except SessionUnknownError:
        return
    raise SessionExistsError(f"there is a session {into} already; nothing was changed. Go on in another one")


def _snapshot(rung: Rung) -> int:
    tip = branch(entry for entry in rung.entries if entry.seq <= rung.at)
    return rung.at if rung.begins else next((e.seq for e in reversed(tip) if e.kind in SNAPSHOTS), 0)


def _standing(rung: Rung) -> tuple[str, ...]:
    later = Actions(entry for entry in rung.entries if entry.seq > rung.at)
    return tuple(
        f"{calls.call_text(action.name, action.args)} (record {seq})"
        for seq, action in later.items()
        if action.effect != "repeatable" and action.standing
    )
