"""How an agent stands, as its log tells: goal, plan, what it may spend and has spent, what it has reached."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perdure.autonomous import plan as plans
from perdure.autonomous.given import UNITS
from perdure.autonomous.tally import Tally, spent_out
from perdure.errors import PerdureError

if TYPE_CHECKING:
    from perdure.runtime.store import AgentStore

_ROUND: Final = 100
"""From here on a number is told without its fraction."""

PARTS: Final = ("agent", "plan")
"""The parts of the state that tell it."""


@dataclass(frozen=True, slots=True)
class Overview:
    """An agent. `plan` is as the state has it, `budget` and `spent` are by unit."""

    goal: str
    model: str | None
    plan: Mapping[str, Any]
    budget: Mapping[str, float]
    spent: Mapping[str, float]
    milestones: tuple[str, ...]

    @property
    def done(self) -> int:
        """How many tasks are."""
        return sum(task["status"] == plans.DONE for task in self.plan["tasks"])

    @property
    def lacking(self) -> tuple[str, ...]:
        """The units of which all is spent."""
        return tuple(unit for unit, most in self.budget.items() if self.spent.get(unit, 0) >= most)

    @property
    def lack(self) -> str:
        """What keeps it from another step; "" for nothing."""
        return spent_out(self.budget, self.spent)


def is_agent(state: Mapping[str, Any]) -> bool:
    """Whether this is the state of an agent that has begun."""
    agent, plan = (state.get(part) for part in PARTS)
    return isinstance(agent, Mapping) and {"goal", "budget", "milestones"} <= agent.keys() and isinstance(plan, Mapping)


def overview(store: AgentStore, session: str) -> Overview | None:
    """An agent; None for a session that is none, or has not begun. Raises `SessionUnknownError`, `DamageError`."""
    state: Mapping[str, Any] = {}
    with contextlib.suppress(PerdureError):  # a session without these parts, or whose state cannot be read
        state = store.state_at(session, parts=PARTS)
    if not is_agent(state):
        return None
    agent = state["agent"]
    spent = Tally().take(store.log(session)).spent
    return Overview(
        agent["goal"], agent["model"], state["plan"], agent["budget"], dict(spent), tuple(agent["milestones"])
    )


def amounts(budget: Mapping[str, float], spent: Mapping[str, float]) -> str:
    """What was spent, and of how much: `12 of 50 steps, 3,412 tokens, 0.0131 of 1 usd`. Seconds where they count."""
    units = [unit for unit in UNITS if unit in budget or (spent.get(unit) and unit != "seconds")]
    return ", ".join(_amount(unit, spent.get(unit, 0), budget.get(unit)) for unit in units)


def _amount(unit: str, spent: float, most: float | None) -> str:
    return f"{_number(spent)} {unit}" if most is None else f"{_number(spent)} of {_number(most)} {unit}"


def _number(amount: float) -> str:
    return f"{amount:,.0f}" if amount == int(amount) or amount >= _ROUND else f"{amount:.3g}"
