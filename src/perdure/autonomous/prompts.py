"""What a model is told by the loop: the system text, made anew of the state for each request, and the questions.

Goal, rules, facts, open questions, plan and what was tried stand in the system text, so that no compaction loses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.autonomous import plan as plans

if TYPE_CHECKING:
    from perdure.tools import Toolbox

State = Mapping[str, Any]

_WORK = """\
You pursue a goal on your own, by calling tools, until it is reached. One task at a time: do the one that is marked \
with >. When it is done call finish_task; it is then judged. Call revise_plan when you have learnt that the plan is \
wrong, remember for what you must not forget, give_up when this way cannot lead to the goal. You work in a folder: \
paths are relative to it. Nobody reads what you say without a tool."""

GO_ON = "Go on by calling a tool. If the task is done, call finish_task; if it cannot be done this way, call give_up."

PLAN = """\
Split this goal into tasks, each of which can be checked. Give each a short id, say which tasks it needs, by what \
anybody can tell that it is done, and a shell command that checks it if there is one. As few tasks as will do."""

COMPACT = """\
This is the beginning of the work on a goal, which is about to be forgotten. Say in a summary what was done and found, \
with the names, numbers and paths that will be needed. List apart the facts that must not be lost, and the questions \
that are still open."""


def system(state: State, *, about: str, strategy: Any) -> str:
    """The system text of a request."""
    agent = state["agent"]
    return "\n\n".join(
        filter(
            None,
            (
                about or _WORK,
                f"Goal:\n{agent['goal']}",
                _list("Rules, which hold always", state["rules"]),
                _list("Facts", state["facts"]),
                _list("Open questions", state["questions"]),
                f"Plan:\n{plans.text(state['plan'])}" if state["plan"]["tasks"] else "",
                _task(plans.current(state["plan"])),
                _list("What was tried before, and given up", map(given_up, state["tried"])),
                _way(strategy),
            ),
        )
    )


def _list(title: str, lines: Iterable[str]) -> str:
    told = "\n".join(f"- {line}" for line in lines)
    return f"{title}:\n{told}" if told else ""


def _task(task: Mapping[str, Any] | None) -> str:
    if task is None:
        return ""
    return f"The task now is {task['id']}: {task['title']}" + (
        f"\nIt is done when: {task['done_when']}" if task["done_when"] else ""
    )


def _way(strategy: Any) -> str:
    advice = getattr(strategy, "settings", {}).get("advice", "")
    return f"How to go about it now: {advice}" if advice else ""


def given_up(tried: Mapping[str, Any]) -> str:
    """One way that was tried, as a model is told of it."""
    to = f" Back at {tried['to']!r}." if tried["to"] else ""
    files = " The files are as they were there." if tried["files"] else ""
    undone = f" Undone: {'; '.join(tried['undone'])}." if tried["undone"] else ""
    standing = f" Not undone, it still stands: {'; '.join(tried['standing'])}." if tried["standing"] else ""
    return f"{tried['reason'] or 'a person took it back'}.{to}{files}{undone}{standing}"


def planning(tools: Toolbox, *, like: str) -> str:
    """The question for a plan. `like` is what an earlier plan was given up for that was nearly the same."""
    known = _list("Tools", (f"{one.name}: {one.description.partition(chr(10))[0]}" for one in tools))
    again = f"A plan like that was given up before: {like}. Make one that goes another way." if like else ""
    return "\n\n".join(filter(None, (PLAN, known, again)))


def begin(task: Mapping[str, Any]) -> str:
    """What the history begins with, and each further task."""
    return f"Begin with task {task['id']}: {task['title']}"


def judging(task: Mapping[str, Any], result: str, history: str) -> str:
    """The question whether a task is done."""
    done_when = task["done_when"] or "it is done in full"
    return (
        f"Judge whether this task is done: {task['title']}\nIt is done when: {done_when}\n"
        f"Who worked on it says: {result}\n\nWhat was done:\n{history}\n\n"
        "Rely on what tools showed, not on what was said. If it is not done, say what is missing."
    )


def rejected(task: Mapping[str, Any], missing: str) -> str:
    """What the agent is told of a task that is not done."""
    return f"Task {task['id']} is not done yet: {missing or 'no reason was given'}"


def compacting(history: str) -> str:
    """The question for a compaction."""
    return f"{COMPACT}\n\n{history}"


def compacted(summary: str) -> str:
    """What stands in the place of the beginning of a history."""
    return f"What was done before, in short:\n{summary}"


def answered(questions: Sequence[str]) -> str:
    """What keeps a goal from being reached: open questions."""
    return _list("All tasks are done, but these questions are open: answer and close them, or add tasks", questions)
