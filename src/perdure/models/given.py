"""Which lines of a script were given to whom, in one session: a fold over its log.

A line is given once to each *role*, the chain of names of the actions that a request is made in; what is being given
is kept here until the log has it. So roles that run at the same time do not take one another's replies, and a request
that was cut off is given the same one again. It does not know what the lines say.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from perdure import values
from perdure.setting import Setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.log.entry import Entry
    from perdure.session.async_session import AsyncSession

E = TypeVar("E", bound=Exception)

LINE: Final = "script_line"
"""Where a reply, or an error, says which line of the script it is."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request is made: its session, the name of its model, its prompt, what was wrong with earlier replies."""

    session: AsyncSession
    model: str
    prompt: str
    problems: tuple[str, ...] = ()


PLACE: ContextVar[Place | None] = ContextVar("perdure_model_place", default=None)


def within(place: Place) -> Setting[Place]:
    """Within it, a scripted model knows where it is asked."""
    return Setting(PLACE, place)


@dataclass(slots=True)
class Given:
    """Which lines of one script each role was given: a fold over a log, and what is not in the log yet."""

    model: bytes
    taken: int = 0
    names: dict[int, tuple[str, int | None]] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    lines: dict[tuple[str, ...], set[int]] = field(default_factory=dict)
    flying: dict[int, tuple[tuple[str, ...], int]] = field(default_factory=dict)

    def take(self, entries: Sequence[Entry]) -> None:
        """Takes the records into account that are new."""
        for entry in entries[self.taken :]:
            if entry.kind == "action_started" and entry["of"] is None:
                self.names[entry.seq] = entry["name"], entry["parent"]
                if entry["args"].get("model") == self.model:
                    self.asked.add(entry.seq)
            elif entry.kind == "action_finished" and entry["started"] in self.asked:
                self.flying.pop(entry["started"], None)
                if (line := _line_in(entry)) is not None:
                    self.lines.setdefault(self._role(entry["started"]), set()).add(line)
        self.taken = len(entries)

    def _role(self, seq: int) -> tuple[str, ...]:
        names: list[str] = []
        parent = self.names[seq][1]
        while parent is not None and parent in self.names:
            name, parent = self.names[parent]
            names.append(name)
        return tuple(reversed(names))

    def by(self, role: tuple[str, ...], *, besides: int) -> set[int]:
        """The lines that a role was given, or is being given by others than this action."""
        flying = {line for seq, (whose, line) in self.flying.items() if whose == role and seq != besides}
        return self.lines.get(role, set()) | flying


_given: WeakKeyDictionary[AsyncSession, dict[str, Given]] = WeakKeyDictionary()


def given_in(session: AsyncSession, model: str) -> Given:
    """What is known of the lines of this script in a session."""
    return _given.setdefault(session, {}).setdefault(model, Given(values.encode(model)))


def given_by(error: E, told: Any) -> E:
    """The error with the line of the script that it is, if what is told of the reply says so."""
    if isinstance(told, dict) and type(told.get(LINE)) is int:
        setattr(error, LINE, told[LINE])
    return error


def _line_in(entry: Entry) -> int | None:
    """The line of the script that an outcome is."""
    if entry["how"] == "error":
        told = entry["value"]["attributes"].get(LINE)
        return None if told is None else int(values.decode(told))
    match values.decode(entry["value"]) if entry["how"] == "result" else None:
        case {"message": {"provider_details": {"script_line": int(line)}}}:
            return line
    return None
