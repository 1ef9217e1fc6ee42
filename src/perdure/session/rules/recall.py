"""What the journal knows of calls that a model asked for: told once and recorded, so that a replay is told the same.

A call is known by its id, where that was the key of the action; else by its name and arguments, and then only if it is
certain which of several is meant. What is used is as good as called again by the code; a doubt that a person must
settle is not, so that the same call, made again, still meets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.errors import DivergedError
from perdure.log.action import Action, Actions
from perdure.log.marks import key_mark
from perdure.session.rules import argument
from perdure.session.rules.request import Draft, Find, Steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.session.rules.core import Journal

RECALL: Final = "recall"
"""The kind of value that tells of it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that a model asked for: its id, tool and arguments (None: unreadable).

    It is the `nth` (from 0) of so many (`of`) in the history that have this tool and these arguments.
    """

    id: str
    name: str
    arguments: dict[str, Any] | None
    nth: int = 0
    of: int = 1


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of one: `how` is result, error, unstorable, not done, abandoned, in doubt or unknown.

    `value` is the result; for an error its class and text; for an unstorable result what it was, as a text.
    """

    how: str
    value: Any = None
    seq: int = 0


UNKNOWN: Final = Told("unknown")


def recall(core: Journal, asked: Sequence[Asked]) -> Steps:
    """What is known of each of these calls. Recorded with or before the next effect."""
    core.refuse_inside("the journal is asked about a history")
    core.happened = True
    recorded = core.ledger.claim_value(RECALL, core.parent)
    if recorded is None:
        found = yield from _found(core, asked)
        told = [[one.id, each.how, each.value, each.seq] for one, each in zip(asked, found, strict=True)]
        core.put_off(Draft("value", {"kind": RECALL, "parent": core.parent, "value": values.encode(told)}))
    else:
        found = _as_before(core, asked, values.decode(recorded["value"]))
    for each in found:
        core.ledger.take(each.seq)
    return found


def _as_before(core: Journal, asked: Sequence[Asked], told: list[Any]) -> list[Told]:
    if [each[0] for each in told] != [one.id for one in asked]:
        raise core.leave(
            DivergedError(
                f"the code asks about the calls {[one.id for one in asked]}, and asked about "
                f"{[each[0] for each in told]} here before; nothing was done. Make its history as before"
            )
        )
    return [Told(how, value, seq) for _, how, value, seq in told]


def _found(core: Journal, asked: Sequence[Asked]) -> Steps:
    found, used = [], set[int]()
    for one in asked:
        action = yield from _by_key(one)
        if action is None:
            action = _by_arguments(core, one, used)
        used.add(action.seq if action else 0)
        found.append(UNKNOWN if action is None else _told(core, action))
    return found


def _by_key(one: Asked) -> Steps:
    """The newest action, on whatever branch, of which this call's id is the key."""
    if not one.id:
        return None
    key = values.encode(one.id)
    actions = Actions((yield Find(key_mark(key))))
    return next((a for a in reversed(actions.values()) if a.key == key and not a.undone), None)


def _by_arguments(core: Journal, one: Asked, used: set[int]) -> Action | None:
    """The action with this name and these arguments: one that waits to be called again, in order.

    Else the one at the same place among its like, if there are as many actions as calls.
    """
    if one.arguments is None:
        return None
    match = one.name, argument.fingerprint(one.name, one.arguments)
    same = [a for a in core.ledger.actions.values() if a.match == match and a.parent == core.parent and not a.undone]
    waiting = next((a for a in same if a.seq not in core.ledger.claimed and a.seq not in used), None)
    if waiting is not None:
        return waiting
    return same[one.nth] if len(same) == one.of and same[one.nth].seq not in used else None


def _told(core: Journal, action: Action) -> Told:
    known = action.known
    if known is None or not known.final:
        return Told("in doubt", seq=action.seq if action.effect == "repeatable" else 0)
    if known.how == "result":
        return Told("result", values.decode(known.value), action.seq)
    if known.how == "error":
        name = known.value["class"].rpartition(":")[2]
        return Told("error", core.guard.text(f"{name}: {known.value['text']}", at="error"), action.seq)
    if known.how == "unstorable":
        return Told("unstorable", known.value["text"], action.seq)
    return Told(known.how, seq=action.seq)
