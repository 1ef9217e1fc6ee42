"""Autonomous agents: a goal pursued with tools for as long as it takes, in a session like any other.

It uses nothing that an agent of your own could not. Models are reached through `perdure.models` (extra `agents`).
"""

from typing import TYPE_CHECKING

from perdure import late

if TYPE_CHECKING:
    from perdure.autonomous.dead_ends import STRATEGIES, policy
    from perdure.autonomous.definition import Agent, default_tools
    from perdure.autonomous.plan import Plan, Task
    from perdure.autonomous.steps import agent

__all__ = ["STRATEGIES", "Agent", "Plan", "Task", "agent", "default_tools", "policy"]

_LATE = {
    "STRATEGIES": "perdure.autonomous.dead_ends",
    "Agent": "perdure.autonomous.definition",
    "Plan": "perdure.autonomous.plan",
    "Task": "perdure.autonomous.plan",
    "agent": "perdure.autonomous.steps",
    "default_tools": "perdure.autonomous.definition",
    "policy": "perdure.autonomous.dead_ends",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late.names(__name__, globals(), _LATE)
