"""How an autonomous agent is declared: its tools, its rules, its model, what judges it, what it may spend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure import limits
from perdure import tools as toolsets
from perdure.autonomous import controls, milestones
from perdure.autonomous.given import checked_budget
from perdure.errors import RefusedError
from perdure.tools import Toolbox, files, notes, people, shell

if TYPE_CHECKING:
    from perdure.autonomous.given import Given
    from perdure.autonomous.milestones import Find
    from perdure.autonomous.plan import Plan
    from perdure.tools.toolbox import Approve

Judge: TypeAlias = Callable[[Path, str], str]
"""A program that judges the whole: given the folder and the result, what is missing; "" for nothing."""


def default_tools(folder: Path) -> Toolbox:
    """Files, commands and code in a folder, questions to a person, notes."""
    return Toolbox.of(files(folder), shell(folder), people(), notes())


@dataclass(frozen=True, slots=True)
class Agent:
    """An autonomous agent. What its input says (model, rules, budget, approve, window) goes before what stands here.

    `tools` makes its tools for the folder that it works in. `about` takes the place of what it is told of how to work.
    `rules` are shown with each request. `budget` by unit: steps (requests to models), seconds (in actions), tokens,
    usd. `window` is how many tokens the model takes. `plan` is its plan, if no model shall make one; `judge` is a
    program that judges the result before the session completes; `settings` are those of `perdure.models.ask`;
    `milestones` tells which calls reach one. `seed` is a folder whose files are copied into its own before it begins,
    if that is empty.
    """

    model: Any = None
    tools: Callable[[Path], Toolbox] = default_tools
    about: str = ""
    rules: tuple[str, ...] = ()
    budget: Mapping[str, float] = field(default_factory=dict)
    approve: Approve = "never"
    window: int = limits.WINDOW_TOKENS
    plan: Plan | None = None
    judge: Judge | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    milestones: Find = milestones.found
    seed: Path | None = None

    def __post_init__(self) -> None:
        checked_budget(self.budget)
        if self.window < limits.WINDOW_TOKENS_MIN:
            raise RefusedError(f"window={self.window!r}: at least {limits.WINDOW_TOKENS_MIN} tokens")

    def toolbox(self, folder: Path, given: Given) -> Toolbox:
        """Its tools for a folder, and those that it was given. Raises `RefusedError` where two have one name."""
        made = self.tools(folder)
        if taken := [one.name for one in made if one.name in controls.CONTROLS]:
            raise RefusedError(f"the tool {taken[0]!r} has the name of one of the loop's own: give it another")
        allowed = toolsets.web(allow=given.allow) if given.allow else Toolbox()
        return Toolbox.of(made, allowed, approve=given.approve or self.approve, passing=made.passing)
