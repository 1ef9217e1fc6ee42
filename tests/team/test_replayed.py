"""What an action brings about besides its result is there as well when it is answered from the log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.models import ScriptedModel
from perdure.team import Action, Message, Role, RoleReactMode, Team, UserRequirement

broken: list[str] = []


class Ask(Action):
    async def run(self, history: list[Message]) -> Message:
        said = await self._aask("who?")
        self._role.publish_message(Message(content="by the way", cause_by=Aside))
        inner = await Aside().run()
        return Message(content=said + inner.content, cause_by=Ask)


class Aside(Action):
    async def run(self) -> Message:
        return Message(content="!", cause_by=Aside)


class Close(Action):
    async def run(self, history: list[Message]) -> Message:
        if broken:
            raise RuntimeError(broken.pop())
        return Message(content="closed", cause_by=Close)


class One(Role):
    profile: str = "One"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([Ask, Close])
        self._watch([UserRequirement])
        self._set_react_mode(RoleReactMode.BY_ORDER)


def play(folder: Path) -> dict[str, Any]:
    model = ScriptedModel([{"reply": "me", "tokens": {"in": 3, "out": 2}, "usd": 0.5}])
    team = Team(roles=[One()], workspace=folder, model=model)
    team.run_project("go")
    asyncio.run(team.run())
    with perdure.open(str(folder / "storage/team/agents.db")) as store:
        return store.state_at("team")


def test_cost_messages_and_ids_are_those_of_a_run_that_was_not_cut_off(tmp_path: Path) -> None:
    whole = play(tmp_path / "whole")
    broken.append("cut")
    with pytest.raises(RuntimeError, match="cut"):
        play(tmp_path / "cut")
    cut = play(tmp_path / "cut")
    assert cut["team"]["spent"] == whole["team"]["spent"] == {"tokens_in": 3, "tokens_out": 2, "usd": 0.5}
    assert [m["content"] for m in cut["messages"]] == ["go", "me!", "closed", "by the way"]
    assert len({m["id"] for m in cut["messages"]}) == 4
    assert [m["content"] for m in whole["messages"]] == [m["content"] for m in cut["messages"]]
    assert cut["history"] == whole["history"]
    assert cut["memories"] == whole["memories"]
