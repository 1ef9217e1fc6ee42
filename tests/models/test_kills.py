"""Killed at any instant, an agent that asks models comes to the same answers and costs, and asks for none again."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

import perdure
from perdure.models import ScriptedModel, ask, given, resolve
from perdure.testing import crash_everywhere
from tests.models.server import Asked, Reply, Server, serving

FULL = os.environ.get("PERDURE_STORM") == "full"


class Person(BaseModel):
    name: str
    age: int


# --- a real server counts --------------------------------------------------------------------------------------------


def reply(asked: Asked) -> Reply:
    """Deterministic, and bad before it is told so."""
    if "not valid JSON" in asked.said:
        return '{"name": "Ada", "age": 36}'
    return "no idea" if asked.said == "who" else f"a reply to {asked.said}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(reply) as told:
        resolve(told.model)  # what is loaded before the lives are forked need not be loaded in each
        yield told


SIDES, REQUESTS = ("one", "two"), 7


def asking(model: str) -> Any:
    @perdure.agent
    async def agent(s: perdure.AsyncSession) -> list[Any]:
        s.state["first"] = await ask(s, model, "first", system="be short")
        person = await ask(s, model, "who", output_type=Person)
        s.state["person"] = person.output.model_dump(), person.text, person.tokens_in, person.tokens_out
        await s.save()

        async def turn(role: str) -> list[Any]:
            return [await ask(s, model, f"{role} {what}") for what in ("thinks", "acts")]

        async with s.parallel() as p:
            turns = [p.action(turn, name=role, effect="repeatable")(role) for role in SIDES]
        return [s.state["first"], s.state["person"], *[await each for each in turns]]

    return agent


@pytest.mark.timeout(600)
def test_a_finished_request_is_never_sent_again(server: Server) -> None:
    lives: list[int] = []
    report = crash_everywhere(
        asking(server.model),
        points=None if FULL else ["effect.after"],
        fresh=lambda: lives.append(len(server.asked)),
        effects=lambda: {"model": len(server.asked)},
    )
    assert report.killed["effect.after"] >= REQUESTS
    sent = [
        Counter(str(asked.body["messages"]) for asked in server.asked[begins:ends])
        for begins, ends in itertools.pairwise([*lives, len(server.asked)])
    ]
    assert sum(sent[0].values()) == REQUESTS
    assert {len(of_a_life) for of_a_life in sent} == {REQUESTS}
    assert max(sum(of_a_life.values()) for of_a_life in sent) <= REQUESTS + len(SIDES)  # what was cut off


def test_gathered_questions_are_asked_once(server: Server) -> None:
    @perdure.agent
    async def agent(s: perdure.AsyncSession) -> list[str]:
        found = await asyncio.gather(*(ask(s, server.model, f"page {number}") for number in range(3)))
        return [answer.output for answer in found]

    report = crash_everywhere(agent, points=None if FULL else ["effect.after"])
    assert report.killed["effect.after"] >= 3


def test_all_answered_a_session_goes_on_without_key_or_server(monkeypatch, tmp_path) -> None:
    seen = []

    @perdure.agent
    async def agent(s: perdure.AsyncSession) -> str:
        answer = await ask(s, model, "first")
        seen.append(answer)
        if len(seen) == 1:
            raise ConnectionError("the first run ends here")
        return answer.output

    with serving(lambda asked: asked.headers["authorization"]) as other:
        model = other.model
        monkeypatch.setenv("PERDURE_MODEL_KEY", "a-key")
        monkeypatch.setenv("OPENAI_API_KEY", "of-somebody-else")
        with perdure.open(str(tmp_path / "agents.db"), secrets="allow") as store:
            assert store.run(agent, "q").status == "failed"
    monkeypatch.delenv("PERDURE_MODEL_KEY")
    monkeypatch.delenv("OPENAI_API_KEY")
    with perdure.open(str(tmp_path / "agents.db"), secrets="allow") as store:
        assert store.run(agent, "q").result == "Bearer a-key"
    assert seen[0] == seen[1]


# --- scripts: which reply comes next is in the journal ---------------------------------------------------------------

ROLES = ("writer", "critic")
SCRIPT = [
    {"role": "^writer", "reply": "draft one", "usd": 0.5},
    {"role": "^critic", "reply": "hm"},
    {"role": "^critic", "reply": "better"},
    {"role": "^critic", "reply": {"name": "Ada"}},
    {"role": "^writer", "match": "^edit", "reply": "edited one"},
    {"role": "^writer", "match": "^edit", "reply": "edited two", "tokens": {"in": 5, "out": 7}},
    {"role": "^writer", "reply": "draft two"},
    {"role": "^critic", "reply": {"name": "Ada", "age": 36}},
]


@perdure.steps
async def team(s: perdure.AsyncSession) -> None:
    """Two roles side by side, for two rounds; each asks twice in a round."""
    done = s.state.setdefault("rounds", [])
    model = ScriptedModel(SCRIPT)

    async def turn(role: str, number: int) -> list[Any]:
        first = await ask(s, model, f"round {number}")
        second = await ask(s, model, f"edit {number}", output_type=Person if role == "critic" and number else str)
        return [first, str(second.output), second.tokens_in, second.tokens_out, second.usd]

    async with s.parallel() as p:
        turns = [p.action(turn, name=role, effect="repeatable")(role, len(done)) for role in ROLES]
    done.append([await each for each in turns])
    if len(done) == 2:
        s.complete([turn[1] for both in done for turn in both])


def test_a_script_goes_on_where_it_was() -> None:
    report = crash_everywhere(team, points=None if FULL else ["append.after"])
    assert report.killed["append.after"] >= 8
    with perdure.open("memory:") as store:
        assert store.run(team, "q").result == ["edited one", "better", "edited two", "name='Ada' age=36"]


def test_a_script_that_is_kept_in_memory_is_caught(monkeypatch) -> None:
    monkeypatch.setattr(given, "_line_in", lambda _: None)
    monkeypatch.setattr(given.Given, "take", lambda *_: None)
    with pytest.raises(AssertionError, match="killed at"):
        crash_everywhere(team, points=["append.after"])
