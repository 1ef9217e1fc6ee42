"""What the whole log tells of an agent's life, on every branch: what was spent, and what was tried and given up.

A fold over records, one at a time. The state cannot tell it: a rollback takes the state back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perdure import limits, values
from perdure.log import points
from perdure.log.action import Actions
from perdure.log.choices import Course
from perdure.session.rules import call as calls
from perdure.session.rules.strategy import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perdure.log.entry import Entry

REQUESTS: Final = ("plan", "model", "judge", "compact")
"""The actions in which the loop asks a model."""

_SECOND_US: Final = 1_000_000


@dataclass
class Tally:
    """`spent` by unit: steps, seconds, tokens, usd. `rollbacks` counts those of the session."""

    spent: Counter[str] = field(default_factory=Counter)
    rollbacks: int = 0
    taken: int = 0
    _own: dict[int, str] = field(default_factory=dict)
    """The actions of the loop's own code that have not ended."""

    def take(self, entries: Iterable[Entry]) -> Tally:
        """With more records of the log."""
        for entry in entries:
            self.taken = entry.seq
            if entry.kind == "action_started" and entry["of"] is None and entry["parent"] is None:
                self._own[entry.seq] = entry["name"]
                self.spent["steps"] += entry["name"] in REQUESTS
            elif entry.kind == "action_finished":
                self._finish(entry)
            elif entry.kind == "rolled_back":
                self.rollbacks += 1
                self.spent.update(entry.body.get("spent", {}))  # in the damaged session that it goes on from
            elif entry.kind == "amended":
                self._amend(entry)
        return self

    def _amend(self, entry: Entry) -> None:
        """Bodies were dropped: what was spent in them stays spent."""
        self.spent.update(entry.body.get("spent", {}))
        for name, (count, took_us) in entry.body.get("own", {}).items():
            self.spent["steps"] += count if name in REQUESTS else 0
            self.spent["seconds"] += took_us / _SECOND_US

    def _finish(self, entry: Entry) -> None:
        for unit, amount in (entry.body.get("cost") or {}).items():
            self.spent[unit] += amount
        if entry["started"] in self._own:
            self.spent["seconds"] += entry.body.get("duration_us", 0) / _SECOND_US

    def told(self) -> dict[str, Any]:
        """As it is recorded."""
        return {"spent": dict(self.spent), "rollbacks": self.rollbacks}


def spent_out(budget: Mapping[str, float], spent: Mapping[str, float]) -> str:
    """What of a budget is spent; "" for nothing."""
    over = [unit for unit, most in budget.items() if spent.get(unit, 0) >= most]
    return ", ".join(f"{spent.get(unit, 0):g} of {budget[unit]:g} {unit} are spent" for unit in over)


def tried(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """What was given up, the newest last: why, for which strategy, back to where, what was undone and what stands.

    Calls of the agent's own code as people write them, shortened. Why is what went wrong, not how often: that a kill
    makes it happen once more is nothing for a model to read.
    """
    actions, named, course = Actions(entries), {}, Course()
    found = []
    for entry in entries:
        course.take([entry])
        name, seq = points.naming(entry)
        if name is not None:
            named[seq] = name
        if entry.kind == "rolled_back":
            strategy = values.decode(entry["strategy"])
            found.append(
                {
                    "reason": _reason(entry, course)[: limits.TRIED_CHARS],
                    "by": entry["by"],
                    "strategy": "" if strategy is None else str(name_of(strategy)),
                    "to": named.get(entry["to"], ""),
                    "undone": _calls(actions, [seq for seq in entry["undo"] if actions[seq].undone]),
                    "standing": _calls(
                        actions, [*entry["standing"], *(seq for seq in entry["undo"] if not actions[seq].undone)]
                    ),
                    "files": bool(entry.body.get("files")),
                }
            )
    return found[-limits.TRIED_COUNT :]


def _reason(entry: Entry, course: Course) -> str:
    chosen = course.choices[-1] if course.choices else None
    if chosen is not None and chosen.seq == entry.seq - 1 and chosen.failure is not None:
        return chosen.failure.error
    return str(entry["reason"] or "")


def _calls(actions: Actions, seqs: Iterable[int]) -> list[str]:
    own = dict.fromkeys(_own(actions, seq) for seq in seqs)
    told = [calls.call_text(actions[seq].name, actions[seq].args) for seq in own]
    shown = [text[: limits.TRIED_CHARS] for text in told[: limits.TRIED_COUNT]]
    return [*shown, *([f"and {len(told) - len(shown)} more"] if len(told) > len(shown) else [])]


def _own(actions: Actions, seq: int) -> int:
    """The action of the agent's own code that this one is inside of."""
    while actions[seq].parent in actions:
        seq = actions[seq].parent or 0
    return seq
