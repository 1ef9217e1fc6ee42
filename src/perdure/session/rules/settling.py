"""What a person decides about an action: the record that says so, and whether it still may.

A session that runs takes the decision from its inbox; where nobody runs it, it is written at once. It must not know
which.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.log.marks import key_mark
from perdure.session.rules import item as items
from perdure.session.rules.item import Sent
from perdure.session.rules.request import Draft

if TYPE_CHECKING:
    from collections.abc import Collection

    from perdure.log.action import Actions

TOLD: Final = {"done": "result", "not-done": "not done", "abandoned": "abandoned"}
"""What the log calls what a person says."""

_log = logging.getLogger("perdure.inbox")


def decision(how: str, *, result: Any, why: str, guard: values.Guard = values.ALLOW) -> dict[str, Any]:
    """What a person says: it is done with this result, not done, or abandoned.

    Raises `UnstorableError`, `SecretFoundError`.
    """
    value = guard.passed(values.encode(result, at="result"), at="result").data if how == "done" else None
    return {"how": TOLD[how], "value": value, "why": guard.text(why, at="why")}


def settlement(actions: Actions, seq: int, decided: dict[str, Any], *, by: str) -> Draft:
    """The record of a decision. It is looked up by the key of the effect; an undo by that of what it undoes."""
    action = actions[seq]
    effect = actions[action.undoes] if action.undoes is not None else action
    marks = (key_mark(effect.key),) if effect.key is not None else ()
    return Draft("settled", {"started": seq, **decided, "by": by}, marks)


def sent(seq: int, decided: dict[str, Any], *, by: str) -> Sent:
    """A decision as it is sent to a session that runs."""
    return Sent(items.SETTLE, values.encode(decided), by, asked=seq)


def taken(decision: Sent, actions: Actions, *, under_way: Collection[int] = ()) -> Draft:
    """The record that takes it out of the inbox: of the decision, or if it came too late, of what was sent.

    Too late is what comes when the action is not in doubt any more, or is one of those that are `under_way` now.
    """
    action = actions.get(decision.asked)
    if action is None or action.known is not None or decision.asked in under_way:
        _log.warning("what was decided about #%d came too late: it is not in doubt any more", decision.asked)
        return items.taken(decision)
    return settlement(actions, decision.asked, values.decode(decision.value), by=decision.by)
