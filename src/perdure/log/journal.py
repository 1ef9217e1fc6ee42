"""The journal for reading: a plain document for each time an action ended: what it was given, what came of it.

A fold over the records of one log, in order. It is never read back by perdure's own rules, and knows no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perdure.log import dropped
from perdure.log.action import Actions
from perdure.log.readable import brief, moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perdure.log.action import Action
    from perdure.log.entry import Entry

VERSION: Final = 1
"""Of the shape of a line. Names are added within it, never changed or taken away."""

ENDS: Final = frozenset({"action_finished", "settled"})
"""Kinds of records that make a line."""

KINDS: Final = ENDS | {"action_started"}
"""Kinds of records that have to be read for it."""

FAULTS: Final = frozenset({"error", "unstorable", "abandoned"})
"""Outcomes that somebody who looks for errors means."""


class Lines:
    """The lines of one session. `before` reads the records about a start that was not among those taken."""

    def __init__(
        self, session: str, *, before: Callable[[int, int], Iterable[Entry]], is_outline: bool = False
    ) -> None:
        self.session, self._before, self._is_outline = session, before, is_outline
        self._open = Actions()

    def take(self, entry: Entry) -> dict[str, Any] | None:
        """The line that this record makes, if it makes one."""
        if entry.kind == dropped.KIND:
            return _of_dropped(entry, self.session) if entry["was"] in ENDS else None
        if entry.kind not in KINDS:
            return None
        self._know(entry)
        self._open.apply(entry)
        if entry.kind not in ENDS:
            return None
        action = self._open.get(entry["started"])
        if entry.body.get("final", True):
            self._open.pop(entry["started"], None)
        return _line(entry, self.session, action, is_outline=self._is_outline)

    def _know(self, entry: Entry) -> None:
        """Reads the start that a record is about, if it is not at hand."""
        about = entry["of"] if entry.kind == "action_started" else entry["started"]
        if about is not None and about not in self._open:
            for earlier in self._before(about, entry.seq - 1):
                if about in (earlier.seq, earlier.body.get("started"), earlier.body.get("of")):
                    self._open.apply(earlier)


def _of_dropped(entry: Entry, session: str) -> dict[str, Any]:
    """What is left of an end whose body retention dropped."""
    return _head(entry, session, "") | {"outcome": "dropped"}


def _head(entry: Entry, session: str, action: str) -> dict[str, Any]:
    """What each line begins with."""
    return {
        "v": VERSION,
        "id": f"{session}:{entry.epoch}:{entry.seq}",
        "session": session,
        "epoch": entry.epoch,
        "seq": entry.seq,
        "timestamp": moment(entry.time_us),
        "action": action,
    }


def _line(entry: Entry, session: str, action: Action | None, *, is_outline: bool) -> dict[str, Any]:
    took_us = entry.body.get("duration_us")
    return (
        _head(entry, session, action.name if action else "")
        | {"inputs": _inputs(action, is_outline=is_outline)}
        | _outcome(entry, is_outline=is_outline)
        | {
            "start": entry["started"],
            "started": moment(action.started_us) if action else None,
            "duration_s": None if took_us is None else took_us / 1e6,
            "attempt": action.attempts if action else None,
            "final": entry.body.get("final", True),
            "effect": action.effect if action else None,
            "parent": _parent(action),
            "undoes": action.undoes if action else None,
            "cost": entry.body.get("cost"),
            "by": entry.body.get("by") or None,
            "why": (not is_outline and entry.body.get("why")) or None,
        }
    )


def _parent(action: Action | None) -> int | None:
    """The action that the code of this one's call is in; an undo is in none."""
    return action.parent if action and action.parent is not None and action.parent > 0 else None


def _inputs(action: Action | None, *, is_outline: bool) -> Any:
    if action is None:
        return None
    return {name: _sealed(value) for name, value in action.args.items()} if is_outline else brief("args", action.args)


def _outcome(entry: Entry, *, is_outline: bool) -> dict[str, Any]:
    """How it ended, and with what; the one of result and error that it has not is null."""
    value = entry["value"]
    is_error = isinstance(value, dict)
    shown: Any = None
    if is_outline:
        shown = {"class": value["class"]} if is_error and "class" in value else _sealed(value)
    elif value is not None:
        shown = brief("value", value)
    return {"outcome": entry["how"], "result": None if is_error else shown, "error": shown if is_error else None}


def _sealed(value: Any) -> Any:
    """What an outline says of a value: about how long it is."""
    return {"$sealed": len(value) if isinstance(value, bytes) else None} if value is not None else None
