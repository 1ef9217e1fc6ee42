"""What a person does to a session: gives a restore point a name, goes back to one.

Whoever runs the session is asked to go back; else no code of the agent runs here. A name is a record of its own; a
rollback is the core's, in one commit with the status that makes the session ready to go on. Undos that it owes are run
by the process that opens the session next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure import limits, values
from perdure.errors import (
    HeldError,
    NoPointError,
    RefusedError,
    Suspended,
    SuspendedError,
    UndecidedError,
)
from perdure.log import points
from perdure.log.action import Actions
from perdure.log.branch import is_restore_point
from perdure.log.marks import name_mark
from perdure.recovery.going_back import driven, files_of
from perdure.runtime import sending
from perdure.session.keeping.delivery import instead
from perdure.session.keeping.lease import new_owner
from perdure.session.keeping.opening import Opened, append_one, find, opened_by, start
from perdure.session.rules import item as items
from perdure.session.rules.children import CANCEL
from perdure.session.rules.points import Core
from perdure.session.rules.request import Draft
from perdure.session.rules.status import status
from perdure.stores.ids import check_session_id

if TYPE_CHECKING:
    from perdure.runtime.deciding import Deciding


@dataclass(frozen=True, slots=True)
class Rollback:
    """What a rollback did: the record it went back to, the actions whose undos are owed, the effects left standing.

    `asked`: somebody runs the session, was asked, and goes back at the next action, save or wait of the code. `instead`
    is what was asked of a process that is gone and is not done any more: rollback, pause, cancel, save.
    """

    to: int
    undo: tuple[int, ...]
    standing: tuple[int, ...]
    asked: bool = False
    instead: tuple[str, ...] = ()


def checkpoint(store: Deciding, session: str, name: str, *, at: int | str = -1, by: str = "") -> int:
    """Gives a restore point that is there a name to roll back to. Its number.

    Durable on return. Raises `NoPointError` when there is none, `RefusedError` for a name that is none, `HeldError`.
    """
    _check_name(name)
    entries = list(store.log(session))
    target = points.find(entries, at)
    if not is_restore_point(target):
        raise NoPointError(f"{session} has no restore point yet: its code makes them with save() or checkpoint(name)")
    note = Draft("note", {"topic": points.CHECKPOINT, "name": name, "of": target.seq, "by": by}, (name_mark(name),))
    append_one(store.keeper, session, note, owner=new_owner(), lease_s=limits.LEASE_S)
    return target.seq


def _check_name(name: str) -> None:
    if not 1 <= len(name) <= limits.NAME_CHARS_MAX:
        raise RefusedError(f"the name of a checkpoint has 1 to {limits.NAME_CHARS_MAX} characters, not {len(name)}")
    if name.removeprefix("-").isdigit():
        raise RefusedError(f"{name!r} would be taken for the number of a restore point; choose another name")


def rollback(
    store: Deciding,
    session: str,
    to: int | str,
    *,
    reason: str = "",
    by: str = "operator",
    branch: str | None = None,
    strategy: Any = None,
) -> Rollback:
    """Goes back to a restore point; the session is paused there (a handle: idle) and goes on when it is next run.

    `to` is as in `log.points.find`; `strategy` is what `s.strategy` tells the code from there on. Durable on return.
    Raises `NoPointError`, `RefusedError` for a handle that is open, and `UndecidedError` when something after the point
    is in doubt and must be settled first.
    """
    try:
        return _go_back(store, session, to, reason=reason, by=by, branch=branch, strategy=strategy)
    except HeldError:
        return _ask_back(store, session, to, reason=reason, by=by, branch=branch, strategy=strategy)


def _ask_back(
    store: Deciding, session: str, to: int | str, *, reason: str, by: str, branch: str | None, strategy: Any
) -> Rollback:
    if store.info(session).form == "handle":
        raise RefusedError(
            f"{session} is a handle that somebody has open: only its own code can go back. Stop it, then roll back"
        )
    target = points.find(list(store.log(session)), to).seq
    back = {"to": 0 if to == 0 else target, "reason": reason, "strategy": strategy, "branch": branch}
    sending.rollback(store, session, back, by=by)
    return Rollback(target, (), (), asked=True)


def _go_back(
    store: Deciding, session: str, to: int | str, *, reason: str, by: str, branch: str | None, strategy: Any
) -> Rollback:
    with store.keeper.briefly(check_session_id(session), owner=new_owner(), lease_s=limits.LEASE_S) as lease:
        return _rolled_back(opened_by(store.backend, lease), to, reason=reason, by=by, branch=branch, strategy=strategy)


def left_children(store: Deciding, session: str, done: Rollback) -> list[str]:
    """The sessions whose starts the rollback left, as far as they have begun: their end is an undo that is owed."""
    actions = Actions(store.log(session))
    starts = [actions[seq] for seq in done.undo if actions[seq].undo == CANCEL]
    names = [str(values.decode(start.outcome.value)) for start in starts if start.outcome]
    return [name for name in names if find(store.backend, name) is not None]


def _rolled_back(opened: Opened, to: int | str, *, reason: str, by: str, branch: str | None, strategy: Any) -> Rollback:
    session, summary = opened.reader.session, opened.writer.summary
    target = points.find(opened.reader.entries(), to).seq
    core = Core(form=summary.form, nonce=opened.opening["nonce"], undos={})
    core.enter(start(opened, code="", accept_change=False))
    files = files_of(opened, core, conflicts="refuse")
    after = status("idle" if summary.form == "handle" else "paused", reason=f"rolled back to {target} by {by}")
    there = to if to in (0, -1) else target
    void, wishes = instead(opened.writer.store, session, why=f"rolled back to #{target} by {by}")
    try:
        steps = core.rollback(
            there,
            reason=reason,
            by=by,
            strategy=strategy,
            branch_name=branch,
            as_recorded=True,
            told=tuple(void),
            taken=items.numbers(wishes),
        )
        body = driven(steps, opened, after, files=files)
        asked = tuple(sent.what for sent in wishes)
        return Rollback(body["to"], tuple(body["undo"]), tuple(body["standing"]), instead=asked)
    except (Suspended, SuspendedError) as suspended:
        doubts = ", ".join(f"#{seq}" for seq in suspended.seqs)
        raise UndecidedError(
            f"{session}: {doubts} may or may not have happened; settle it, then roll back. "
            f"To settle: perdure settle {session} {suspended.seqs[0]} done|not-done|abandoned"
        ) from None
