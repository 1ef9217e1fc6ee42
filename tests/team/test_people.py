"""People in a team: their turn is asked for, the run waits, another process answers, and nothing is asked twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import perdure
from perdure.team import Action, Message, Role, Team, UserRequirement, agent
from perdure.testing import crash_everywhere
from perdure.testing.lives import forked
from tests.crash import outside
from tests.crash.outside import happens

FULL = os.environ.get("PERDURE_STORM") == "full"
pytestmark = pytest.mark.timeout(3600 if FULL else 120)


@perdure.action()
async def mail(text: str) -> str:
    happens("mail")
    return f"mailed {text}"


class Work(Action):
    async def run(self, history: list[Message]) -> str:
        return await mail(f"work on {history[-1].content}")


class Judge(Action):
    async def run(self, history: list[Message]) -> str:
        return await self._aask(f"judge {history[-1].content}")


class Name(Action):
    async def run(self, history: list[Message]) -> str:
        return await self._aask(f"name {history[-1].content}")


class Close(Action):
    async def run(self, history: list[Message]) -> str:
        return await mail(f"{len(history)}: {', '.join(sorted(m.content for m in history))}")


def member(name: str, actions: list[Any], watches: list[Any], **fields: Any) -> Role:
    made = Role(name=name, profile=name, **fields)
    made.set_actions(actions)
    made._watch(watches)
    if len(actions) > 1:
        made._set_react_mode("by_order")
    return made


@agent
def team() -> Team:
    """Ana and Ben are people, Mia is none; Ben is asked twice in one turn; all three are in the first round."""
    return Team(
        roles=[
            member("Ana", [Judge], [UserRequirement], is_human=True),
            member("Mia", [Work], [UserRequirement]),
            member("Ben", [Judge, Name], [UserRequirement], is_human=True),
            member("End", [Close], [Judge, Work, Name]),
        ]
    )


ANSWERS = {"judge go": ["good", "bad"], "name bad": "Bo"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[perdure.AgentStore]:
    with perdure.open(tmp_path / "agents.db") as opened:
        yield opened


def elsewhere(tmp_path: Path, work: Any) -> int:
    """Does it in another process, with a store of its own; how that ended."""

    def told() -> bytes:
        with perdure.open(tmp_path / "agents.db") as store:
            work(store)
        return b""

    return forked(told)[1]


def test_each_is_asked_once_and_answered_by_another_process(store: perdure.AgentStore, tmp_path: Path) -> None:
    asked = []
    outcome = store.run(team, "s", input="go")
    assert outside.effects() == {"mail": 1}, "those who are no people take their turns first"
    for said in ("good", "bad", "Bo"):
        assert outcome.status == "waiting"
        (question,) = outcome.questions
        asked.append(question.prompt)
        number = question.seq
        assert not elsewhere(tmp_path, lambda other, n=number, text=said: other.answer("s", n, text))
        outcome = store.run(team, "s")
    assert asked == ["judge go", "judge go", "name bad"]
    assert (outcome.status, outcome.result) == ("completed", "mailed 4: Bo, go, good, mailed work on go")
    assert outside.effects() == {"mail": 2}
    assert [m["content"] for m in store.state_at("s")["messages"]] == [
        "go", "good", "mailed work on go", "bad", "Bo", "mailed 4: Bo, go, good, mailed work on go",
    ]  # fmt: skip


def test_killed_between_question_and_answer_it_goes_on(store: perdure.AgentStore, tmp_path: Path) -> None:
    def runs_and_dies(other: perdure.AgentStore) -> None:
        other.run(team, "s", input="go")
        os.kill(os.getpid(), signal.SIGKILL)

    for said in ("good", "bad", "Bo"):
        assert os.WTERMSIG(elsewhere(tmp_path, runs_and_dies)) == signal.SIGKILL
        (question,) = store.questions("s")
        store.answer("s", question.seq, said)
    assert store.run(team, "s").result == "mailed 4: Bo, go, good, mailed work on go"
    assert outside.effects() == {"mail": 2}


class Plot(BaseModel):
    rooms: int


class Draw(Action):
    async def run(self, history: list[Message]) -> str:
        drawn = await self.ask(f"draw {history[-1].content}", Plot)
        return f"{drawn.rooms} rooms"


@agent
def drawing() -> Team:
    return Team(roles=[member("Ana", [Draw], [UserRequirement], is_human=True)])


def test_an_answer_that_does_not_fit_is_asked_for_again(store: perdure.AgentStore) -> None:
    asked = []
    outcome = store.run(drawing, "s", input="go")
    for said in ("no idea", '{"rooms": "many"}', {"doors": 1}, '{"rooms": 3}'):
        (question,) = outcome.questions
        asked.append(question.prompt)
        store.answer("s", question.seq, said)
        outcome = store.run(drawing, "s")
    assert (outcome.status, outcome.result) == ("completed", "3 rooms")
    for prompt, wrong in zip(asked, ["draw go", "Invalid JSON", "rooms", "Field required"], strict=True):
        assert prompt.startswith("draw go")
        assert wrong in prompt


@pytest.mark.storm
def test_killed_anywhere_people_are_asked_once() -> None:
    report = crash_everywhere(
        team,
        input="go",
        answers={"judge go": lambda *_: "good", "name good": lambda *_: "Bo"},
        effects=outside.effects,
        fresh=outside.clear,
        points=None if FULL else ["append.inside"],
        pairs=20 if FULL else 1,
    )
    assert report.killed["append.inside"] > 8
