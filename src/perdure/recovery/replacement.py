"""A session that goes on in the place of a damaged one, which is never written to again.

Its id follows from that of the damaged one, so whoever runs that finds it. Should the damaged one become readable, as
when a copy of the store is brought back, it is cancelled before its code does anything: two that go on from one place
would pay twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure import clock, faults, values
from perdure.errors import DamageError, RestoreError, SessionUnknownError
from perdure.log.action import Actions
from perdure.log.branch import REENTRY, RESTORE_POINT, SNAPSHOTS, branch
from perdure.log.entry import Entry
from perdure.log.record import GENESIS
from perdure.log.summary import Summary
from perdure.recovery.carried import begun, carried
from perdure.recovery.history import history
from perdure.recovery.restore_policy import BY
from perdure.session.keeping import tree
from perdure.session.keeping.forking import fork
from perdure.session.keeping.lease import new_owner
from perdure.session.keeping.opening import opening_of
from perdure.session.keeping.snapshot import Reader
from perdure.session.keeping.succession import KEY, next_id, why
from perdure.session.keeping.writer import Writer
from perdure.session.rules import item as items
from perdure.session.rules import lost
from perdure.session.rules.children import CANCEL
from perdure.session.rules.item import Sent
from perdure.session.rules.request import Commit, Draft
from perdure.stores.conditions import epoch_after

if TYPE_CHECKING:
    from perdure.log.entry import Body
    from perdure.recovery.ladder import Rung
    from perdure.stores.contract import Store

NONCE_BYTES: Final = 16


def replacement(store: Store, session: str) -> str:
    """The session that goes on in the place of this one; "" for none. Raises `RestoreError` if the id is another's."""
    there = next_id(session)
    try:
        head = store.head(there)
    except SessionUnknownError:
        return ""
    if not head.seq:
        return ""
    try:
        origin = opening_of(Reader(store, there)).body.get("origin") or {}
    except DamageError:
        return there  # damaged itself: whoever opens it finds out
    if origin.get("session") != session or not origin.get("replaces"):
        raise RestoreError(
            f"{session} is damaged, and a session {there} is there that does not go on from it; "
            f"run: perdure doctor {session} --go-on NEW"
        )
    return there


def replace(store: Store, session: str, into: str, rung: Rung, *, by: str) -> None:
    """Makes the session `into` go on at this rung. Whoever calls holds the damaged one. Durable on return.

    Killed anywhere, it may just be done again. Raises as a fork does.
    """
    what = "the newest state" if rung.begins else "the last record"
    reason = f"#{rung.at} is {what} that is provably good: {rung.report.why}"
    origin = {"session": session, "seq": rung.at, "reason": reason, "by": by, "replaces": True}
    begun = _begun_unseen(store, session, rung)
    told = lost.note(rung.lost, rung.lost_keys, source=session, report=rung.report.body(), children=begun)
    _fence(store, session, into)
    faults.reach("restore.fenced")
    with values.inert():
        (_begin if rung.begins else _fork)(store, into, rung, origin, told)


def _begun_unseen(store: Store, session: str, rung: Rung) -> dict[str, str]:
    """Children whose start is in no record that can be read: the newest of each key. They are there, all the same."""
    starts = [a for a in Actions(rung.entries).values() if a.undo == CANCEL and a.outcome and a.outcome.how == "result"]
    known = {values.decode(start.outcome.value) for start in starts if start.outcome}
    found: dict[str, tuple[int, str]] = {}
    for child, key, number in tree.begun(store, session):
        if child not in known:
            found[key] = max(found.get(key, (0, "")), (number, child))
    return {key: child for key, (_, child) in found.items()}


def _fork(store: Store, into: str, rung: Rung, origin: Body, told: Draft) -> None:
    """All records up to the place are good: the new session has them."""
    before = [entry for entry in rung.entries if entry.seq <= rung.at]
    later = [entry for entry in rung.entries if entry.seq > rung.at]
    point = next((e.seq for e in reversed(branch(before)) if e.kind in SNAPSHOTS), 0)

    def drafts(opening: Entry) -> list[Draft]:
        return [*carried(before, later, opening, point=point, reason=origin["reason"]), told]

    known = Summary()
    for entry in before:
        known = known.after(entry)
    source, reason, by = origin["session"], origin["reason"], origin["by"]
    fork(store, source, into, at=rung.at, reason=reason, by=by, own={"origin": origin}, drafts=drafts, known=known)


def _begin(store: Store, into: str, rung: Rung, origin: Body, told: Draft) -> None:
    """The state is good, records before it are not: the new session begins with it, and with what effects it must know.

    It has the effects with a key from before, and as left behind those from after.
    """
    reader = Reader(store, origin["session"])
    opening = opening_of(reader)
    version = opening["version"] if rung.version is None else rung.version
    own = {"nonce": clock.new_bytes(NONCE_BYTES), "origin": origin | {"snapshot": f"#{rung.at}"}, "version": version}
    state = history(store, origin["session"]).state(rung.at)
    body = {
        "parent": 0,
        "delta": values.encode([["set", [name], value] for name, value in state.items()]),
        "flags": REENTRY | RESTORE_POINT,
        "name": None,
        "reason": origin["reason"],
        "open": [],
    }
    epoch = epoch_after(0, incarnation=store.incarnation())
    first = Entry(1, epoch, "opened", clock.now_us(), opening.body | own)
    drafts = [Draft("opened", first.body), *begun(rung, first, Draft("saved", body), reason=origin["reason"]), told]
    writer = Writer(store, into, epoch=epoch, head=0, chain=GENESIS, summary=Summary())
    owner = new_owner()
    store.release(writer.open(Commit(tuple(drafts), lambda _: None), owner=owner, seen=None))


def _fence(store: Store, session: str, into: str) -> None:
    """What cancels the damaged session, should it ever be opened again. It lies beside the log."""
    sent = Sent(items.CANCEL, values.encode(why(into)), BY, KEY + into)
    store.send(session, items.content_of(sent, session=session, codec=store.protocol), mark=items.mark_of(sent))
