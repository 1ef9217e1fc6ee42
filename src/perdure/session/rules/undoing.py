"""What a rollback leaves behind: the undos that it owes, and the effects that stand.

It must not know why somebody goes back.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.errors import RecordedError
from perdure.log.branch import SNAPSHOTS, is_reentry
from perdure.session.rules import call as calls
from perdure.session.rules.call import Options
from perdure.session.rules.children import CANCEL
from perdure.session.rules.request import Draft
from perdure.session.rules.shared import UNSHARE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from perdure.errors import NotKeptError
    from perdure.log.action import Action
    from perdure.log.entry import Entry


OWN_UNDOS: Final = (CANCEL, UNSHARE)
"""The undos that are the session's own, and no function of the user's."""


def own_undo(fn: Callable[..., Any], action: Action) -> calls.Call:
    """The call that undoes the start of a child, or an effect of the whole store: it may be made twice."""
    if action.undo == UNSHARE:
        given, name = {"key": values.decode(action.key or b"")}, "undo"
    else:
        given, name = {"child": values.decode(action.outcome.value) if action.outcome else ""}, "cancel"
    call = calls.make(fn, (), given, Options(effect="idempotent", name=name))
    return replace(call, undoes=action.seq)


def no_undo(fn: Callable[..., Any], lost: NotKeptError) -> calls.Call:
    """The call that stands for an undo which cannot be called, as what it is called with is not there: it fails."""

    def refuse() -> None:
        raise RecordedError("NotKeptError", f"its argument is not there any more, or could not be stored: {lost}")

    return calls.make(refuse, (), {}, Options(effect="repeatable", name=calls.name_of(fn)))


def rolled_back(
    tip: list[Entry],
    target: Entry,
    left: list[Action],
    *,
    seam: int,
    reason: str,
    by: str,
    strategy: Any,
    kept: Any = None,
    name: str | None = None,
    files: Mapping[str, Any] = MappingProxyType({}),
) -> Draft:
    """The record of a rollback that leaves these actions, with the undos that it owes. `name` is that of the branch.

    `kept` is the strategy in force, for a policy that goes on with it where `strategy` is None; `files` tells
    of a workspace. What a fork has from its base is not its to undo: the session that did it goes on and relies on it.
    """
    undo = [
        a.seq
        for a in reversed(left)
        if a.seq > seam and a.undo and a.outcome and a.outcome.how in ("result", "unstorable") and not a.undone
    ]
    standing = [a.seq for a in left if a.effect != "repeatable" and a.seq not in undo and a.standing]
    reentry = next(e for e in reversed(tip) if is_reentry(e) and e.seq <= target.seq)
    body = {
        "to": target.seq,
        "parent": target.seq if target.kind in SNAPSHOTS else 0,
        "reentry": reentry.seq,
        "reason": reason,
        "by": by,
        "strategy": values.encode(strategy, at="strategy"),
        "undo": undo,
        "standing": standing,
        "branch": name,
        **files,
    }
    if strategy is None and kept is not None:
        body["kept"] = values.encode(kept, at="strategy")
    there, here = version_at(e for e in tip if e.seq <= target.seq), version_at(tip)
    return Draft("rolled_back", body if there == here else body | {"version": there})


def version_at(tip: Iterable[Entry]) -> str | None:
    """What the state was last migrated to; None if it is of the version that the session was opened with."""
    found = [entry["to"] for entry in tip if entry.kind == "migrated"]
    return found[-1] if found else None
