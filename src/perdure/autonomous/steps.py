"""The loop of an autonomous agent: plan, choose, act, observe, judge; each request and what follows from it is a step.

A step ends with a history in which every call has its result, so wherever it is stopped, the next one begins with a
valid one. What it decides follows from its state and from what is recorded.
"""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, overload
from weakref import WeakKeyDictionary

from pydantic import BaseModel, Field

from perdure import limits, values
from perdure.autonomous import controls, dead_ends, milestones, prompts, seed, window
from perdure.autonomous import plan as plans
from perdure.autonomous.definition import Agent
from perdure.autonomous.given import Given, checked_budget, folder_of, given_in
from perdure.autonomous.plan import Plan
from perdure.autonomous.tally import Tally, spent_out, tried
from perdure.errors import DeadEndError, RefusedError
from perdure.models import ask
from perdure.recovery import ProgressPolicy, aexplored
from perdure.session.declare import steps
from perdure.session.waiting import in_thread
from perdure.workspace.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perdure.session.async_session import AsyncSession
    from perdure.tools import ToolResult

_log = logging.getLogger("perdure.autonomous")

APPEND_ONLY: Final = ("rules", "facts", "history")

NONE: Final[Mapping[str, Any]] = MappingProxyType({})
"""No options."""

WORKSPACE: Final = Folder(folder_of, conflicts="keep", stays=True)
"""The files of an agent, unless its code says otherwise."""

_ALIKE: Final = 0.9
"""From this likeness on a plan counts as one that was given up before."""


Sentence = Annotated[str, Field(max_length=limits.FACT_CHARS_MAX)]


class Verdict(BaseModel):
    """What a judge says."""

    done: bool
    missing: str = Field("", max_length=1000, description="What is missing, if it is not done")


class Summary(BaseModel):
    """What is kept of the beginning of a history."""

    summary: str = Field(max_length=8000)
    facts: list[Sentence] = Field(default_factory=list, max_length=50, description="What must not be lost")
    questions: list[Sentence] = Field(default_factory=list, max_length=20, description="What is open")


@overload
def agent(make: Callable[[], Agent], /) -> Callable[[AsyncSession], Any]: ...
@overload
def agent(
    *,
    version: str = "",
    restore: Any = None,
    progress: Any = None,
    failures: Any = None,
    hooks: Any = None,
    saves: Any = None,
    workspace: Any = None,
) -> Callable[[Callable[[], Agent]], Callable[[AsyncSession], Any]]: ...
def agent(make: Any = None, /, **options: Any) -> Any:
    """Declares a function that gives an `Agent` as one to be run: `perdure run file.py:function --input '"the goal"'`.

    The input is the goal, or `{"goal": …, "model": …, "workspace": …, "rules": […], "budget": {…}, "approve": …,
    "window": …, "allow": […]}`. Its files are those of the folder, and roll back with the state; `failures` is
    `policy()` and `progress` `ProgressPolicy()` unless others are said. The session completes with the agent's result;
    out of budget it is idle until more is sent to it: `{"usd": 1}`. A text that is sent to it is told to the model at
    its next step. `options` are those of `perdure.steps`.
    """

    def declare(function: Callable[[], Agent]) -> Callable[[AsyncSession], Any]:
        return declared(function, options)

    return declare if make is None else declare(make)


def declared(make: Callable[[], Agent], options: Mapping[str, Any] = NONE) -> Callable[[AsyncSession], Any]:
    """The steps of the agent that a function gives, with these options."""
    lives: WeakKeyDictionary[AsyncSession, Loop] = WeakKeyDictionary()

    async def step(s: AsyncSession) -> None:
        loop = lives.get(s)
        if loop is None:
            loop = lives[s] = Loop(make(), given_in(s.input), s.folder or folder_of(s))
        await loop.step(s)

    step = functools.wraps(make)(step)
    step.make, step.options = make, options  # type: ignore[attr-defined]
    chosen = {
        "failures": dead_ends.policy(),
        "progress": ProgressPolicy(),
        "workspace": WORKSPACE,
        **options,
    }
    return steps(append_only=APPEND_ONLY, **chosen)(step)


class Loop:
    """One agent in one process."""

    def __init__(self, agent: Agent, given: Given, folder: Path) -> None:
        self._agent, self._given = agent, given
        self._tools = agent.toolbox(folder, given)
        self._offered = [*self._tools.definitions(), *controls.CONTROLS.definitions()]
        self._window = given.window or agent.window
        self._folder = folder
        self._tally = Tally()

    def _model(self, s: AsyncSession) -> Any:
        model = s.state["agent"]["model"] or self._agent.model
        if model is None:
            raise RefusedError("an agent needs a model: name one in its input, or where it is declared")
        return model

    # --- one step -----------------------------------------------------------------------------------------------------

    async def step(self, s: AsyncSession) -> None:
        """Does what is next. Every way through it ends with a state from which the next step goes on."""
        if "agent" not in s.state:
            self._begin(s)
            await self._seed(s)
            await s.checkpoint(dead_ends.START)
            return
        state, spent = s.state, await self._look_back(s)
        while await s.has_message():
            self._take(s, await s.receive())
        if lack := spent_out(state["agent"]["budget"], spent):
            _log.info("%s: %s", s.id, lack)
            self._take(s, await s.receive())
        elif reason := state["agent"]["dead_end"]:
            raise DeadEndError(reason)
        elif not state["plan"]["tasks"]:
            await self._plan(s)
        elif state["agent"]["judging"]:
            await self._judge(s)
        elif window.is_full(state["history"], system=self._system(s), window=self._window):
            await self._compact(s)
        else:
            await self._act(s)

    def _begin(self, s: AsyncSession) -> None:
        agent, given = self._agent, self._given
        s.state["agent"] = {
            "goal": given.goal,
            "model": given.model,
            "budget": {**agent.budget, **given.budget},
            "rollbacks": 0,
            "judging": None,
            "dead_end": "",
            "milestones": [],
            "compactions": 0,
        }
        s.state["rules"] = [*agent.rules, *given.rules]
        s.state["facts"], s.state["questions"], s.state["tried"] = [], [], []
        s.state["plan"] = {"revision": 0, "tasks": []}
        s.state["history"] = []

    async def _seed(self, s: AsyncSession) -> None:
        if self._agent.seed is not None and await s.call(seed.is_empty, self._folder):
            await s.call(seed.copy, self._agent.seed, self._folder)

    async def _look_back(self, s: AsyncSession) -> Mapping[str, float]:
        """What was spent. If a branch was left meanwhile, what was tried on it is noted.

        The log tells both, and what it tells is recorded: this step is the same when it is entered again.
        """
        new = await in_thread(functools.partial(s.reader.entries, after=self._tally.taken))
        told = s.drawn("tally", lambda: self._tally.take(new).told())
        if told["rollbacks"] != s.state["agent"]["rollbacks"]:
            everything = await s.read_whole()
            s.state["tried"] = s.drawn("tried", lambda: tried(everything))
            s.state["agent"]["rollbacks"] = told["rollbacks"]
        return told["spent"]  # type: ignore[no-any-return]

    def _take(self, s: AsyncSession, sent: Any) -> None:
        """What somebody said: more of the budget, a rule, or a text for the model."""
        agent = s.state["agent"]
        match sent:
            case str() if sent.strip():
                self._say(s, f"A person says: {sent}")
                agent["dead_end"] = ""
            case {"rule": str(rule), **rest} if not rest:
                controls.add(s.state["rules"], rule)
            case dict() if sent and _is_budget(sent):
                # More of what has no bound is no bound.
                agent["budget"] = {unit: most + sent.get(unit, 0) for unit, most in agent["budget"].items()}
            case _:
                told = '%s takes a text, {"rule": text} or more budget such as {"usd": 1}; this is passed over: %s'
                _log.warning(told, s.id, values.describe(sent))

    def _say(self, s: AsyncSession, text: str) -> None:
        """Tells the model something before it is asked next."""
        s.state["history"].append({"role": "user", "content": text})

    # --- plan ---------------------------------------------------------------------------------------------------------

    async def _plan(self, s: AsyncSession) -> None:
        made = self._agent.plan or await self._fresh_plan(s)
        s.state["plan"] = plans.begun(made)
        self._begin_task(s)
        await self._reach(s, [milestones.PLAN])

    async def _fresh_plan(self, s: AsyncSession) -> Plan:
        """A plan. One that is like one that was given up is asked for once more, and then taken as it is."""
        made = await self._planned(s)
        told = "\n".join(task.title for task in made.tasks)
        left = [way for way in await aexplored(s, told, at_least=_ALIKE) if way.left]
        return await self._planned(s, like=left[0].reason or left[0].text) if left else made

    async def _planned(self, s: AsyncSession, *, like: str = "") -> Plan:
        answer = await self._ask(s, prompts.planning(self._tools, like=like), output_type=Plan, name="plan")
        return answer.output  # type: ignore[no-any-return]

    def _begin_task(self, s: AsyncSession) -> None:
        task = plans.current(s.state["plan"])
        if task is not None:
            self._say(s, prompts.begin(task))

    # --- act ----------------------------------------------------------------------------------------------------------

    async def _act(self, s: AsyncSession) -> None:
        history = s.state["history"]
        if history[-1]["role"] == "assistant":
            self._say(s, prompts.GO_ON)
        answer = await self._ask(s, "", history=history, tools=self._offered, stream=True)
        history.append(answer.message())
        ran = await self._call(s, answer.calls)
        before = s.state["agent"]["milestones"]
        await self._reach(s, milestones.reached(ran, before=before, find=self._agent.milestones))

    async def _call(self, s: AsyncSession, calls: Any) -> list[tuple[str, dict[str, Any], ToolResult]]:
        """Carries out the calls of a reply, in order; what only looks and stands together runs at the same time."""
        ran = []
        waiting: list[Any] = []
        for call in [*calls, None]:
            if call is not None and call.name not in controls.CONTROLS:
                waiting.append(call)
                continue
            results = await self._tools.call_all(s, [(one.name, one.arguments) for one in waiting])
            for one, result in zip(waiting, results, strict=True):
                self._observe(s, one.id, result.text, beside=len(calls))
                ran.append((one.name, self._arguments(one), result))
            waiting = []
            if call is not None:
                told = controls.carried_out(s.state, call.name, call.arguments)
                self._observe(s, call.id, told, beside=len(calls))
        return ran

    def _arguments(self, call: Any) -> dict[str, Any]:
        try:
            return self._tools[call.name].checked(call.arguments)
        except (ValueError, RefusedError):
            return {}

    def _observe(self, s: AsyncSession, call: str, text: str, *, beside: int) -> None:
        shown = window.result(text, window=self._window, beside=beside)
        s.state["history"].append({"role": "tool", "tool_call_id": call, "content": shown})

    async def _reach(self, s: AsyncSession, names: list[str]) -> None:
        for name in names:
            s.state["agent"]["milestones"] = [*s.state["agent"]["milestones"], name]
            await s.checkpoint(name)

    # --- judge --------------------------------------------------------------------------------------------------------

    async def _judge(self, s: AsyncSession) -> None:
        """Whether the task is done that the agent has finished; whether all is, once no task is open."""
        state, judging = s.state, s.state["agent"]["judging"]
        task = next(task for task in state["plan"]["tasks"] if task["id"] == judging["task"])
        state["agent"]["judging"] = None
        missing = await self._missing(s, task, judging["result"])
        if not missing and plans.is_last(state["plan"], task):
            missing = await self._missing_in_all(s, judging["result"])
        if missing:
            task["rejected"] += 1
            self._say(s, prompts.rejected(task, missing))
            if task["rejected"] >= limits.REJECTIONS_COUNT:
                state["agent"]["dead_end"] = f"task {task['id']} was not done {task['rejected']} times: {missing}"
            return
        task["status"], task["result"] = plans.DONE, judging["result"][: limits.FACT_CHARS_MAX]
        if plans.current(state["plan"]) is not None:
            self._begin_task(s)
        else:
            s.complete(judging["result"])

    async def _missing(self, s: AsyncSession, task: Mapping[str, Any], result: str) -> str:
        """What a task lacks; "" for nothing. Told by its check, if it has one that can be run, else by the model."""
        if task["check"] and "run_shell" in self._tools:
            ran = await self._tools.call(s, "run_shell", {"command": task["check"]})
            status = getattr(ran.value, "exit_status", None)
            return "" if ran.ok and status == 0 else f"{task['check']} says:\n{ran.text}"
        work = window.rendered(s.state["history"], window=self._window)
        question = prompts.judging(task, result, work)
        verdict = (await self._ask(s, question, output_type=Verdict, name="judge")).output
        return "" if verdict.done else verdict.missing or "nobody said what"

    async def _missing_in_all(self, s: AsyncSession, result: str) -> str:
        """What keeps the goal from being reached, all tasks being done: open questions, or what the program says."""
        if s.state["questions"] or self._agent.judge is None:
            return prompts.answered(s.state["questions"])
        act = s.action(self._agent.judge, name="check", effect="repeatable", ignore=("folder",))
        return str(await act(self._folder, result))

    # --- compact ------------------------------------------------------------------------------------------------------

    async def _compact(self, s: AsyncSession) -> None:
        """The beginning of the history becomes a summary; facts and open questions that it holds are kept apart."""
        history = s.state["history"]
        at = window.cut(history, window=self._window)
        question = prompts.compacting(window.rendered(history[:at], window=self._window))
        found = (await self._ask(s, question, output_type=Summary, name="compact")).output
        for kept, texts in ((s.state["facts"], found.facts), (s.state["questions"], found.questions)):
            for text in texts:
                controls.add(kept, text)
        summary = {"role": "user", "content": prompts.compacted(found.summary)}
        s.state["history"] = [summary, *history[at:]]
        s.state["agent"]["compactions"] += 1

    # --- the model ----------------------------------------------------------------------------------------------------

    def _system(self, s: AsyncSession) -> str:
        return prompts.system(s.state, about=self._agent.about, strategy=s.strategy)

    async def _ask(self, s: AsyncSession, question: str, **how: Any) -> Any:
        settings = self._agent.settings
        return await ask(s, self._model(s), question, system=self._system(s), settings=settings, **how)


def _is_budget(sent: Mapping[Any, Any]) -> bool:
    try:
        checked_budget(sent)
    except RefusedError:
        return False
    return True
