"""A run that is asked to stop leaves a long turn at its next call, not at its end, and goes on from there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import perdure
from perdure.errors import StoppedError
from perdure.session.rules.ground import Ground
from perdure.team import Action, Message, Role, Team
from tests.crash import outside
from tests.crash.outside import happens

at: dict[str, Callable[[], None]] = {}
"""What is done once when this effect has happened, or all three of an action."""


@perdure.action()
async def mail(what: str) -> str:
    happens(what)
    at.pop(what, lambda: None)()
    return what


class Send(Action):
    """Three effects that are declared, each once."""

    async def run(self, history: list[Message]) -> str:
        here = f"{self._role.name}{self._role.rc.taken}"
        sent = [await mail(f"{here}{part}") for part in "abc"]
        at.pop(here, lambda: None)()
        return f"{' '.join(sent)} after {len(history)}"


class Build(Send):
    """May not run twice."""

    effect: ClassVar[str] = "once"


def hired(*actions: type[Action]) -> list[Role]:
    roles = [Role(name=name, profile=name, actions=[kind() for kind in actions]) for name in "RS"]
    for role in roles:
        role._set_react_mode("by_order")
    return roles


@pytest.fixture
def store(tmp_path: Path) -> Iterator[perdure.AgentStore]:
    at.clear()
    with perdure.open(str(tmp_path / "agents.db")) as opened:
        yield opened


def team(store: perdure.AgentStore, kind: type[Action] = Send) -> Team:
    made = Team(roles=hired(*[kind] * 4), store=store, session="s", workspace="w")
    made.run_project("go")
    return made


def stopped(store: perdure.AgentStore, what: str, kind: type[Action] = Send) -> list[str]:
    """What has happened when the run was asked to stop at this effect."""
    at[what] = lambda: store.stop("enough")
    with pytest.raises(StoppedError, match="paused: enough"):
        asyncio.run(team(store, kind).run())
    return outside.FILE.read_text().split()


def said(going: Team) -> list[str]:
    asyncio.run(going.run())
    return [message.content for message in going.env.published]


ALL = sorted(f"{role}{taken}{part}" for role in "RS" for taken in range(4) for part in "abc")
WHOLE = ["go", *(f"{role}3a {role}3b {role}3c after 4" for role in "RS")]


def test_both_of_two_turns_are_left_at_their_next_call_and_go_on_there(
    store: perdure.AgentStore, tmp_path: Path
) -> None:
    begun = stopped(store, "R1b")
    assert {"R1b"} <= {*begun}
    assert not {"R1c", "S1c"} & {*begun}
    with perdure.open(str(tmp_path / "agents.db")) as again:
        assert said(team(again)) == WHOLE
    assert sorted(outside.FILE.read_text().split()) == ALL


def test_it_goes_on_from_its_file_alone(store: perdure.AgentStore, tmp_path: Path) -> None:
    stopped(store, "S2a")
    with perdure.open(str(tmp_path / "another.db")) as another:
        options: dict[str, Any] = {"store": another, "session": "t"}
        assert said(Team.deserialize("w", roles=hired(*[Send] * 4), **options)) == WHOLE
    assert sorted(outside.FILE.read_text().split()) == ALL


def test_an_action_that_may_not_run_twice_is_not_left(store: perdure.AgentStore, tmp_path: Path) -> None:
    begun = stopped(store, "R1a", Build)
    assert {"R1a", "R1b", "R1c"} <= {*begun}
    assert not {"R2a", "S2a"} & {*begun}
    with perdure.open(str(tmp_path / "agents.db")) as again:
        assert said(team(again, Build)) == WHOLE
    assert sorted(outside.FILE.read_text().split()) == ALL


def test_an_error_beside_a_stop_is_told_when_it_goes_on(store: perdure.AgentStore, tmp_path: Path) -> None:
    def fails() -> None:
        store.stop("enough")
        raise RuntimeError("boom")

    at["S1"] = fails
    with pytest.raises(StoppedError, match="enough"):
        asyncio.run(team(store).run())
    with perdure.open(str(tmp_path / "agents.db")) as again:
        with pytest.raises(RuntimeError, match="boom"):
            said(team(again))
        assert said(team(again)) == WHOLE
    assert sorted(outside.FILE.read_text().split()) == ALL


def test_a_build_that_leaves_whatever_it_is_inside_of_is_caught(
    store: perdure.AgentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ground, "may_leave", lambda *_, **__: True)
    with pytest.raises(AssertionError):
        test_an_action_that_may_not_run_twice_is_not_left(store, Path())


def test_a_session_of_other_code_comes_to_the_end_of_its_action(store: perdure.AgentStore) -> None:
    @perdure.agent
    async def other(s: Any) -> None:
        async def around() -> str:
            return await mail("one") + await mail("two")

        await s.action(around, effect="repeatable")()
        await mail("three")

    at["one"] = lambda: store.stop("enough")
    assert asyncio.run(store.arun(other, "o")).status == "paused"
    assert outside.FILE.read_text().split() == ["one", "two"]
