"""What `show` tells of an autonomous agent, beside what it tells of every session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.autonomous import plan as plans
from perdure.autonomous.overview import Overview, amounts, overview
from perdure.cli import lacking, output
from perdure.cli.text import one_line
from perdure.models.names import name_of

if TYPE_CHECKING:
    from perdure.cli.place import Place
    from perdure.runtime.listed import SessionInfo

__all__ = ["document", "overview", "tell"]


def tell(found: Overview, info: SessionInfo, where: Place) -> None:
    """In lines."""
    facts = {
        "goal": found.goal,
        "model": name_of(found.model),
        "budget": amounts(found.budget, found.spent),
        "reached": ", ".join(found.milestones),
        "plan": f"{found.done} of {len(found.plan['tasks'])} tasks done" if found.plan["tasks"] else "",
    }
    for name, value in facts.items():
        if value:
            output.say(f"{name:<9} {one_line(value, chars_max=200)}")
    for line in plans.text(found.plan).splitlines():
        output.say(f"          {one_line(line, chars_max=150)}")
    if found.lack and info.status not in ("completed", "cancelled"):
        output.say(f"\n{found.lack}; for more: {where.command(*lacking.more_of(info.id, found.lacking))}")


def document(found: Overview) -> dict[str, Any]:
    """As JSON."""
    names = ("id", "title", "needs", "status", "result", "rejected")
    return {
        "goal": found.goal,
        "model": name_of(found.model) or None,
        "budget": dict(found.budget),
        "spent": dict(found.spent),
        "lack": found.lack or None,
        "milestones": list(found.milestones),
        "revision": found.plan["revision"],
        "tasks": [{name: task[name] for name in names} for task in found.plan["tasks"]],
    }
