"""Which actions were cut short because the whole run was: told from the log, whatever has cancelled it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.log.action import Actions, about
from perdure.log.branch import branch, since_reentry
from perdure.session.rules.attempt import cut_short_us

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.entry import Entry


def cut_with_the_run(entries: Iterable[Entry]) -> list[int]:
    """The actions that were cut short and whose code has done nothing since.

    Code that cuts an action short by itself, with a time limit, goes on to something else, or ends.
    """
    tip = since_reentry(branch(entries))
    actions = Actions(tip)
    newest, ended = dict[int, int](), dict[int, int]()
    for entry in tip:
        action = actions.get(about(entry) or entry.seq)
        if entry.kind == "action_finished":
            ended[entry["started"]] = entry.seq
        elif action is not None or entry.kind == "value":
            newest[(entry["parent"] if action is None else action.parent) or 0] = entry.seq
        elif entry.kind in ("saved", "received", "asked"):
            newest[0] = entry.seq
    return [
        seq
        for seq, at in ended.items()
        if (action := actions.get(seq)) is not None
        and action.outcome is not None
        and cut_short_us(action.outcome) is not None
        and newest.get(action.parent or 0, 0) < at
    ]
