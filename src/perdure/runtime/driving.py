"""What if: a session is forked at a place, something of it is changed, and the fork is run on for real.

The session itself is only read. What is changed is recorded in the fork, by whom and why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure import values
from perdure.errors import EntryError, SessionUnknownError, UndecidedError
from perdure.log import points
from perdure.log.action import CHANGED, Actions, about
from perdure.log.branch import branch, since_reentry
from perdure.log.marks import key_mark
from perdure.runtime import entry as entries
from perdure.session.keeping.forking import fork
from perdure.session.keeping.opening import NO_INPUT, find
from perdure.session.keeping.snapshot import Reader
from perdure.session.rules.request import Draft
from perdure.stores.ids import check_session_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perdure.log.action import Action
    from perdure.log.entry import Body, Entry
    from perdure.session.keeping.forking import Fork
    from perdure.stores.contract import Store

OPENING = 1
"""The record that a session begins with: with another input, nothing that it did holds."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is otherwise in the fork: results by the number of the action, the input; by whom, and why."""

    result: Mapping[int, Any]
    input: Any = NO_INPUT
    reason: str = ""
    by: str = ""


def function(store: Store, session: str) -> Callable[[Any], Any]:
    """The function that a session recorded. Raises `EntryError`, `SessionUnknownError`."""
    summary = find(store, check_session_id(session))
    if summary is None:
        raise SessionUnknownError(f"no session {session} in {store.url}")
    if not summary.entry:
        raise EntryError(
            f"{session} recorded no entry point (a handle, a lambda or a local function): name the function"
        )
    return entries.load(summary.entry)


def forked(store: Store, session: str, into: str, change: Change, *, at: int | str | None) -> Fork:
    """The fork, with what is changed in it, in one commit; see `AgentStore.drive`. Durable on return."""
    whole = Reader(store, check_session_id(session)).entries()
    place = _place(whole, at, change)
    drafts = _changed(session, [entry for entry in whole if entry.seq <= place], change)
    own: Body = {} if change.input is NO_INPUT else {"input": values.encode(change.input, at="input")}
    into = check_session_id(into)
    return fork(store, session, into, at=place, reason=change.reason, by=change.by, own=own, drafts=drafts)


def _place(whole: list[Entry], at: int | str | None, change: Change) -> int:
    """Where the fork goes on from: what was asked for, else the last place of which everything can still hold."""
    if isinstance(at, int) and at > 0:
        return at
    if at is not None:
        return points.find(whole, at).seq
    if change.result:
        return _end_of(whole, change.result)
    return OPENING if change.input is not NO_INPUT else len(whole)


def _end_of(whole: list[Entry], result: Mapping[int, Any]) -> int:
    """The record after which all of these have ended, and those beside them whose ends come without a break."""
    place = max((entry.seq for entry in whole if {entry.seq, about(entry)} & {*result}), default=OPENING)
    for entry in whole[place:]:
        if entry.kind != "keyframe" and (about(entry) or entry.seq) > place:
            break
        place = entry.seq
    return place


def _changed(session: str, upto: list[Entry], change: Change) -> list[Draft]:
    """The records that change these results. Raises `UndecidedError` for one that is not answered from that place."""
    tip = branch(upto)
    actions = Actions(tip)
    answered = {entry.seq for entry in since_reentry(tip)}
    for seq in change.result:
        if seq not in answered:
            why_not = "is no action on the branch there" if seq not in actions else "is behind the last re-entry point"
            raise UndecidedError(
                f"{session}: record {seq} {why_not}, so its result is not asked for again after record {upto[-1].seq}; "
                f"perdure show {session} lists the actions, and at= gives another place to go on from"
            )
    return [_draft(actions[seq], value, change) for seq, value in sorted(change.result.items())]


def _draft(action: Action, value: Any, change: Change) -> Draft:
    told = values.encode(value, at=f"result of {action.name}")
    body = {"started": action.seq, "how": CHANGED, "value": told, "by": change.by, "why": change.reason}
    return Draft("settled", body, (key_mark(action.key),) if action.key is not None else ())
