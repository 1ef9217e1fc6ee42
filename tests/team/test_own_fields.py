"""What roles and actions have of their own comes back as it was: fields of any kind, and actions of one class."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator

import perdure
from perdure.errors import RefusedError
from perdure.team import Action, Message, Role, Team, stored

broken: set[str] = set()


@pytest.fixture
def store() -> Iterator[perdure.AgentStore]:
    broken.clear()
    stored.unstored.clear()
    with perdure.open("memory:") as opened:
        yield opened


class Write(Action):
    tag: str = ""

    async def run(self, history: list[Message]) -> str:
        del history
        return f"wrote {self.tag}"


class Check(Action):
    async def run(self, history: list[Message]) -> str:
        if "Check" in broken:
            raise RuntimeError("Check is broken")
        return f"checked {len(history)}"


def hired(kind: type[Role], actions: list[Any], **fields: Any) -> list[Role]:
    writer = kind(name="A", profile="Writer", **fields)
    writer.set_actions(actions)
    writer._set_react_mode("by_order")
    checker = Role(name="B", profile="Checker", actions=[Check()])
    checker._watch([Write])
    return [writer, checker]


def played(store: perdure.AgentStore, make: Callable[[], list[Role]]) -> Team:
    """The team that has played all but the last round, which failed, and goes on with roles made anew."""
    team = Team(roles=make(), store=store, workspace="w")
    team.run_project("go")
    broken.add("Check")
    with pytest.raises(RuntimeError, match="Check is broken"):
        asyncio.run(team.run())
    broken.clear()
    again = Team(roles=make(), store=store, workspace="w")
    asyncio.run(again.run())
    assert again.env.published[-1].content.startswith("checked")
    return again


def test_actions_of_one_class_and_name_keep_what_each_was_made_with(store: perdure.AgentStore) -> None:
    team = played(store, lambda: hired(Role, [Write(tag="one"), Write(tag="two")]))
    said = [message.content for message in team.env.roles["Writer"].rc.memory.get()]
    assert said[:3] == ["go", "wrote one", "wrote two"]
    assert [action.tag for action in team.env.roles["Writer"].actions] == ["one", "two"]  # type: ignore[attr-defined]


class Strict(Role):
    """Fields that pydantic checks when they are set."""

    model_config = ConfigDict(validate_assignment=True)

    key: str = Field(default="a key", frozen=True)
    title: str = ""

    @field_validator("title")
    @classmethod
    def _shouted(cls, value: str) -> str:
        return f"{value}!"


def test_what_is_put_back_is_not_validated_again(store: perdure.AgentStore) -> None:
    team = played(store, lambda: hired(Strict, [Write], title="oh", key="another"))
    writer = team.env.roles["Writer"]
    assert isinstance(writer, Strict)
    assert (writer.key, writer.title) == ("another", "oh!")


class Flagged(Role):
    done: Any = 0
    ratio: Any = 1

    async def _act(self) -> Message:
        said = await super()._act()
        self.done, self.ratio = False, 1.0
        return said


class Flag(Write):
    async def run(self, history: list[Message]) -> str:
        self.i_context = True
        return await super().run(history)


def test_a_change_that_python_calls_equal_is_a_change(store: perdure.AgentStore) -> None:
    team = played(store, lambda: hired(Flagged, [Flag(i_context=1), Write()]))
    writer = team.env.roles["Writer"]
    assert isinstance(writer, Flagged)
    assert (writer.done, writer.ratio, writer.actions[0].i_context) == (False, 1.0, True)
    assert [type(each) for each in (writer.done, writer.ratio, writer.actions[0].i_context)] == [bool, float, bool]


class Holding(Role):
    held: Any = None


def local() -> BaseModel:
    class Local(BaseModel):
        a: int = 1

    return Local()


@pytest.mark.parametrize("held", [local(), create_model("Made", of=(set[int], {1}))()])
def test_a_model_that_would_not_be_found_again_is_named_and_the_rest_is_saved(
    store: perdure.AgentStore, held: BaseModel, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "perdure.team"):
        team = played(store, lambda: hired(Holding, [Write], held=held))
    assert team.unsaved == ["Writer.held"]
    assert [r.getMessage().split(":")[0] for r in caplog.records] == ["Holding.held is not saved, the rest of it is"]


class Promoted(Role):
    async def _act(self) -> Message:
        said = await super()._act()
        if "promote" in broken:
            self.profile = "Chief"
        return said


def test_a_role_that_takes_another_profile_is_refused_and_goes_on_when_it_does_not(store: perdure.AgentStore) -> None:
    team = Team(roles=hired(Promoted, [Write]), store=store, workspace="w")
    team.run_project("go")
    broken.add("promote")
    with pytest.raises(RefusedError, match="'Writer' was hired as that, and its profile is 'Chief' now"):
        asyncio.run(team.run())
    broken.clear()
    asyncio.run(team.run())
    assert team.env.published[-1].content == "checked 2"


def test_a_profile_that_was_changed_between_hiring_and_running_is_refused(
    store: perdure.AgentStore, caplog: pytest.LogCaptureFixture
) -> None:
    roles = hired(Role, [Write])
    team = Team(roles=roles, store=store, workspace="w")
    roles[0].profile = "Chief"
    with pytest.raises(RefusedError, match="'Writer' was hired as that"):
        asyncio.run(team.run(idea="go"))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR], "only that error is told"


class Before(Role):
    gone: int = 1
    kept: int = 1

    async def _act(self) -> Message:
        self.kept = 2
        return await super()._act()


@pytest.mark.parametrize("extra", ["ignore", "forbid"])
def test_a_field_that_the_class_has_no_more_is_left_behind(store: perdure.AgentStore, extra: Any) -> None:
    class Now(Role):
        model_config = ConfigDict(extra=extra)

        kept: int = 1

    kinds = iter([Before, Now])
    team = played(store, lambda: hired(next(kinds), [Write]))
    assert team.env.roles["Writer"].kept == 2  # type: ignore[attr-defined]
