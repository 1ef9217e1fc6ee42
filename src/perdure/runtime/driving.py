"""What if: a session is forked at a place, something of it is changed, and the fork is run on for real.

The session itself is only read. What is changed is recorded in the fork, by whom and why.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from perdure import values
from perdure.errors import EntryError, NoPointError, SessionUnknownError, UndecidedError
from perdure.log import choices, points
from perdure.log.action import CHANGED, Actions, about
from perdure.log.branch import SNAPSHOTS, branch, is_beside, since_reentry
from perdure.log.marks import key_mark
from perdure.runtime import entry as entries
from perdure.session.keeping.forking import check_kept, fork
from perdure.session.keeping.opening import NO_INPUT, find
from perdure.session.keeping.snapshot import Reader
from perdure.session.rules.request import Draft
from perdure.session.rules.undoing import rolled_back
from perdure.stores import refusals
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
    """What is otherwise in the fork; by whom, and why.

    `result` are results by the number of the action; `arguments` are by the number of one that runs again with them, or
    by the name of an action, whose calls all are made with them. `again`: what the session did after the place may
    happen once more, unasked.
    """

    result: Mapping[int, Any]
    input: Any = NO_INPUT
    reason: str = ""
    by: str = ""
    arguments: Mapping[int | str, Mapping[str, Any]] = field(default_factory=dict)
    again: bool = False

    @property
    def of_one(self) -> dict[int, Mapping[str, Any]]:
        """Arguments of single calls."""
        return {seq: given for seq, given in self.arguments.items() if isinstance(seq, int)}

    @property
    def of_all(self) -> dict[str, Mapping[str, Any]]:
        """Arguments of all calls of an action."""
        return {name: given for name, given in self.arguments.items() if isinstance(name, str)}

    def __bool__(self) -> bool:
        return bool(self.result or self.arguments) or self.input is not NO_INPUT


def function(store: Store, session: str) -> Callable[[Any], Any]:
    """The function that a session recorded. Raises `EntryError`, `SessionUnknownError`."""
    summary = find(store, check_session_id(session))
    if summary is None:
        raise refusals.unknown(session, url=store.url)
    if not summary.entry:
        raise EntryError(
            f"{session} recorded no entry point (a handle, a lambda or a local function): name the function"
        )
    return entries.load(summary.entry)


def forked(store: Store, session: str, into: str, change: Change, *, at: int | str | None) -> Fork:
    """The fork, with what is changed in it, in one commit; see `AgentStore.drive`. Durable on return.

    It goes on from the place as after a rollback to it: so what the session did since stands, and none of it happens
    again unasked.
    """
    reader = Reader(store, check_session_id(session))
    whole = reader.entries()
    if not whole:
        raise SessionUnknownError(f"nothing was ever written to {session} in {store.url}")
    place = _place(whole, at, change)
    drafts = _changed(session, whole[:place], change)
    own: Body = {} if change.input is NO_INPUT else {"input": values.encode(change.input, at="input")}
    if change.of_all:
        own["given"] = _given_to_all(session, whole, change)
    if not change.again and place < len(whole):
        check_kept(reader, place)
        drafts, place = [_left(whole, place, change), *drafts], len(whole)
    return fork(
        store, session, check_session_id(into), at=place, reason=change.reason, by=change.by, own=own, drafts=drafts
    )


def _left(whole: list[Entry], place: int, change: Change) -> Draft:
    """The rollback to the place. Nothing is undone by it: all of that is the session's that it was forked from."""
    tip = branch(whole)
    if all(entry.seq != place for entry in tip):
        raise NoPointError(
            f"record {place} is on a branch that was left: say that what was done since may happen again (again=True, "
            "--again), or give another place"
        )
    left = [action for action in Actions(tip).values() if action.seq > place and action.undoes is None]
    there = [entry for entry in tip if entry.seq <= place]
    draft = rolled_back(
        tip,
        whole[place - 1],
        left,
        seam=len(whole),
        reason=change.reason or f"driven on from {place}",
        by=change.by,
        strategy=choices.given_at(there),
        kept=choices.in_force_at(there),
    )
    snapshots = (e.seq for e in reversed(tip) if e.seq <= place and e.kind in SNAPSHOTS and not is_beside(e))
    return replace(draft, body=draft.body | {"parent": next(snapshots, 0)})


def _place(whole: list[Entry], at: int | str | None, change: Change) -> int:
    """Where the fork goes on from: what was asked for, else the last place of which everything can still hold."""
    if isinstance(at, int) and at > 0:
        if at > len(whole):
            raise NoPointError(f"there is no record {at} to go on from; its records are 1 to {len(whole)}")
        return at
    if at is not None:
        return points.find(whole, at).seq
    places = [_end_of(whole, change.result)] if change.result else []
    places += [_beginning(whole, change.of_one)] if change.of_one else []
    if places:
        return min(places)
    return OPENING if change.input is not NO_INPUT or change.of_all else len(whole)


def _beginning(whole: list[Entry], of: Mapping[int, Any]) -> int:
    """The start of the first of these calls: what depends on what it came to is behind it."""
    return min([seq for seq in of if 1 <= seq <= len(whole)], default=OPENING)


def _end_of(whole: list[Entry], result: Mapping[int, Any]) -> int:
    """The record after which all of these have ended, and those beside them whose ends come without a break."""
    place = max((entry.seq for entry in whole if {entry.seq, about(entry)} & {*result}), default=OPENING)
    for entry in whole[place:]:
        if entry.kind != "keyframe" and (about(entry) or entry.seq) > place:
            break
        place = entry.seq
    return place


def _changed(session: str, upto: list[Entry], change: Change) -> list[Draft]:
    """The records that change these actions. Raises `UndecidedError` for one that is not met from that place."""
    tip = branch(upto)
    actions = Actions(tip)
    answered = {entry.seq for entry in since_reentry(tip)} & actions.keys()
    for seq in (*change.result, *change.of_one):
        if seq not in answered:
            why_not = "is no action on the branch there" if seq not in actions else "is behind the last re-entry point"
            raise UndecidedError(
                f"{session}: record {seq} {why_not}, so its call is not made again after record {upto[-1].seq}; "
                f"perdure show {session} lists the actions, and at= gives another place to go on from"
            )
    if both := change.result.keys() & change.of_one.keys():
        raise UndecidedError(f"{session}: action {min(both)} is given a result and arguments: it is one or the other")
    results = [_answered(actions[seq], value, change) for seq, value in sorted(change.result.items())]
    return [*results, *(_run_again(actions[seq], given, change) for seq, given in sorted(change.of_one.items()))]


def _answered(action: Action, value: Any, change: Change) -> Draft:
    told = values.encode(value, at=f"result of {action.name}")
    return _settled(action, {"how": CHANGED, "value": told}, change)


def _run_again(action: Action, given: Mapping[str, Any], change: Change) -> Draft:
    """Its call runs, with these arguments, though the log says how it ended: that was in another session."""
    return _settled(action, {"how": "not done", "value": None, "given": _encoded(action.name, given)}, change)


def _settled(action: Action, told: Body, change: Change) -> Draft:
    body = {"started": action.seq, **told, "by": change.by, "why": change.reason}
    return Draft("settled", body, (key_mark(action.key),) if action.key is not None else ())


def _given_to_all(session: str, whole: list[Entry], change: Change) -> dict[str, dict[str, bytes]]:
    known = sorted({action.name for action in Actions(whole).values()})
    for name in change.of_all:
        if name not in known:
            raise UndecidedError(f"{session}: no action {name!r} was called; there are: {', '.join(known) or 'none'}")
    return {name: _encoded(name, given) for name, given in change.of_all.items()}


def _encoded(name: str, given: Mapping[str, Any]) -> dict[str, bytes]:
    return {argument: values.encode(value, at=f"{argument} of {name}") for argument, value in given.items()}
