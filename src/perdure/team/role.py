"""Roles: who observes, thinks and acts. The names and the way of use are those of MetaGPT."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from perdure.errors import RefusedError
from perdure.team import names
from perdure.team import turn as turns
from perdure.team.action import Action, UserRequirement
from perdure.team.llm import LLM
from perdure.team.memory import Memory
from perdure.team.message import ALL, SELF, Message
from perdure.team.outputs import ActionOutput
from perdure.team.plan import TaskResult
from perdure.team.planner import Planner
from perdure.team.stored import put, stored, unstorable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perdure.team.environment import Environment
    from perdure.team.plan import Task

APART: Final = ("rc", "actions", "planner", "latest_observed_msg", "model", "states", "addresses")
"""Fields that are stored otherwise, or not at all."""

CHOICE: Final = """{prefix}

What was said until now:
===
{history}
===

Choose what to do next, by its number. The last choice was {previous}.
{states}

Answer with a number from 0 to {last} alone. If all is done, answer -1."""


class RoleReactMode(StrEnum):
    """How a role goes from one of its actions to the next."""

    REACT = "react"
    """The model chooses, up to `max_react_loop` times."""
    BY_ORDER = "by_order"
    """One after the other, as they were set."""
    PLAN_AND_ACT = "plan_and_act"
    """A plan of tasks is made first, and carried out."""

    @classmethod
    def values(cls) -> list[str]:
        """All of them."""
        return [mode.value for mode in cls]


class RoleContext(BaseModel):
    """Where a role is: what it remembers, what it watches, what it is about to do.

    `state` is the number of its present action, -1 for none; `taken` how many it took in the present turn.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    env: Any = Field(default=None, exclude=True, repr=False)
    msg_buffer: list[Message] = Field(default_factory=list)
    memory: Memory = Field(default_factory=Memory)
    working_memory: Memory = Field(default_factory=Memory)
    state: int = -1
    todo: Action | None = Field(default=None, exclude=True)
    watch: set[str] = Field(default_factory=set)
    news: list[Message] = Field(default_factory=list)
    react_mode: RoleReactMode = RoleReactMode.REACT
    max_react_loop: int = 1
    taken: int = 0

    @property
    def important_memory(self) -> list[Message]:
        """What it remembers of the actions that it watches."""
        return self.memory.get_by_actions(self.watch)

    @property
    def history(self) -> list[Message]:
        """All that it remembers."""
        return self.memory.get()


class Role(BaseModel):
    """One member of a team. Subclass it, and in its constructor `set_actions` and `_watch`.

    What it does in a round is one turn: it observes the messages that came for it, thinks which action is next, and
    acts, until there is nothing more to do; what it returns is published. In a team's run all of this is durable: see
    `docs/team.md`. Fields that you add are saved with it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="allow")

    name: str = ""
    profile: str = ""
    goal: str = ""
    constraints: str = ""
    desc: str = ""
    is_human: bool = False
    enable_memory: bool = True
    role_id: str = ""
    states: list[str] = Field(default_factory=list)
    actions: list[Action] = Field(default_factory=list)
    rc: RoleContext = Field(default_factory=RoleContext)
    addresses: set[str] = Field(default_factory=set)
    planner: Planner = Field(default_factory=Planner)
    recovered: bool = False
    latest_observed_msg: Message | None = None
    model: Any = Field(default=None, exclude=True, repr=False)

    _context: Any = PrivateAttr(default=None)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        names.register(cls)

    def model_post_init(self, context: Any) -> None:
        """Gives it a name and a profile where it has none, and its addresses."""
        super().model_post_init(context)
        self.profile = self.profile or type(self).__name__
        self.addresses = self.addresses or {names.name_of(self), *([self.name] if self.name else [])}
        self.rc.watch = self.rc.watch or {names.name_of(UserRequirement)}
        self.planner.role = self
        self.set_actions(list(self.actions))

    # --- setting up ---------------------------------------------------------------------------------------------------

    def set_actions(self, actions: Iterable[Action | type[Action]]) -> None:
        """What it can do, instead of what it could."""
        self.states, self.actions = [], []
        for given in actions:
            action = given() if isinstance(given, type) else given
            action._role = self  # noqa: SLF001 - an action has the role that it was set to
            action.set_prefix(self._get_prefix())
            self.states.append(f"{len(self.actions)}. {action}")
            self.actions.append(action)

    def set_action(self, action: Action | type[Action]) -> None:
        """One more thing that it can do."""
        self.set_actions([*self.actions, action])

    def _set_react_mode(
        self,
        react_mode: str,
        max_react_loop: int = 1,
        auto_run: bool = True,  # noqa: FBT001, FBT002 - as its users know it
    ) -> None:
        """How it reacts. Raises `RefusedError` for a mode that there is not."""
        if react_mode not in RoleReactMode.values():
            raise RefusedError(f"react_mode={react_mode!r}: it is one of {', '.join(RoleReactMode.values())}")
        self.rc.react_mode = RoleReactMode(react_mode)
        self.rc.max_react_loop = max_react_loop
        self.planner.auto_run = auto_run

    def _watch(self, actions: Iterable[Any]) -> None:
        """Messages caused by which actions concern it."""
        self.rc.watch = {names.name_of(action) for action in actions}

    def is_watch(self, caused_by: str) -> bool:
        """Whether what this caused concerns it."""
        return caused_by in self.rc.watch

    def set_addresses(self, addresses: set[str]) -> None:
        """The names by which it is sent something."""
        self.addresses = addresses

    def set_env(self, env: Environment | None) -> None:
        """The environment that it is in."""
        self.rc.env = env
        for action in self.actions:
            action.set_prefix(self._get_prefix())

    @property
    def llm(self) -> LLM:
        """What it asks: its own model, or the team's."""
        return self.model if isinstance(self.model, LLM) else LLM(self.model)

    @property
    def context(self) -> Any:
        """What the team's code has put there for all."""
        return getattr(self.rc.env, "context", None)

    @property
    def strategy(self) -> Any:
        """The way that the team's failure policy has it try, by name or as `perdure.Strategy`; None without one."""
        turn = turns.current()
        return None if turn is None else turn.strategy

    @property
    def todo(self) -> Action | None:
        """What it is about to do."""
        return self.rc.todo

    @property
    def _setting(self) -> str:
        return f"{self.name}({self.profile})" if self.name else self.profile

    def _get_prefix(self) -> str:
        if self.desc:
            return self.desc
        parts = [f"You are {self.name}, the {self.profile}." if self.name else f"You are the {self.profile}."]
        parts += [f"Your goal: {self.goal}."] if self.goal else []
        parts += [f"Keep to this: {self.constraints}."] if self.constraints else []
        env = self.rc.env
        if env is not None and env.desc:
            others = ", ".join(sorted(role.profile for role in env.roles.values() if role is not self))
            parts.append(f"You are in {env.desc} with {others}." if others else f"You are in {env.desc}.")
        return " ".join(parts)

    # --- what it remembers --------------------------------------------------------------------------------------------

    def get_memories(self, k: int = 0) -> list[Message]:
        """The newest k messages that it remembers; all for 0."""
        return self.rc.memory.get(k=k)

    def put_message(self, message: Message | None) -> None:
        """Puts a message into its inbox: it observes it in its next turn."""
        if message is not None:
            self.rc.msg_buffer.append(message)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing for it to do."""
        interrupted = self.recovered and self.latest_observed_msg is not None
        return not (self.rc.news or self.rc.todo or self.rc.msg_buffer or interrupted)

    # --- a turn -------------------------------------------------------------------------------------------------------

    async def run(self, with_message: str | Message | list[str] | None = None) -> Message | None:
        """One turn: observes, reacts, publishes. None if nothing concerned it."""
        if with_message is not None:
            self.put_message(_as_message(with_message))
        if not await self._observe():
            return None
        answer = await self.react()
        self._set_state(-1)
        self.rc.taken = 0
        self.rc.news, self.latest_observed_msg = [], None
        self.recovered = False
        self.publish_message(answer)
        return answer

    async def _observe(self) -> int:
        """Takes what came, remembers it, and keeps as news what concerns it: how many that is.

        A role that was interrupted observes once more what it was interrupted at.
        """
        news, self.rc.msg_buffer = self.rc.msg_buffer, []
        if self.recovered and self.latest_observed_msg is not None:
            news = [*_interrupted_at(self), *news]
        unknown = self.rc.memory.find_news(news) if self.enable_memory else news
        self.rc.news = [m for m in unknown if self.is_watch(m.cause_by) or self._is_addressed(m)]
        self.rc.memory.add_batch(news)
        self.latest_observed_msg = self.rc.news[-1] if self.rc.news else None
        return len(self.rc.news)

    def _is_addressed(self, message: Message) -> bool:
        return bool((self.addresses - {ALL}) & message.send_to)

    async def react(self) -> Message:
        """What it makes of its news, in its mode."""
        if self.rc.react_mode == RoleReactMode.PLAN_AND_ACT:
            return await self._plan_and_act()
        return await self._react()

    async def _react(self) -> Message:
        """Thinks and acts by turns."""
        answer = Message(content="No action was taken", cause_by=Action, role=self.profile, sent_from=self)
        while self.rc.taken < self.rc.max_react_loop:
            if not await self._think() or self.rc.todo is None:
                break
            answer = await self._act()
            self.rc.taken += 1
        return answer

    async def _think(self) -> bool:
        """Chooses the next action, as `rc.todo`; False if there is none."""
        if self.recovered and self.rc.state >= 0:
            self.recovered = False
            self._set_state(self.rc.state)
            return True
        if len(self.actions) == 1 and self.rc.react_mode == RoleReactMode.REACT:
            self._set_state(0)
            return True
        if self.rc.react_mode == RoleReactMode.BY_ORDER:
            self.rc.max_react_loop = max(self.rc.max_react_loop, len(self.actions))
            self._set_state(self.rc.state + 1 if self.rc.state + 1 < len(self.actions) else -1)
            return self.rc.state >= 0
        said = await self.llm.aask(self._choice())
        self._set_state(_number(said, len(self.actions)))
        return self.rc.state >= 0

    def _choice(self) -> str:
        history = "\n".join(str(message) for message in self.rc.history)
        return CHOICE.format(
            prefix=self._get_prefix(),
            history=history,
            previous=self.rc.state,
            states="\n".join(self.states),
            last=len(self.states) - 1,
        )

    async def _act(self) -> Message:
        """Runs the chosen action on what it remembers, and remembers what came of it."""
        if self.rc.todo is None:
            raise RefusedError(f"{self._setting} acts and has chosen no action: _think sets one")
        answer = self._said(await self.rc.todo.run(self.rc.history))
        self.rc.memory.add(answer)
        return answer

    def _said(self, output: Any) -> Message:
        """What an action returned, as a message of this role."""
        if isinstance(output, Message):
            return output
        about: dict[str, Any] = {"role": self._setting, "cause_by": self.rc.todo, "sent_from": self}
        if isinstance(output, ActionOutput):
            return Message(content=output.content, instruct_content=output.instruct_content, **about)
        if isinstance(output, BaseModel):
            return Message(content=output.model_dump_json(), instruct_content=output, **about)
        return Message(content="" if output is None else str(output), **{**about, "role": self.profile})

    async def _plan_and_act(self) -> Message:
        """Makes a plan for the newest message, unless there is one, and carries it out task by task."""
        if not self.planner.plan.goal:
            await self.planner.update_plan(goal=self.rc.memory.get()[-1].content)
        while (task := self.planner.current_task) is not None:
            self.planner.process_task_result(await self._act_on_task(task))
        answer = self._said(self.planner.result())
        self.planner.clear()
        self.rc.memory.add(answer)
        return answer

    async def _act_on_task(self, task: Task) -> TaskResult:
        """Runs the action that is called like the task's type, else its first one, with what the task says."""
        named = {action.name: number for number, action in enumerate(self.actions)}
        self._set_state(named.get(task.task_type, 0))
        if self.rc.todo is None:
            raise RefusedError(f"{self._setting} has no action to carry out task {task.task_id!r} with")
        said = self._said(await self.rc.todo.run(self.planner.instruction(task)))
        self.rc.working_memory.add(said)
        return TaskResult(result=said.content, is_success=True)

    def publish_message(self, message: Message | None) -> None:
        """Sends a message to the others; they observe it in the next round. One to `SELF` it gets itself."""
        if message is None:
            return
        if SELF in message.send_to:
            message.send_to = {names.name_of(self)}
        turn = turns.current()
        if turn is not None:
            turn.tally.published.append(message)
        elif self.rc.env is not None:
            self.rc.env.publish_message(message)

    def _set_state(self, state: int) -> None:
        self.rc.state = state
        self.rc.todo = self.actions[state] if state >= 0 else None

    def set_todo(self, value: Action | None) -> None:
        """What it does next, for a `_think` of one's own: one of its actions, or another one made for this."""
        if value is not None and not any(value is action for action in self.actions):
            value._role = self  # noqa: SLF001 - as in set_actions
            value.set_prefix(value.prefix or self._get_prefix())
        self.rc.todo = value
        self.rc.state = next((number for number, action in enumerate(self.actions) if action is value), -1)

    # --- as data ------------------------------------------------------------------------------------------------------

    @property
    def unsaved(self) -> list[str]:
        """Fields of it and its actions that cannot be stored: after a restart they are as constructors make them."""
        own = [f"{self.profile}.{name}" for name in unstorable(self, *APART)]
        return own + [f"{self.profile}.{action.name}.{name}" for action in self.actions for name in action.unsaved]

    def dump(self) -> dict[str, Any]:
        """All but its messages, as far as it can be stored."""
        fields = stored(self, *APART)
        latest = self.latest_observed_msg
        return {
            "class": names.full_name(type(self)),
            "fields": fields,
            "addresses": sorted(self.addresses),
            "actions": [{"class": names.full_name(type(action)), "fields": action.dump()} for action in self.actions],
            "state": self.rc.state,
            "taken": self.rc.taken,
            "watch": sorted(self.rc.watch),
            "react_mode": self.rc.react_mode.value,
            "max_react_loop": self.rc.max_react_loop,
            "planner": self.planner.dump(),
            "latest": None if latest is None else latest.id,
        }

    def restore(self, dumped: Mapping[str, Any], messages: Mapping[str, Message]) -> None:
        """Puts what `dump` gave over what the constructor has made."""
        put(self, dumped["fields"], *APART)
        self.addresses = set(dumped["addresses"])
        self._restore_actions(dumped["actions"])
        self.rc.taken, self.rc.max_react_loop = dumped["taken"], dumped["max_react_loop"]
        self.rc.watch, self.rc.react_mode = set(dumped["watch"]), RoleReactMode(dumped["react_mode"])
        self.planner.restore(dumped["planner"])
        self.latest_observed_msg = messages.get(dumped["latest"] or "")
        self.rc.state = dumped["state"]

    def _restore_actions(self, dumped: list[Any]) -> None:
        mine: dict[tuple[str, str], list[Action]] = {}  # several may be of one class and name: they go by their order
        for action in self.actions:
            mine.setdefault((names.full_name(type(action)), action.name), []).append(action)
        found = []
        for each in dumped:
            same = mine.get((each["class"], each["fields"]["name"]))
            action = same.pop(0) if same else names.lookup(each["class"], Action)(name=each["fields"]["name"])
            action.restore(each["fields"])
            found.append(action)
        prefixes = [action.prefix for action in found]
        self.set_actions(found)
        for action, prefix in zip(found, prefixes, strict=True):
            action.prefix = prefix


def _as_message(given: str | Message | list[str]) -> Message:
    if isinstance(given, Message):
        return given
    return Message(content=given if isinstance(given, str) else "\n".join(given))


def _interrupted_at(role: Role) -> list[Message]:
    latest = role.latest_observed_msg
    return [] if latest is None or any(m.id == latest.id for m in role.rc.msg_buffer) else [latest]


def _number(said: str, count: int) -> int:
    """The number of an action in a model's answer; -1 for none."""
    found = re.findall(r"-?\d+", said)
    number = int(found[-1]) if found else -1
    return number if 0 <= number < count else -1
