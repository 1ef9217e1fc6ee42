"""The agent that `perdure agent` runs unless another is named: files, commands, questions, notes, any model."""

from __future__ import annotations

from typing import Final

from perdure.autonomous.definition import Agent
from perdure.autonomous.steps import agent

STEPS: Final = 200
"""Requests to models that it may make before it is given more, so that nobody pays without end for want of a budget."""


@agent
def pursue() -> Agent:
    """Pursues a goal in a folder. A person is asked before what cannot be repeated, unless somebody says otherwise."""
    return Agent(approve="once", budget={"steps": STEPS})
