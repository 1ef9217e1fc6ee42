"""A small team's file, part by part, and what is compared of two files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perdure.team.form import (
    ActionFile,
    CostFile,
    EnvironmentFile,
    MemoryFile,
    PlanFile,
    PlannerFile,
    RoleContextFile,
    RoleFile,
    TaskFile,
    TeamContextFile,
    TeamFile,
)

OURS = Path(__file__).parent / "data/team.json"

IDEA = {
    "id": "a1",
    "content": "write a report about rivers",
    "instruct_content": None,
    "role": "Human",
    "cause_by": "metagpt.actions.add_requirement.UserRequirement",
    "sent_from": "",
    "send_to": ["<all>"],
}

NOTES = {
    "id": "b2",
    "content": "notes drafted",
    "instruct_content": {
        "class": "notes",
        "mapping": {"result": "(<class 'str'>, Ellipsis)", "points": "(list[str], Ellipsis)"},
        "value": {"result": "three notes", "points": ["one", "two"]},
    },
    "role": "Ana(Collector)",
    "cause_by": "acts.DraftNotes",
    "sent_from": "acts.Collector",
    "send_to": ["<all>"],
}

OUTLINE = {
    **IDEA,
    "id": "c3",
    "content": 'Gliederung: Flüsse ≥ 1 000 km "und" ihre Quellen',
    "instruct_content": {"class": "Outline", "module": "acts", "value": {"parts": ["sources", "mouths"]}},
    "role": "Ben(Writer)",
    "cause_by": "acts.Outline",
    "sent_from": "acts.Writer",
}


def action(name: str, **rest: Any) -> ActionFile:
    return ActionFile(name=name, prefix="You are one of a team.", class_name=f"acts.{name}", **rest)


def collector() -> RoleFile:
    return RoleFile(
        name="Ana",
        profile="Collector",
        goal="collect notes",
        states=["0. DraftNotes"],
        actions=[action("DraftNotes")],
        rc=RoleContextFile(
            memory=MemoryFile.of([IDEA, NOTES]),
            state=-1,
            watch=[IDEA["cause_by"]],
            react_mode="react",
        ),
        addresses=["Ana", "acts.Collector"],
        class_name="acts.Collector",
    )


def writer() -> RoleFile:
    """A role that was interrupted over the notes, in the second of its actions and the second task of its plan."""
    task = TaskFile(task_id="1", instruction="outline", task_type="write", result="done", is_success=True)
    tasks = [task, TaskFile(task_id="2", dependent_task_ids=["1"], instruction="write")]
    plan = PlanFile(goal="a report", tasks=tasks, task_map={one.task_id: one for one in tasks}, current_task_id="2")
    return RoleFile(
        name="Ben",
        profile="Writer",
        goal="write the report",
        constraints="use the notes",
        states=["0. Outline", "1. WriteReport"],
        actions=[action("Outline"), action("WriteReport", i_context={"pages": 3}, more={"temperature": 0.5})],
        rc=RoleContextFile(
            memory=MemoryFile.of([IDEA, OUTLINE]),
            working_memory=MemoryFile.of([OUTLINE], more={"depth": 2}),
            state=1,
            watch=["acts.DraftNotes"],
            react_mode="by_order",
            max_react_loop=2,
        ),
        addresses=["Ben", "acts.Writer"],
        planner=PlannerFile(plan=plan, auto_run=True),
        latest_observed_msg={**NOTES, "metadata": {"agent": "Ana"}},
        class_name="acts.Writer",
        more={"language": "de", "seen": [1, 2.5, None, True, {"a": {}}]},
    )


def team(**rest: Any) -> TeamFile:
    spent = CostFile(total_prompt_tokens=1200, total_completion_tokens=80, max_budget=3.0, total_cost=0.0125)
    return TeamFile(
        env=EnvironmentFile(
            roles={"Collector": collector(), "Writer": writer()}, history=f"\nHuman: {IDEA['content']}"
        ),
        investment=3.0,
        idea=IDEA["content"],
        context=TeamContextFile(cost=spent),
        **rest,
    )


def structure(value: Any) -> Any:
    """The keys and the types of a value, at every level; of a list, those of its items, each once."""
    if isinstance(value, dict):
        return {key: structure(item) for key, item in value.items()}
    if isinstance(value, list):
        found = []
        for item in map(structure, value):
            found += [] if item in found else [item]
        return found
    return type(value).__name__


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of each value in a value, that itself included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(one for key, item in inner for one in paths(item, (*path, key)))]


def put(value: Any, path: tuple[Any, ...], item: Any) -> Any:
    """A copy of a value that has this item at the path."""
    if not path:
        return item
    copy = json.loads(json.dumps(value))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = item
    return copy


def is_within(value: Any, other: Any) -> bool:
    """Whether all of a file's JSON is in another, which may have more keys. But for the digest, and spaces in costs."""
    if isinstance(value, dict) and isinstance(other, dict):
        return all(
            key == "digest" or (key in other and is_within(_costs(key, item), _costs(key, other[key])))
            for key, item in value.items()
        )
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(is_within, value, other))
    return repr(value) == repr(other)


def _costs(key: str, item: Any) -> Any:
    return json.loads(item) if key == "cost_manager" else item
