"""The plan of an agent: tasks that need one another, and what has become of each. It asks no model and runs nothing.

In the state it is plain data: `{"revision": 1, "tasks": [{"id": "1", "title": …, "status": "open", …}]}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, Field, model_validator

from perdure import limits

OPEN: Final = "open"
DONE: Final = "done"

Entry = Mapping[str, Any]
"""A task as the state has it."""


Id = Annotated[str, Field(min_length=1, max_length=20)]


class Task(BaseModel):
    """One task. Its texts have bounds: a small model that is held to a schema does not stop by itself."""

    id: Annotated[Id, Field(description="A short name, like 1 or 2a")]
    title: Annotated[str, Field(min_length=1, max_length=300, description="What is to be done, one sentence")]
    needs: Annotated[
        list[Id], Field(max_length=limits.TASKS_COUNT_MAX, description="The ids of tasks that have to be done before")
    ] = []
    done_when: Annotated[str, Field(max_length=300, description="By what anybody can tell that it is done")] = ""
    check: Annotated[
        str | None,
        Field(max_length=300, description="A shell command that ends with status 0 once it is done, if there is one"),
    ] = None


class Plan(BaseModel):
    """Tasks, none of which needs itself in the end."""

    tasks: Annotated[list[Task], Field(min_length=1, max_length=limits.TASKS_COUNT_MAX)]

    @model_validator(mode="after")
    def _leads_somewhere(self) -> Self:
        check([task.model_dump() for task in self.tasks])
        return self


def check(tasks: Sequence[Entry]) -> None:
    """Raises `ValueError` for tasks that cannot all be done: two of one id, a need that is not there, a circle."""
    ids = [task["id"] for task in tasks]
    if twice := [one for at, one in enumerate(ids) if one in ids[:at]]:
        raise ValueError(f"there are two tasks {twice[0]!r}")
    for task in tasks:
        if missing := [one for one in task["needs"] if one not in ids]:
            raise ValueError(f"task {task['id']!r} needs {missing[0]!r}, which is not there")
    left = {task["id"]: set(task["needs"]) for task in tasks}
    while left:
        ready = {one for one, needs in left.items() if not needs & left.keys()}
        if not ready:
            raise ValueError(f"tasks need one another in a circle: {', '.join(left)}")
        left = {one: needs for one, needs in left.items() if one not in ready}


def begun(plan: Plan) -> dict[str, Any]:
    """A plan as the state has it."""
    return {"revision": 1, "tasks": [_entry(task) for task in plan.tasks]}


def revised(old: Mapping[str, Any], tasks: Sequence[Task]) -> dict[str, Any]:
    """A plan with these tasks for those that are open. What is done stays done. Raises `ValueError`."""
    done = [task for task in old["tasks"] if task["status"] == DONE]
    ids = {task["id"] for task in done}
    rejected = {task["id"]: task["rejected"] for task in old["tasks"] if task["status"] == OPEN}
    new = [_entry(task) | {"rejected": rejected.get(task.id, 0)} for task in tasks if task.id not in ids]
    if not new:
        raise ValueError("no task of it is open")
    check([*done, *new])
    return {"revision": old["revision"] + 1, "tasks": [*done, *new]}


def _entry(task: Task) -> dict[str, Any]:
    return task.model_dump() | {"status": OPEN, "result": "", "rejected": 0}


def current(plan: Mapping[str, Any]) -> dict[str, Any] | None:
    """The task that is next: the first that is open and needs nothing that is; None when all are done."""
    left = {task["id"]: task for task in plan["tasks"] if task["status"] == OPEN}
    return next((task for task in left.values() if not set(task["needs"]) & left.keys()), None)


def is_last(plan: Mapping[str, Any], task: Entry) -> bool:
    """Whether all others are done."""
    return all(one["status"] == DONE or one["id"] == task["id"] for one in plan["tasks"])


def text(plan: Mapping[str, Any]) -> str:
    """The plan as a model, and a person, reads it."""
    now = current(plan)
    return "\n".join(_line(task, is_now=now is not None and task["id"] == now["id"]) for task in plan["tasks"])


def _line(task: Entry, *, is_now: bool) -> str:
    mark = "x" if task["status"] == DONE else ">" if is_now else " "
    needs = f" (needs {', '.join(task['needs'])})" if task["needs"] else ""
    result = f" -> {task['result']}" if task["result"] else ""
    return f"[{mark}] {task['id']}: {task['title']}{needs}{result}"
