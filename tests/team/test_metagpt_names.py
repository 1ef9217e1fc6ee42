"""Names that users of MetaGPT know: set_todo in a `_think` of their own, messages by who says them, several at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import perdure
from perdure.errors import RefusedError
from perdure.team import Action, AIMessage, Message, Role, SystemMessage, Team, UserMessage

ran: Counter[str] = Counter()
broken: set[str] = set()


class Write(Action):
    what: str = ""

    async def run(self, history: list[Message]) -> str:
        ran[self.what] += 1
        if self.what in broken:
            raise RuntimeError("broken")
        return f"{self.prefix} {self.what} after {len(history)}"


class Engineer(Role):
    """Its actions are made when it thinks, as those of MetaGPT's are."""

    async def _think(self) -> bool:
        parts = ["a", "b", "c"]
        self.set_todo(Write(what=parts[self.rc.taken]) if self.rc.taken < len(parts) else None)
        return self.rc.todo is not None


def play(store: perdure.AgentStore, role: Role) -> list[str]:
    team = Team(roles=[role], store=store, workspace="w")
    team.run_project("go")
    asyncio.run(team.run())
    return [message.content for message in team.env.published]


def engineer() -> Engineer:
    made = Engineer(name="E", profile="E", desc="I")
    made._set_react_mode("react", max_react_loop=4)
    return made


def test_an_action_that_is_set_as_todo_runs_once() -> None:
    ran.clear()
    broken.add("b")
    with perdure.open("memory:") as store:
        with pytest.raises(RuntimeError, match="broken"):
            play(store, engineer())
        broken.clear()
        assert play(store, engineer()) == ["go", "I c after 3"]
    assert ran == {"a": 1, "b": 2, "c": 1}


def test_one_of_its_own_actions_is_its_state() -> None:
    role = Role(name="R", profile="R", actions=[Write(what="a"), Write(what="a")])
    role.set_todo(role.actions[1])
    assert (role.todo, role.rc.state) == (role.actions[1], 1)
    role.set_todo(None)
    assert (role.todo, role.rc.state) == (None, -1)


@pytest.mark.parametrize(("said", "role"), [(UserMessage, "user"), (SystemMessage, "system"), (AIMessage, "assistant")])
def test_a_message_is_said_by_its_name(said: Any, role: str) -> None:
    made = said(content="hello", cause_by=Write, role="another")
    assert (made.content, made.role, said("hello").content) == ("hello", role, "hello")


class Several(Action):
    async def run(self, _history: list[Message]) -> Any:
        return [Message("one"), Message("two")]


def test_several_messages_are_refused_with_what_to_do() -> None:
    with perdure.open("memory:") as store, pytest.raises(RefusedError, match=r"returns one message.*publish_message"):
        play(store, Role(name="R", profile="R", actions=[Several()]))


class Publisher(Role):
    """As the error says."""

    async def _act(self) -> Message:
        said = await super()._act()
        self.publish_message(Message("one", cause_by=Write))
        return said


def test_a_role_publishes_several() -> None:
    with perdure.open("memory:") as store:
        said = play(store, Publisher(name="R", profile="R", desc="I", actions=[Write(what="two")]))
    assert said == ["go", "one", "I two after 1"]
