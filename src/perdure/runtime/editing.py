"""A state that a person changes by hand, of a session that nobody runs: a new re-entry point, at which a branch begins.

No code of the agent runs here. What was called since the re-entry point before is still answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from perdure import faults, limits, values
from perdure.errors import DamageError, RefusedError
from perdure.session.keeping.lease import new_owner
from perdure.session.keeping.opening import newest, opened_by
from perdure.session.keeping.replacing import replacing
from perdure.session.keeping.snapshot import snapshot
from perdure.session.rules.request import Commit
from perdure.session.rules.status import OVER
from perdure.state import delta, place
from perdure.stores.ids import check_session_id

if TYPE_CHECKING:
    from perdure.runtime.store import AgentStore
    from perdure.session.keeping.opening import Opened
    from perdure.state.delta import Op

Changes: TypeAlias = Mapping[str, Any] | Sequence[list[Any]]
"""What is to be changed: a value for each path (`plan.steps[0].done`), or operations as `perdure.patch` takes them."""

_NO_SCRIPT: Final = (
    "its code builds its state anew from the opening each time, so a changed one would not be seen; change the code, "
    "or what a call was answered with (perdure replay --drive)"
)


def edit(store: AgentStore, session: str, changes: Changes, *, by: str, reason: str) -> int:
    """Changes the state from which the code goes on: the record that says so. See `AgentStore.edit`."""
    ops = _ops(changes)
    with store.keeper.briefly(check_session_id(session), owner=new_owner(), lease_s=limits.LEASE_S) as lease:
        return _edited(opened_by(store.backend, lease), ops, by=by, reason=reason)


def _edited(opened: Opened, ops: list[Op], *, by: str, reason: str) -> int:
    reader, writer = opened.reader, opened.writer
    session, summary = reader.session, writer.summary
    if summary.form == "script":
        raise RefusedError(f"{session} is a script: {_NO_SCRIPT}")
    if summary.status in OVER:
        raise RefusedError(f"{session} is {summary.status}; roll it back first: perdure rollback {session} POINT")
    found, encoded = newest(opened), values.encode(ops, at="changes")
    with values.inert():  # what is not changed stays as it is stored, whatever became of its class
        old, new = (snapshot(reader, found.point).all() for _ in range(2))
        try:
            delta.patch(new, values.decode(encoded))
        except DamageError as error:
            raise RefusedError(f"{session}: {error}. Nothing was written; perdure state {session} shows it") from error
        own = {"by": by, "reason": reason or None}
        draft = replacing("edited", found, (old, new), own=own)
    faults.reach("edit.before")
    writer.commit(Commit((draft,), lambda _: None))
    return writer.head


def _ops(changes: Changes) -> list[Op]:
    if isinstance(changes, Mapping):
        return [["set", place.parsed(text), value] for text, value in changes.items()]
    return list(changes)
