"""Replies that come in pieces: who looks on is told them, the code and the log know only whole ones."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai.exceptions import ModelConnectionError
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.wrapper import WrapperModel

import perdure
from perdure import errors, limits, values
from perdure.models import ScriptedModel, ToolCall, ask
from perdure.recovery import error_kinds, problems
from perdure.stores.observing import AttemptBegan, AttemptEnded, Spoken
from tests.models.server import Asked, Broken, Calls, Reply, serving
from tests.models.test_tools import box, converse


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    monkeypatch.setattr(limits, "MODEL_BACKOFF_S", 0.001)


@pytest.fixture
def heard():
    return []


@pytest.fixture
def store(heard):
    with perdure.open("memory:") as opened:
        opened.observe(heard.append)
        yield opened


def run(store, agent, session="q"):
    outcome = store.run(perdure.agent(agent), session)
    assert outcome.status == "completed", outcome
    return outcome.result


def spoken(heard):
    return [event.text for event in heard if isinstance(event, Spoken)]


def replies(store, session="q"):
    """The recorded replies, without the time."""
    told = [values.decode(entry["value"]) for entry in finished(store, session) if entry["how"] == "result"]
    found = [one for one in told if isinstance(one, dict) and "message" in one]
    for one in found:
        one["message"].pop("timestamp", None)
    return found


def finished(store, session="q"):
    return [entry for entry in store.log(session) if entry.kind == "action_finished"]


def speaking(*replies: list[Any]):
    """A model that yields these pieces, one list after the other; what is an error it raises."""
    left = list(replies)

    async def reply(messages, info):
        for piece in left.pop(0):
            if isinstance(piece, Exception):
                raise piece
            yield piece

    return FunctionModel(stream_function=reply, model_name="told")


# --- what is told ----------------------------------------------------------------------------------------------------


def test_who_looks_on_is_told_the_text_as_it_comes(store, heard):
    text = " one two three four\n\nfive six seven"

    async def agent(s):
        return (await ask(s, ScriptedModel([text]), "x", stream=True)).text

    assert run(store, agent) == text
    assert spoken(heard) == [" one two three", " four\n\nfive six", " seven"]
    began = next(event for event in heard if isinstance(event, AttemptBegan))
    ended = next(at for at, event in enumerate(heard) if isinstance(event, AttemptEnded))
    said = [at for at, event in enumerate(heard) if isinstance(event, Spoken)]
    assert {(heard[at].session, heard[at].seq) for at in said} == {("q", began.seq)}
    assert heard.index(began) < min(said) < max(said) < ended


def test_an_answer_from_the_log_is_told_to_nobody(store, heard):
    lives = []

    async def agent(s):
        answer = await ask(s, ScriptedModel(["one two three four"]), "x", stream=True)
        lives.append(len(spoken(heard)))
        if len(lives) == 1:
            raise ConnectionError("the first run ends here")
        return answer.text

    assert store.run(perdure.agent(agent), "q").status == "failed"
    assert run(store, agent) == "one two three four"
    assert lives == [2, 2]


def test_only_text_is_told(store, heard):
    model = speaking(
        [
            {0: DeltaThinkingPart(content="hm")},
            "one ",
            "two",
            {1: DeltaToolCall("look", '{"at"', tool_call_id="a")},
            {1: DeltaToolCall(None, ": 1}")},
        ]
    )

    async def agent(s):
        answer = await ask(s, model, "x", tools=box, stream=True)
        return answer.text, answer.calls

    assert run(store, agent) == ("one two", (ToolCall("a", "look", '{"at": 1}'),))
    assert spoken(heard) == ["one ", "two"]


def test_a_text_for_a_type_is_told_too(store, heard):
    class City(BaseModel):
        name: str

    def reply(asked: Asked) -> Reply:
        return '{"name": "Oslo"}'

    async def agent(s):
        return (await ask(s, server.model, "x", output_type=City, stream=True)).output.name

    with serving(reply) as server:
        assert run(store, agent) == "Oslo"
    assert "".join(spoken(heard)) == '{"name": "Oslo"}'


# --- nothing else differs --------------------------------------------------------------------------------------------

SCRIPT = [
    {
        "match": "go",
        "reply": "let me look at that",
        "calls": [{"tool": "look", "args": {"at": 1}}, {"tool": "look", "args": {"at": 2}}],
        "tokens": {"in": 3, "out": 4},
        "usd": 0.5,
    },
    {"match": "seen 1\nseen 2", "calls": [{"tool": "ring"}]},
    {"match": "rung", "reply": "that is all"},
]


def talking(asked: Asked) -> Reply:
    """A server that says what the script says."""
    match asked.said:
        case "go":
            return Calls([("x", "look", '{"at": 1}'), ("y", "look", '{"at": 2}')], "let me look at that")
        case "seen 2":
            return Calls([("", "ring", "{}")])
    return "that is all"


@pytest.mark.parametrize("kind", ["script", "server"])
def test_the_record_is_the_same(store, kind):
    async def agent(s):
        return await converse(s, server.model if kind == "server" else ScriptedModel(SCRIPT), stream=s.id == "streamed")

    with serving(talking) as server:
        for session in ("whole", "streamed"):
            assert run(store, agent, session) == "that is all"
    whole, streamed = replies(store, "whole"), replies(store, "streamed")
    assert streamed == whole
    assert len(whole) == 3
    assert store.state_at("whole") == store.state_at("streamed")
    started = [
        [entry["args"] for entry in store.log(session) if entry.kind == "action_started"]
        for session in ("whole", "streamed")
    ]
    assert started[0] == started[1]
    if kind == "server":
        bodies = [asked.body for asked in server.asked]
        assert [body["messages"] for body in bodies[:3]] == [body["messages"] for body in bodies[3:]]
        assert problems(bodies[-1]["messages"], shape="openai") == []
        assert [one["role"] for one in bodies[-1]["messages"]] == [
            "user",
            "assistant",
            "tool",
            "tool",
            "assistant",
            "tool",
        ]
        assert [tool["function"]["name"] for tool in bodies[0]["tools"]] == ["look", "ring"]


class Mute(Model):
    """A model that answers, and cannot stream."""

    async def request(self, messages, model_settings, model_request_parameters):
        return ModelResponse([TextPart("one two three four")])

    @property
    def model_name(self) -> str:
        return "mute"

    @property
    def system(self) -> str:
        return "none"


@pytest.mark.parametrize(
    "model",
    [
        Mute(),
        WrapperModel(Mute()),
        FunctionModel(lambda messages, info: ModelResponse([TextPart("one two three four")])),
    ],
    ids=["own", "wrapped", "function"],
)
def test_a_model_that_cannot_stream_is_asked_for_the_whole(store, heard, model):
    async def agent(s):
        return (await ask(s, model, "x", stream=True)).text

    assert run(store, agent) == "one two three four"
    assert spoken(heard) == ["one two three four"]


# --- in the middle of it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cut", "silent", "error"])
def test_a_reply_without_an_end_is_asked_for_again(store, heard, how):
    left = [Broken("one two", how), "one two three"]

    async def agent(s):
        return (await ask(s, server.model, "x", stream=True)).text

    with serving(lambda _: left.pop(0)) as server:
        assert run(store, agent) == "one two three"
        assert len(server.asked) == 2
    told = [
        event.text if isinstance(event, Spoken) else event.attempt
        for event in heard
        if isinstance(event, Spoken | AttemptBegan)
    ]
    assert told == [1, "one", " two", 2, "one", " two", " three"]
    broken, whole = finished(store)
    assert (broken["how"], broken["final"], whole["how"]) == ("error", False, "result")


def test_a_call_that_broke_off_is_not_made(store):
    """What came of it would be valid by itself."""
    left = [[{0: DeltaToolCall("ring", "{}", tool_call_id="a")}, ConnectionError("gone")], ["no need"]]

    async def agent(s):
        return await converse(s, speaking(*left), stream=True, settings={"max_retries": 0})

    outcome = store.run(perdure.agent(agent), "q")
    assert isinstance(outcome.error, ConnectionError)
    assert [entry["name"] for entry in store.log("q") if entry.kind == "action_started"] == ["model"]
    left.pop(0)
    assert run(store, agent) == "no need"


def test_what_is_known_of_the_cost_of_a_broken_reply_is_spent(store):
    model = speaking(["one two three ", "four five", ConnectionError("gone")], ["well"])

    async def agent(s):
        return (await ask(s, model, "x", stream=True)).text

    assert run(store, agent) == "well"
    broken, whole = (entry["cost"]["tokens"] for entry in finished(store))
    assert broken > whole > 0
    assert store.detail("q").spent["tokens"] == broken + whole


def test_the_cost_of_a_broken_reply_of_a_server_is_with_its_error(store):
    model = speaking(["one two three", ModelConnectionError("told", "gone")])

    async def agent(s):
        await ask(s, model, "x", stream=True, settings={"max_retries": 0})

    outcome = store.run(perdure.agent(agent), "q")
    assert isinstance(outcome.error, errors.ModelFailedError)
    assert error_kinds.kind_of(outcome.error, of_action=True) == "transient"
    (broken,) = finished(store)
    assert broken["cost"] == outcome.error.cost
    assert broken["cost"]["tokens"] > 0


async def cancelled_when(task, seen):
    """Whether the task ends as cancelled, if it is cancelled once something was seen."""
    while not seen():
        assert not task.done()
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()


def test_a_request_that_was_cancelled_in_the_middle_is_made_again(store, heard):
    script = ScriptedModel([{"reply": "one two three four five", "wait": 0.01}])

    async def agent(s):
        task = asyncio.ensure_future(ask(s, script, "x", stream=True))
        cancelled = await cancelled_when(task, lambda: spoken(heard))
        heard.clear()
        return cancelled, (await ask(s, script, "x", stream=True)).text

    assert run(store, agent) == (True, "one two three four five")
    assert spoken(heard) == ["one two three", " four five"]


def test_a_run_that_was_cancelled_in_the_middle_asks_once_more(store, heard):
    script = ScriptedModel([{"reply": "one two three four five", "wait": 0.01, "repeat": True}])
    agent = perdure.agent(lambda_of(script))

    async def stopped():
        await cancelled_when(asyncio.ensure_future(store.aio.run(agent, "q")), lambda: spoken(heard))

    asyncio.run(stopped())
    assert spoken(heard) == ["one two three"]
    assert store.run(agent, "q").result == "one two three four five"
    assert spoken(heard) == ["one two three", "one two three", " four five"]
    assert len(replies(store)) == 1


def lambda_of(script):
    async def agent(s):
        return (await ask(s, script, "x", stream=True)).text

    return agent


@pytest.mark.parametrize("stream", [False, True])
def test_a_wait_of_a_script_can_be_cancelled(store, heard, stream):
    script = ScriptedModel([{"reply": "late", "wait": 60}])

    async def agent(s):
        task = asyncio.ensure_future(ask(s, script, "x", stream=stream))
        return await cancelled_when(task, lambda: [event for event in heard if isinstance(event, AttemptBegan)])

    assert run(store, agent) is True


def test_an_error_of_a_script_comes_in_a_stream_too(store, heard):
    script = ScriptedModel([{"error": "rate limit", "wait": 0.001}, "well"])
    assert run(store, lambda_of(script)) == "well"
    assert [entry["how"] for entry in finished(store)] == ["error", "result"]
    assert json.dumps(spoken(heard)) == '["well"]'
