"""What a person does to a session that nobody runs: gives a restore point a name, goes back to one.

No code of the agent runs here. A name is a record of its own; a rollback is the core's, in one commit with the status
that makes the session ready to go on. Undos that it owes are run by the process that opens the session next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perdure import limits
from perdure.errors import (
    NoPointError,
    RefusedError,
    RolledBack,
    SessionUnknownError,
    Suspended,
    SuspendedError,
    UndecidedError,
)
from perdure.log.branch import branch, is_reentry, is_restore_point
from perdure.session.lease import acquire, new_owner
from perdure.session.opening import Opened, append_one, start, take_up
from perdure.session.points import Core, status
from perdure.session.request import Commit, Draft, ReadAll, Steps
from perdure.stores.ids import check_session_id

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.runtime.store import AgentStore
    from perdure.stores.contract import Lease
    from perdure.stores.contract import Store as Backend

CHECKPOINT: Final = "checkpoint"
"""The topic of a note that names a restore point."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """What a rollback did: the record it went back to, the actions whose undos are owed, the effects left standing."""

    to: int
    undo: tuple[int, ...]
    standing: tuple[int, ...]


def names(entries: list[Entry]) -> dict[str, int]:
    """The names of the restore points of the present branch, each with the newest point that bears it."""
    there = {entry.seq for entry in branch(entries) if is_restore_point(entry)}
    found: dict[str, int] = {}
    for entry in entries:
        name, seq = _naming(entry)
        if name is not None and seq in there:
            found[name] = seq
    return found


def _naming(entry: Entry) -> tuple[str | None, int]:
    if entry.kind == "note" and entry.body.get("topic") == CHECKPOINT:
        return entry["name"], entry["of"]
    return (entry["name"], entry.seq) if is_restore_point(entry) else (None, 0)


def point(entries: list[Entry], session: str, at: int | str) -> int:
    """The number of the restore point that is meant: a name, a number, -1 the newest, 0 the re-entry point.

    Only those of the present branch count. Raises `NoPointError`, which lists those that are there.
    """
    tip = branch(entries)
    points = [entry.seq for entry in tip if is_restore_point(entry)]
    named = names(entries)
    if at == 0 or (at == -1 and not points):
        return next(entry.seq for entry in reversed(tip) if is_reentry(entry))
    found = points[-1] if at == -1 else named.get(at) if isinstance(at, str) else at
    if found in points:
        return int(found)
    bearing = {seq: name for name, seq in named.items()}
    known = ", ".join(f"{seq} ({bearing[seq]})" if seq in bearing else f"{seq}" for seq in points[-20:])
    raise NoPointError(f"{session} has no restore point {at!r} on this branch; there are: {known or 'none yet'}")


def checkpoint(store: AgentStore, session: str, name: str, *, at: int | str = -1, by: str = "") -> int:
    """Gives a restore point that is there a name to roll back to. Its number.

    Durable on return. Raises `NoPointError` when there is none, `RefusedError` for a name that is none, `HeldError`.
    """
    _check_name(name)
    entries = list(store.log(session))
    seq = point(entries, session, at)
    if not any(entry.seq == seq and is_restore_point(entry) for entry in entries):
        raise NoPointError(f"{session} has no restore point yet: its code makes them with save() or checkpoint(name)")
    note = Draft("note", {"topic": CHECKPOINT, "name": name, "of": seq, "by": by})
    append_one(store.backend, session, note, owner=new_owner(), lease_s=limits.LEASE_S)
    return seq


def _check_name(name: str) -> None:
    if not 1 <= len(name) <= limits.NAME_CHARS_MAX:
        raise RefusedError(f"the name of a checkpoint has 1 to {limits.NAME_CHARS_MAX} characters, not {len(name)}")
    if name.removeprefix("-").isdigit():
        raise RefusedError(f"{name!r} would be taken for the number of a restore point; choose another name")


def rollback(store: AgentStore, session: str, to: int | str, *, reason: str = "", by: str = "operator") -> Rollback:
    """Goes back to a restore point; the session is paused there (a handle: idle) and goes on when it is next run.

    `to` is as in `point`. Durable on return. Raises `NoPointError`, `HeldError`, and `UndecidedError` when something
    after the point is in doubt and must be settled first.
    """
    backend = store.backend
    lease = acquire(backend, check_session_id(session), owner=new_owner(), wait_s=0.0, lease_s=limits.LEASE_S)
    try:
        return _rolled_back(_opened(backend, lease), to, reason=reason, by=by)
    finally:
        backend.release(lease)


def _opened(backend: Backend, lease: Lease) -> Opened:
    writer, reader, tail = take_up(backend, lease.session, epoch=lease.epoch)
    if not tail:
        raise SessionUnknownError(f"nothing was ever written to {lease.session}")
    return Opened(lease, writer, reader, reader.entries(upto=1)[0], tail)


def _rolled_back(opened: Opened, to: int | str, *, reason: str, by: str) -> Rollback:
    session, summary = opened.reader.session, opened.writer.summary
    target = point(opened.reader.entries(), session, to)
    core = Core(form=summary.form, nonce=opened.opening["nonce"], undos={})
    core.enter(start(opened, code="", accept_change=False))
    after = status("idle" if summary.form == "handle" else "paused", reason=f"rolled back to {target} by {by}")
    try:
        return _drive(
            core.rollback(to if to in (0, -1) else target, reason=reason, by=by, strategy=None), opened, after
        )
    except (Suspended, SuspendedError) as suspended:
        doubts = ", ".join(f"#{seq}" for seq in suspended.seqs)
        raise UndecidedError(
            f"{session}: {doubts} may or may not have happened; settle it, then roll back. "
            f"To settle: perdure settle {session} {suspended.seqs[0]} done|not-done|abandoned"
        ) from None


def _drive(steps: Steps, opened: Opened, after: Draft) -> Rollback:
    """Performs what the core asks for; what it writes is one commit together with `after`."""
    bodies: list[dict[str, Any]] = []
    answer: Any = None
    try:
        while True:
            match steps.send(answer):
                case ReadAll():
                    answer = opened.reader.entries()
                case Commit() as commit:
                    bodies += [draft.body for draft in commit.drafts]
                    opened.writer.commit(Commit((*commit.drafts, after), commit.then))
                    answer = None
                case other:
                    raise AssertionError(f"a rollback by a person runs no code, but asked for {other}")
    except (StopIteration, RolledBack):
        body = bodies[0]
        return Rollback(body["to"], tuple(body["undo"]), tuple(body["standing"]))
