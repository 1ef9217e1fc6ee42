"""Teams on trial: of two roles and of four, in each mode, whose actions have effects outside.

Effects are lines of the file that `tests.crash.outside` keeps: `Build` and what is declared once must be there exactly
as often as unharmed; behind the name is what it was done with, as JSON. Each action says where it is (`instant`), so
that a test can have something happen there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import Field, TypeAdapter

import perdure
from perdure.session.face import Face
from perdure.team import LLM, Action, Message, Role, Task, Team, UserRequirement, agent
from perdure.team import turn as turns
from perdure.testing.inside import fixed_value
from tests.crash.outside import happens

hook: list[Callable[[str], None]] = []
"""What is called at each instant; the last of them counts."""


def instant(name: str) -> None:
    if hook:
        hook[-1](name)


@perdure.action()
async def mail(text: str) -> str:
    """Once: nothing is said about it."""
    instant("mail")
    happens(f"mail {json.dumps(text)}")
    return f"mailed {text}"


@perdure.action(effect="repeatable")
async def look(text: str) -> str:
    happens("look")
    instant("look")
    return f"seen {text}"


@perdure.action()
async def reply(asked: str, said: str) -> str:
    """A model: that it is not asked again is counted."""
    instant("reply")
    happens(f"asked-{asked}")
    return said


class Scripted(LLM):
    """A model of this role: chooses and plans as it is told, in order, in each turn; answers actions by the prompt."""

    def __init__(self, *replies: str) -> None:
        super().__init__()
        self.replies = replies

    async def ask(self, prompt: str, output_type: Any = str, *, system: str = "", retries: int = 2) -> Any:
        del system, retries
        turn = turns.current()
        assert turn is not None
        if prompt.startswith("try"):
            said = await reply("try", f"yes: {prompt}")
            turn.tally.pay(20, 2, 0.1)
        else:
            number, turn.asked = turn.asked, turn.asked + 1
            said = await reply(f"{turn.profile}-{turn.number}-{number}", self.replies[number])
            turn.tally.pay(10, 1, 0.25)
        return said if output_type is str else TypeAdapter(output_type).validate_json(said)


def fix_ids() -> None:
    """From now on the first id that a session draws is the same in each session, and so is the second."""
    value, drawn = Face._value, Counter[str]()

    def fixed(session: Face, kind: str, own: Any) -> Any:
        def draw() -> Any:
            drawn[session.id] += 1
            return fixed_value(kind, drawn[session.id])

        return value(session, kind, draw if kind == "uuid" else own)

    Face._value = fixed  # type: ignore[method-assign]


def newest(history: Any) -> str:
    return str(history if isinstance(history, str) else history[-1].content)


class Draft(Action):
    """Two effects, and messages of its own making, of which it returns one."""

    async def run(self, history: list[Message]) -> Message:
        instant("Draft begins")
        seen = await look(newest(history))
        Message("one that nobody gets")
        said = await mail(seen)
        instant("Draft ends")
        return Message(f"draft: {said}", cause_by=Draft, sent_from="Ana")


class Review(Action):
    """Keeps something in its own fields."""

    async def run(self, history: list[Message]) -> Message:
        self.i_context = [*(self.i_context or []), len(history)]
        instant("Review ends")
        return Message(f"review {self.i_context} of {newest(history)}", cause_by=Review)


class Build(Action):
    """What happens outside happens in itself: it happens once, or is in doubt."""

    effect: ClassVar[str] = "once"

    async def run(self, history: list[Message]) -> str:
        instant("Build begins")
        happens(f"Build {json.dumps(newest(history))}")
        return f"built from {newest(history)}"


class Try(Action):
    async def run(self, history: list[Message]) -> str:
        instant("Try begins")
        said = await mail(await self._aask(f"try {newest(history)}"))
        instant("Try ends")
        return said


class Member(Role):
    """A role with something of its own that its actions change."""

    acted: list[str] = Field(default_factory=list)

    async def _act(self) -> Message:
        instant("act begins")
        said = await super()._act()
        instant("act ends")
        self.acted = [*self.acted, said.content]
        return said


def member(name: str, actions: list[Any], watches: list[Any], mode: str = "react", **fields: Any) -> Member:
    made = Member(name=name, profile=f"the {name}", **fields)
    made.set_actions(actions)
    made._watch(watches)
    made._set_react_mode(mode, max_react_loop=4 if len(actions) > 1 else 1)
    return made


PLAN = TypeAdapter(list[Task]).dump_json(
    [
        Task(task_id="1", instruction="review it", task_type="Review"),
        Task(task_id="2", instruction="build it", task_type="Build", dependent_task_ids=["1"]),
        Task(task_id="3", instruction="try it", task_type="Try", dependent_task_ids=["2"]),
    ]
)


def maker(mode: str, watches: list[Any]) -> Member:
    """Who reviews, builds and tries, in the mode on trial."""
    said = {"react": ("1", "0", "2", "-1"), "by_order": (), "plan_and_act": (PLAN.decode(),)}[mode]
    return member("Ben", [Review, Build, Try], watches, mode, model=Scripted(*said), desc="Ben")


def two(mode: str) -> Team:
    """Ana drafts on her own, Ben makes something of it."""
    return Team(roles=[member("Ana", [Draft], [UserRequirement]), maker(mode, [Draft])])


class Count(Action):
    """A join: how many it has before it."""

    async def run(self, history: list[Message]) -> str:
        happens("Count")
        instant("Count ends")
        return f"counted {len(history)}: {sorted(message.role for message in history)}"


def four(mode: str) -> Team:
    """Three at work beside each other, in the first round and in the second, and Dan, who joins what they say."""
    return Team(
        roles=[
            member("Ana", [Draft], [UserRequirement]),
            maker(mode, [UserRequirement, Draft]),
            member("Cleo", [Review, Draft], [UserRequirement], "by_order"),
            member("Dan", [Count], [Draft, Try, Review]),
        ]
    )


def playing(team: Any, mode: str) -> Any:
    """The team as an agent."""

    def hire() -> Team:
        return team(mode)

    return agent(hire)


MODES = ("react", "by_order", "plan_and_act")
