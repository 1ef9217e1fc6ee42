"""What keeps a team or an autonomous agent from going on when nothing was sent to it, and the command that gives it."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure.runtime.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.runtime.store import AgentStore


@dataclass(frozen=True, slots=True)
class Lacking(Outcome):
    """Idle, since what it may spend is spent. `more` are the words after `perdure` that give it more."""

    more: tuple[str, ...] = ()


def is_team(fn: Callable[..., Any] | None) -> bool:
    """Whether this is the function of a team."""
    return hasattr(fn, "hire")


def is_autonomous(fn: Callable[..., Any] | None) -> bool:
    """Whether this is the function of an autonomous agent."""
    return hasattr(fn, "make")


def with_lack(store: AgentStore, session: str, fn: Callable[..., Any] | None, outcome: Outcome) -> Outcome:
    """The outcome; of an idle team or autonomous agent, with what it lacks."""
    lack_of = _of_team if is_team(fn) else _of_agent if is_autonomous(fn) else None
    if outcome.status != "idle" or lack_of is None:
        return outcome
    reason, more = lack_of(store, session)
    return Lacking("idle", reason=reason, restored=outcome.restored, more=more) if reason else outcome


def _of_team(store: AgentStore, session: str) -> tuple[str, tuple[str, ...]]:
    steps = importlib.import_module("perdure.team.steps")
    facts = store.state_at(session, parts=["team"])["team"]
    more = ("rounds", session, "N") if facts["rounds_left"] <= 0 else ("invest", session, "USD")
    return steps.lack(facts), ("team", *more)


def _of_agent(store: AgentStore, session: str) -> tuple[str, tuple[str, ...]]:
    found = importlib.import_module("perdure.autonomous.overview").overview(store, session)
    return ("", ()) if found is None else (found.lack, more_of(session, found.lacking))


def more_of(session: str, units: tuple[str, ...]) -> tuple[str, ...]:
    """The words that give an agent as much again as is usual."""
    amounts = {"usd": 1, "steps": 50, "seconds": 600, "tokens": 100_000}
    return ("send", session, "--message", json.dumps({unit: amounts[unit] for unit in units}))
