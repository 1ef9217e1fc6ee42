"""The tools by which a model steers its own loop: what it has finished, learnt, gave up, or sees otherwise now.

They change the agent's state and nothing else, so they belong to its own code and are no actions.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from perdure import limits
from perdure.autonomous import plan as plans
from perdure.autonomous.plan import Task
from perdure.tools.described import tool
from perdure.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from perdure.tools import Tool

State: TypeAlias = MutableMapping[str, Any]

Change: TypeAlias = Callable[[State], str]
"""Changes the state; what the model is told. Raises `ValueError`."""


def finish_task(result: str) -> Change:
    """Says that the current task is done, and what came of it. Whether it is, is judged next."""

    def change(state: State) -> str:
        task = plans.current(state["plan"])
        if task is None:
            raise ValueError("no task is open")
        state["agent"]["judging"] = {"task": task["id"], "result": result}
        return f"task {task['id']} is being judged"

    return change


def give_up(reason: str) -> Change:
    """Says that this way leads nowhere. What it did is taken back as far as possible, and another way is tried."""

    def change(state: State) -> str:
        state["agent"]["dead_end"] = reason or "the agent gave up"
        return "this way is left"

    return change


def revise_plan(tasks: list[Task]) -> Change:
    """Replaces the open tasks of the plan by these. What is done stays done."""

    def change(state: State) -> str:
        state["plan"] = plans.revised(state["plan"], tasks)
        state["agent"]["judging"] = None
        return f"this is the plan now:\n{plans.text(state['plan'])}"

    return change


def remember(fact: str) -> Change:
    """Keeps a fact for good: it is shown with every request, however long the work takes."""
    return lambda state: _added(state["facts"], fact, "fact")


def ask_later(question: str) -> Change:
    """Notes an open question, to be answered before the work is done."""
    return lambda state: _added(state["questions"], question, "open question")


def close_question(question: str) -> Change:
    """Removes an open question that is answered. Its text, as it was noted."""

    def change(state: State) -> str:
        if question not in state["questions"]:
            raise ValueError(f"there is no such open question; there are: {', '.join(state['questions']) or 'none'}")
        state["questions"].remove(question)
        return "closed"

    return change


def _added(kept: list[str], text: str, what: str) -> str:
    if add(kept, text):
        return "noted"
    raise ValueError(
        f"a {what} is a text of 1 to {limits.FACT_CHARS_MAX} characters, said once, and at most "
        f"{limits.FACTS_COUNT_MAX} are kept: write more to a file"
    )


def add(kept: list[str], text: str) -> bool:
    """Keeps a text, if it is new and there is room."""
    if not 0 < len(text.strip()) <= limits.FACT_CHARS_MAX or text in kept or len(kept) >= limits.FACTS_COUNT_MAX:
        return False
    kept.append(text)
    return True


_FUNCTIONS: Final = (finish_task, give_up, revise_plan, remember, ask_later, close_question)

CONTROLS: Final[Toolbox] = Toolbox(tool(fn, effect="repeatable", place="agent") for fn in _FUNCTIONS)


def carried_out(state: State, name: str, arguments: str) -> str:
    """Does what a model asks for; what it is told, also of what it got wrong."""
    one: Tool = CONTROLS[name]
    try:
        change: Change = one.fn(**one.checked(arguments))
        return change(state)
    except ValueError as error:
        return f"{name} was not done: {error}"
