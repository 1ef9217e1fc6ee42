"""A message has the same id whenever it is made again, and never that of another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure.team import Action, Message, Role, RoleReactMode, Team, UserRequirement

broken: set[str] = set()


class Thinking(Action):
    async def run(self) -> Message:
        return Message("a thought")


class Saying(Action):
    """Makes messages, one of them in an action within it, and returns one."""

    async def run(self, history: list[Message]) -> Message:
        Message(f"{self.name} thinks")
        await Thinking().run()
        said = Message(f"{self.name} after {len(history)}", cause_by=self, role=self.name)
        if self.name in broken:
            raise RuntimeError(f"{self.name} is broken")
        return said


class First(Saying):
    pass


class Second(Saying):
    pass


class Third(Saying):
    pass


class Speaker(Role):
    name: str = "Ana"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([First, Second, Third])
        self._watch([UserRequirement])
        self._set_react_mode(RoleReactMode.BY_ORDER)


def played(folder: Path) -> list[Message]:
    team = Team(roles=[Speaker()], workspace=folder)
    team.run_project("speak")
    asyncio.run(team.run())
    return team.env.roles["Speaker"].get_memories()


@pytest.mark.parametrize("name", ["First", "Second", "Third"])
def test_a_role_that_goes_on_says_the_same_and_remembers_all_of_it(tmp_path: Path, name: str) -> None:
    expected = [one.content for one in played(tmp_path / "whole")]
    assert expected[1:] == ["First after 1", "Second after 2", "Third after 3"]
    broken.add(name)
    try:
        with pytest.raises(RuntimeError):
            played(tmp_path / "cut")
    finally:
        broken.clear()
    found = played(tmp_path / "cut")
    assert [one.content for one in found] == expected
    assert len({one.id for one in found}) == len(found)
