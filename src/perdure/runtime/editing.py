"""A state that a person changes by hand, of a session that nobody runs: a new re-entry point, at which a branch begins.

No code of the agent runs here. What was called since the re-entry point before is still answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from perdure import faults, limits, values
from perdure.errors import DamageError, HeldError, MigrationError, RefusedError
from perdure.log.branch import REPLACING, branch, is_reentry
from perdure.session.declare import agent_of
from perdure.session.keeping.delivery import deliver, instead
from perdure.session.keeping.lease import new_owner
from perdure.session.keeping.opening import newest, opened_by
from perdure.session.keeping.replacing import check_fault, replacing
from perdure.session.keeping.snapshot import snapshot
from perdure.session.rules import item as items
from perdure.session.rules.request import Commit
from perdure.session.rules.status import OVER
from perdure.session.typed import check_parts
from perdure.state import delta, place
from perdure.state.survey import shown
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


def edit(
    store: AgentStore,
    session: str,
    changes: Changes,
    *,
    by: str,
    reason: str,
    name: str | None,
    fn: Callable[..., Any] | None,
) -> int:
    """Changes the state from which the code goes on: the record that says so. See `AgentStore.edit`."""
    ops = _ops(changes)
    own = {"by": by, "reason": reason or None, **({"branch": name} if name else {})}
    deliver(store.keeper, check_session_id(session), owner=new_owner(), lease_s=limits.LEASE_S)
    try:
        with store.keeper.briefly(check_session_id(session), owner=new_owner(), lease_s=limits.LEASE_S) as lease:
            return _edited(opened_by(store.backend, lease), ops, own=own, fn=fn)
    except HeldError:
        check(store, session)
        raise  # by somebody who is gone meanwhile, or does not run it


def check(store: AgentStore, session: str) -> None:
    """Raises `RefusedError` for a script, `HeldError` for a session that somebody runs."""
    info = store.info(check_session_id(session))
    _check_form(session, info.form)
    if info.owner:
        first = "close it first" if info.form == "handle" else f"first: perdure pause {session}"
        raise HeldError(f"{session} is being run by {info.owner}: a state is changed between two runs; {first}")


def state_of(store: AgentStore, session: str) -> dict[str, Any]:
    """The state that an edit would change. Raises as `edit` does, before anybody has typed anything."""
    check(store, session)
    tail = branch(list(store.log(session)))
    at = next(entry for entry in reversed(tail) if is_reentry(entry) or entry.kind in REPLACING)
    return {} if at.kind == "opened" else store.state_at(session, at.seq)


def _check_form(session: str, form: str) -> None:
    if form == "script":
        raise RefusedError(f"{session} is a script: {_NO_SCRIPT}")


def _edited(opened: Opened, ops: list[Op], *, own: dict[str, Any], fn: Callable[..., Any] | None) -> int:
    reader, writer = opened.reader, opened.writer
    session, summary = reader.session, writer.summary
    _check_form(session, summary.form)
    if summary.status in OVER:
        raise RefusedError(f"{session} is {summary.status}; roll it back first: perdure rollback {session} POINT")
    found, encoded = newest(opened), values.encode(ops, at="changes")
    with values.inert():  # what is not changed stays as it is stored, whatever became of its class
        old, new = (snapshot(reader, found.point).all() for _ in range(2))
        for number, op in enumerate(values.decode(encoded), 1):
            _apply(session, new, op, number=number)
        draft = replacing("edited", found, (old, new), own=own)
    if fn is not None:
        _check(session, delta.patch(snapshot(reader, found.point).all(), values.decode(encoded)), fn)
    void, wishes = instead(writer.store, session, why=f"its state was edited by {own['by']}")
    faults.reach("edit.before")
    writer.commit(Commit((*void, draft), lambda _: None, items.numbers(wishes)))
    return writer.head


def _apply(session: str, state: dict[str, Any], op: Op, *, number: int) -> None:
    """Makes one change. Raises `RefusedError`, with its place."""
    try:
        delta.apply(state, op)
    except DamageError as error:
        why = error.__cause__
        what = f"there is no {why}" if isinstance(why, KeyError) else str(why)
        at = f"change {number}, {op[0]} at {shown(op[1])}"
        raise RefusedError(
            f"{session}: {at}: {what}. Nothing was written; perdure state {session} shows what is there"
        ) from error


def _check(session: str, state: dict[str, Any], fn: Callable[..., Any]) -> None:
    """Raises `RefusedError` unless the code takes this state."""
    agent = agent_of(fn)
    try:
        fault = check_parts(agent.state, state) or check_fault(agent.validate, state)
    except MigrationError as error:
        raise RefusedError(f"{session}: {error}. Nothing was written") from error
    if fault:
        raise RefusedError(f"{session}: the changed state is not one of its code: {fault}. Nothing was written")


def _ops(changes: Any) -> list[Op]:
    """The operations, each whole. Raises `RefusedError` for what is none."""
    if isinstance(changes, Mapping):
        return [["set", place.parsed(text), value] for text, value in changes.items()]
    if not isinstance(changes, list | tuple):
        raise RefusedError(f"{values.describe(changes)} is no list of changes, nor values by their paths")
    return [_op(one, number=number) for number, one in enumerate(changes, 1)]


_TAKES: Final = {"set": 1, "del": 0, "extend": 1, "splice": 3, "order": 1}
"""What comes behind the path of an operation (`state.delta`)."""


def _op(one: Any, *, number: int) -> Op:
    if not isinstance(one, list | tuple) or len(one) < 2 or one[0] not in _TAKES:
        raise RefusedError(
            f"change {number}, {values.describe(one)}, is none: write one as [what, path, …], with what of "
            f'{", ".join(_TAKES)}, such as ["set", ["plan", "steps", 0], true]'
        )
    what, path, *more = one
    path = place.parsed(path) if isinstance(path, str) else path
    if not isinstance(path, list | tuple) or not (path or what == "order") or not isinstance((*path, "")[0], str):
        raise RefusedError(f"change {number}, {what} at {values.describe(path)}: a path begins with the name of a part")
    if len(more) != _TAKES[what]:
        raise RefusedError(
            f"change {number}, {what} at {shown([*path])}: {_TAKES[what]} values come behind the path, not {len(more)}"
        )
    return [what, [*path], *more]
