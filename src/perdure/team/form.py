"""What a team's file holds, as a tree of plain parts that follow MetaGPT's JSON key by key.

Classes are names in it, and messages are dicts: nothing is built, so any file can be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from perdure.team import content, names
from perdure.team.kinds import ANY, COUNT, OBJECT, TEXT, TEXTS, Key, Kind, MisformedError, Part, text_of


def _structured(value: Any, path: str) -> Any:
    if value is not None and not content.is_form(value):
        raise MisformedError(path, "null is expected, or an object with class, value, and module or mapping")
    return ANY.read(value, path)


_MESSAGE: Final = {
    "id": TEXT,
    "content": TEXT,
    "instruct_content": Kind(_structured),
    "role": TEXT,
    "cause_by": TEXT,
    "sent_from": TEXT,
    "send_to": TEXTS,
}


def _message(value: Any, path: str) -> Any:
    missing = _MESSAGE.keys() - OBJECT.read(value, path).keys()
    if missing:
        raise MisformedError(path, f"the key {min(missing)!r} is missing")
    for name, item in value.items():
        _MESSAGE.get(name, ANY).read(item, f"{path}.{name}")
    return value


Message = Annotated[dict[str, Any], Kind(_message)]
"""A message as `message.dump` gives it."""

ClassName = Annotated[str, Key("__module_class_name")]
Count = Annotated[int, COUNT]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFile(Part):
    """What a role remembers: all messages in order, and again by the name of what caused them."""

    storage: Annotated[list[Message], Key(needed=True)] = field(default_factory=list)
    index: dict[str, list[Message]] = field(default_factory=dict)
    ignore_id: bool = False

    @classmethod
    def of(cls, storage: list[dict[str, Any]], **rest: Any) -> MemoryFile:
        """A memory of these messages, with the index that follows from them."""
        index: dict[str, list[Message]] = {}
        for message in storage:
            index.setdefault(message["cause_by"], []).append(message)
        return cls(storage=storage, index=index, **rest)

    def check(self, path: str) -> None:
        """The index has no message that the storage has not, and has each under what caused it."""
        stored = {message["id"] for message in self.storage}
        for cause, messages in self.index.items():
            for at, message in enumerate(messages):
                if message["id"] not in stored or message["cause_by"] != cause:
                    raise MisformedError(
                        f"{path}.index.{cause}[{at}]",
                        f"the message {message['id']!r:.80} is not in the storage, or something else caused it",
                    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFile(Part):
    """An action of a role. Fields of its own class are in `more`."""

    name: str
    i_context: Any = ""
    prefix: str = ""
    desc: str = ""
    llm_name_or_type: str | None = None
    class_name: ClassName


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleContextFile(Part):
    """Where a role is: what it remembers, and the number of the action that it is at; -1 for none."""

    memory: MemoryFile
    working_memory: MemoryFile = field(default_factory=MemoryFile)
    state: int
    watch: list[str]
    react_mode: Literal["react", "by_order", "plan_and_act"]
    max_react_loop: Count = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile(Part):
    """A task of a plan."""

    task_id: str
    dependent_task_ids: list[str] = field(default_factory=list)
    instruction: str = ""
    task_type: str = ""
    code: str = ""
    result: str = ""
    is_success: bool = False
    is_finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile(Part):
    """A plan: its tasks in order, and again by their ids."""

    goal: str = ""
    context: str = ""
    tasks: list[TaskFile] = field(default_factory=list)
    task_map: dict[str, TaskFile] = field(default_factory=dict)
    current_task_id: str = ""

    def check(self, path: str) -> None:
        """Each task has an id of its own, and the current one is among them."""
        ids = [task.task_id for task in self.tasks]
        if len({*ids}) < len(ids):
            raise MisformedError(f"{path}.tasks", "two tasks have one id")
        for name in (self.current_task_id, *self.task_map):
            if name and name not in ids:
                raise MisformedError(path, f"there is no task {name!r:.80}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerFile(Part):
    """The planner of a role."""

    plan: PlanFile = field(default_factory=PlanFile)
    working_memory: MemoryFile = field(default_factory=MemoryFile)
    auto_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFile(Part):
    """A role. Fields of its own class are in `more`.

    `latest_observed_msg` is the message over which it was interrupted, and which it is to observe again.
    """

    name: str
    profile: str
    goal: str = ""
    constraints: str = ""
    desc: str = ""
    is_human: bool = False
    role_id: str = ""
    states: list[str] = field(default_factory=list)
    actions: list[ActionFile]
    rc: RoleContextFile
    addresses: list[str] = field(default_factory=list)
    planner: PlannerFile = field(default_factory=PlannerFile)
    recovered: bool = False
    latest_observed_msg: Message | None = None
    class_name: ClassName

    def check(self, path: str) -> None:
        """The role is at one of its actions, or at none."""
        if self.rc.state not in range(-1, len(self.actions)):
            raise MisformedError(
                f"{path}.rc.state", f"{self.rc.state} is none of -1 to {len(self.actions) - 1}, the numbers of actions"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFile(Part):
    """The roles by their profiles (MetaGPT after 0.8: by their names), and what was said, as text."""

    desc: str = ""
    roles: dict[str, RoleFile]
    history: str = ""

    def check(self, path: str) -> None:
        """Each role stands under its own profile or name."""
        for name, role in self.roles.items():
            if name not in (role.profile, role.name):
                raise MisformedError(
                    f"{path}.roles.{name}", f"here stands {role.name!r:.80} with the profile {role.profile!r:.80}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFile(Part):
    """What was spent, in tokens and dollars. Without `token_costs` MetaGPT takes the prices that it knows."""

    total_prompt_tokens: Count = 0
    total_completion_tokens: Count = 0
    total_budget: float = 0.0
    max_budget: float = 10.0
    total_cost: float = 0.0
    token_costs: Annotated[dict[str, Any] | None, Key(omit=True)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamContextFile(Part):
    """What the whole team shares."""

    workdir: str = ""
    kwargs: dict[str, Any] = field(default_factory=dict)
    cost: Annotated[CostFile, Key("cost_manager"), text_of(CostFile)] = field(default_factory=CostFile)


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamFile(Part):
    """A team as one file has it. `perdure` is what this library adds and MetaGPT passes over; None in its own files."""

    env: EnvironmentFile
    investment: float
    idea: str
    context: TeamContextFile = field(default_factory=TeamContextFile)
    perdure: Annotated[dict[str, Any] | None, Key(omit=True)] = None

    def unknown_classes(self) -> list[str]:
        """The names of roles' and actions' classes that this program does not know: it cannot build them."""
        roles = self.env.roles.values()
        told = {role.class_name for role in roles} | {one.class_name for role in roles for one in role.actions}
        return sorted(name for name in told if names.known(name) is None)

    def unknown_contents(self) -> list[str]:
        """The names of the classes of messages' contents that this program does not know: they are kept unread."""
        forms = [message["instruct_content"] for message in self.messages()]
        told = {(form["module"], form["class"]) for form in forms if form and "module" in form}
        return sorted(".".join(name) for name in told if names.model_named(*name, object) is None)

    def messages(self) -> Iterator[dict[str, Any]]:
        """All messages in it, role by role: remembered, in work, observed last. What several have comes again."""
        for role in self.env.roles.values():
            for memory in (role.rc.memory, role.rc.working_memory, role.planner.working_memory):
                yield from memory.storage
            if role.latest_observed_msg is not None:
                yield role.latest_observed_msg
