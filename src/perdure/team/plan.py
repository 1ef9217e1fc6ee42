"""A plan: a goal, and tasks in an order in which each comes after those that it depends on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator


class TaskResult(BaseModel):
    """What came of a task."""

    code: str = ""
    result: str
    is_success: bool


class Task(BaseModel):
    """One task of a plan, and what has come of it."""

    model_config = ConfigDict(extra="allow")

    task_id: str = ""
    dependent_task_ids: list[str] = Field(default_factory=list)
    instruction: str = ""
    task_type: str = ""
    code: str = ""
    result: str = ""
    is_success: bool = False
    is_finished: bool = False

    def reset(self) -> None:
        """Forgets what came of it."""
        self.code, self.result, self.is_success, self.is_finished = "", "", False, False

    def update_task_result(self, result: TaskResult) -> None:
        """Takes what came of it."""
        self.code, self.result, self.is_success = result.code, result.result, result.is_success


class Plan(BaseModel):
    """The tasks that lead to a goal. `current_task_id` is that of the first unfinished one, "" when there is none.

    What does not fit is refused with ValueError, and the plan stays as it was.
    """

    model_config = ConfigDict(extra="allow")

    goal: str = ""
    context: str = ""
    tasks: list[Task] = Field(default_factory=list)
    task_map: dict[str, Task] = Field(default_factory=dict)
    current_task_id: str = ""

    @model_validator(mode="after")
    def _mapped(self) -> Plan:
        """A task is one object, in the list and in the map."""
        if self.tasks or self.task_map:
            self.task_map = {task.task_id: task for task in self.tasks}
        return self

    def add_tasks(self, tasks: Iterable[Task]) -> None:
        """Takes these tasks, ordered by what they depend on.

        Tasks at their beginning that are those of the plan (by id and instruction) stay as they are, with their
        results; what the plan has after them is replaced.
        """
        new = _ordered([*tasks])
        if not new:
            return
        same = 0
        for old, task in zip(self.tasks, new, strict=False):
            if (old.task_id, old.instruction) != (task.task_id, task.instruction):
                break
            same += 1
        self.tasks = self.tasks[:same] + new[same:]
        self.task_map = {task.task_id: task for task in self.tasks}
        self._go_on()

    def reset_task(self, task_id: str) -> None:
        """Forgets what came of a task, and of all that depend on it; nothing for an id that is none."""
        if task_id not in self.task_map:
            return
        self.task_map[task_id].reset()
        self._reset_after(task_id)
        self._go_on()

    def replace_task(self, new_task: Task) -> None:
        """Puts a task in the place of the one of its id; those that depend on it are to be done again."""
        if new_task.task_id not in self.task_map:
            raise ValueError(f"this plan has no task {new_task.task_id!r:.80} to replace")
        tasks = [new_task if task.task_id == new_task.task_id else task for task in self.tasks]
        _ordered(tasks)
        self.tasks = tasks
        self.task_map[new_task.task_id] = new_task
        self._reset_after(new_task.task_id)
        self._go_on()

    def append_task(self, new_task: Task) -> None:
        """Puts a task at the end."""
        if new_task.task_id in self.task_map:
            raise ValueError(f"this plan has a task {new_task.task_id!r:.80} already; replace it")
        _known(new_task, self.task_map)
        self.tasks.append(new_task)
        self.task_map[new_task.task_id] = new_task
        self._go_on()

    def has_task_id(self, task_id: str) -> bool:
        """Whether there is a task of this id."""
        return task_id in self.task_map

    @property
    def current_task(self) -> Task | None:
        """The task to do next; None if all are done."""
        return self.task_map.get(self.current_task_id)

    def finish_current_task(self) -> None:
        """The current task is done; the next one is current."""
        task = self.current_task
        if task is not None:
            task.is_finished = True
            self._go_on()

    def get_finished_tasks(self) -> list[Task]:
        """Those that are done, in order."""
        return [task for task in self.tasks if task.is_finished]

    def _reset_after(self, task_id: str) -> None:
        again = {task_id}
        for task in self.tasks:
            if task.task_id not in again and again.intersection(task.dependent_task_ids):
                task.reset()
                again.add(task.task_id)

    def _go_on(self) -> None:
        self.current_task_id = next((task.task_id for task in self.tasks if not task.is_finished), "")


def _known(task: Task, known: Any) -> None:
    unknown = [one for one in task.dependent_task_ids if one not in known]
    if unknown:
        raise ValueError(f"the task {task.task_id!r:.80} depends on {unknown[0]!r:.80}, which is no task")


def _ordered(tasks: list[Task]) -> list[Task]:
    """The tasks, each after those it depends on, else as they stand."""
    by_id = {task.task_id: task for task in tasks}
    if len(by_id) < len(tasks):
        raise ValueError("two tasks have one id")
    for task in tasks:
        _known(task, by_id)
    done: dict[str, Task] = {}
    for task in tasks:
        _visit(task, by_id, done)
    return [*done.values()]


def _visit(task: Task, by_id: dict[str, Task], done: dict[str, Task]) -> None:
    """Puts a task behind those it depends on, without a recursion that a long chain would break."""
    way: dict[str, Task] = {task.task_id: task}
    while way:
        here = way[next(reversed(way))]
        missing = next((one for one in here.dependent_task_ids if one not in done), None)
        if here.task_id in done or missing is None:
            way.popitem()
            done[here.task_id] = here
        elif missing in way:
            raise ValueError(f"the task {missing!r:.80} depends on itself")
        else:
            way[missing] = by_id[missing]
