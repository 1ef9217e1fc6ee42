"""What a team is started with: recorded, the same again, and nothing in it that only looks right."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
import perdure.team
from perdure.errors import InputDiffersError, ModelError, RefusedError
from perdure.models import ScriptedModel
from perdure.session.keeping.opening import NO_INPUT
from perdure.team import Action, Role, Team, UserRequirement
from perdure.team.given import given_in, is_more
from perdure.team.starting import started


class Echo(Action):
    async def run(self, history: list[Any]) -> str:
        return f"heard {history[-1].content}"


class Listener(Role):
    profile: str = "Listener"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([Echo])
        self._watch([UserRequirement])


@perdure.team.agent
def echo() -> Team:
    return Team(roles=[Listener()])


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[perdure.AgentStore]:
    monkeypatch.chdir(tmp_path)
    with perdure.open("memory:") as opened:
        yield opened


def run(store: perdure.AgentStore, session: str = "s", **given: Any) -> perdure.Outcome:
    function, told = started(store, echo, session, **{"idea": "go", **given})
    return store.run(function, session, input=told)


def test_the_same_again_goes_on_and_anything_else_is_refused(store: perdure.AgentStore, tmp_path: Path) -> None:
    assert run(store, rounds=1).status == "idle"
    assert store.state_at("s")["team"]["workspace"] == str(tmp_path / "workspace/s")
    assert started(store, echo, "s", idea="go", rounds=1) == (echo, NO_INPUT)
    for given, says in (
        ({"idea": "stop"}, "works on 'go'"),
        ({"rounds": 2}, "perdure team rounds s N"),
        ({"investment": 1.0}, "perdure team invest s USD"),
        ({"model": "test"}, "started without"),
    ):
        with pytest.raises(InputDiffersError, match=says):
            run(store, **given)


def test_a_session_that_was_killed_before_its_first_step_is_the_same_one(store: perdure.AgentStore) -> None:
    @perdure.steps
    def killed(s: perdure.Session) -> None:
        raise RuntimeError("killed")

    store.run(killed, "s", input={"idea": "go", "n_round": 3, "workspace": "w"})
    with pytest.raises(InputDiffersError, match="--id"):
        run(store, idea="stop", rounds=3)
    assert run(store, rounds=3).result == "heard go"


def test_what_is_no_more_is_passed_over_and_the_team_goes_on(
    store: perdure.AgentStore, caplog: pytest.LogCaptureFixture
) -> None:
    assert run(store, rounds=1).status == "idle"
    for sent in ({"rounds": "many"}, {"rounds": -3}, {"money": 1}, {}, 7, {"investment": float("nan")}):
        store.send("s", sent)
    assert run(store).status == "idle"
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 6
    assert store.state_at("s")["team"]["passed_over"] == 6
    store.send("s", {"rounds": 2, "investment": 1})
    assert run(store).result == "heard go"
    assert store.state_at("s")["team"]["investment"] == 11.0


def test_one_more_thing_to_do_is_sent_as_a_text(store: perdure.AgentStore) -> None:
    assert run(store, rounds=1).status == "idle"
    store.send("s", "again")
    store.send("s", {"rounds": 4})
    assert run(store).result == "heard again"


@pytest.mark.parametrize(
    "given", [{"idea": "go", "rounds": 3}, {"n_round": 0}, {"n_round": "3"}, {"n_round": True}, {"investment": -1}]
)
def test_an_input_that_says_nothing_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        given_in(given)


def test_more_is_a_number_of_rounds_or_money() -> None:
    assert [is_more(each) for each in ({"rounds": 1}, {"investment": 0.5}, {"rounds": 0}, "x")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_model_that_cannot_be_asked_is_told_before_anything_is_recorded(store: perdure.AgentStore) -> None:
    with pytest.raises(ModelError, match="nonsense"):
        started(store, echo, "s", idea="go", model="nonsense")
    assert list(store.sessions()) == []
    assert started(store, echo, "s", idea="go", model="test")[1]["model"] == "test"


def test_the_model_of_the_input_is_asked_and_that_of_the_code_is_only_named(store: perdure.AgentStore) -> None:
    class Asks(Role):
        profile: str = "Asks"

        def __init__(self, **fields: Any) -> None:
            super().__init__(**fields)
            self.set_actions([Question])
            self._watch([UserRequirement])

    def hired(**options: Any) -> Team:
        return Team(roles=[Asks()], store=store, **options)

    made = hired(session="by-code", model=ScriptedModel(["mine"], name="own"))
    made.run_project("go")
    assert asyncio.run(made.run()).endswith("mine")
    facts = store.state_at("by-code")["team"]
    assert (facts["model"], facts["model_given"]) == ("script:own", False)


class Question(Action):
    async def run(self, history: list[Any]) -> str:
        return await self._aask("what?")
