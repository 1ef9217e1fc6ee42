"""Plans of a role that plans first and acts then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from perdure.errors import RefusedError
from perdure.team.plan import Plan, Task, TaskResult

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAN: Final = """Make a plan of tasks for this goal: {goal}

{context}Each task has a task_id, the task_ids that it depends on (dependent_task_ids), an instruction, and a task_type,
which is one of: {types}. List as few tasks as the goal needs."""


class Planner(BaseModel):
    """The plan of a role, and what has come of it. `role` is whose it is."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    plan: Plan = Field(default_factory=Plan)
    auto_run: bool = True
    role: Any = Field(default=None, exclude=True, repr=False)

    @property
    def current_task(self) -> Task | None:
        """The next task of the plan; None when all are done."""
        return self.plan.current_task

    async def update_plan(self, goal: str = "", max_tasks: int = 10) -> None:
        """Asks the model for the tasks to come. Recorded like every answer of a model.

        Raises `RefusedError` for a plan of more than `max_tasks` tasks or of none.
        """
        self.plan.goal = goal or self.plan.goal
        done = "".join(f"Done: {task.instruction}: {task.result}\n" for task in self.plan.get_finished_tasks())
        types = ", ".join(action.name for action in self.role.actions)
        asked = PLAN.format(goal=self.plan.goal, context=f"{done}\n" if done else "", types=types)
        tasks = await self.role.llm.ask(asked, list[Task])
        if not 0 < len(tasks) <= max_tasks:
            raise RefusedError(f"a plan of {len(tasks)} tasks: it has 1 to {max_tasks}")
        self.plan.add_tasks(tasks)

    def process_task_result(self, result: TaskResult) -> None:
        """Notes what came of the current task, and goes on to the next."""
        if (task := self.current_task) is not None:
            task.code, task.result, task.is_success = result.code, result.result, result.is_success
            self.plan.finish_current_task()

    def instruction(self, task: Task) -> str:
        """What the action is told: the task, and what came of those before."""
        done = [f"{each.instruction}: {each.result}" for each in self.plan.get_finished_tasks()]
        return "\n".join([f"Goal: {self.plan.goal}", *(f"Done: {each}" for each in done), f"Now: {task.instruction}"])

    def result(self) -> str:
        """What came of the plan's last task."""
        return self.plan.tasks[-1].result if self.plan.tasks else ""

    def clear(self) -> None:
        """Forgets the plan: the next message gets one of its own."""
        self.plan = Plan()

    def dump(self) -> dict[str, Any]:
        """As plain data."""
        return {"plan": self.plan.model_dump(mode="json"), "auto_run": self.auto_run}

    def restore(self, dumped: Mapping[str, Any]) -> None:
        """From what `dump` gave."""
        self.plan, self.auto_run = Plan.model_validate(dumped["plan"]), dumped["auto_run"]
