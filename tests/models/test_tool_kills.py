"""Killed at any instant, also in the middle of a reply, a conversation with tools comes to the same history."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

import perdure
from perdure.models import ScriptedModel, ask, asking, offered
from perdure.models.sending import send
from perdure.recovery import problems
from perdure.testing import crash_everywhere
from perdure.tools import Toolbox

FULL = os.environ.get("PERDURE_STORM") == "full"

REQUESTS, RUNGS = 3, 3


class Book:
    """What was done, in a file: it outlives whoever did it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, what: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{what}\n")

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    def counted(self, *names: str) -> dict[str, int]:
        found = Counter(self.lines())
        return {name: found[name] for name in names}


@pytest.fixture
def book(tmp_path) -> Book:
    return Book(tmp_path / "book.txt")


def talking(model: Any, book: Book, *, stream: bool) -> Any:
    box = Toolbox()

    @box.tool(effect="once")
    def ring(times: int) -> str:
        """Rings a bell."""
        for _ in range(times):
            book.note("ring")
        return f"rung {times}"

    @box.tool(effect="repeatable")
    def look() -> str:
        """Looks."""
        return "all quiet"

    @perdure.agent
    async def agent(s: perdure.AsyncSession) -> list[dict[str, Any]]:
        history = s.state["history"] = [{"role": "user", "content": "go"}]
        while True:
            answer = await ask(s, model, "", history=history, tools=box, stream=stream)
            history.append(answer.message())
            await s.save()
            if not answer.calls:
                return [dict(message) for message in history]
            results = await box.call_all(s, [(call.name, call.arguments) for call in answer.calls])
            for call, result in zip(answer.calls, results, strict=True):
                history.append({"role": "tool", "tool_call_id": call.id, "content": result.text})

    return agent


# --- scripts ---------------------------------------------------------------------------------------------------------

SCRIPT = ScriptedModel(
    [
        {
            "match": "^go$",
            "reply": "one two three four",
            "calls": [{"tool": "look"}, {"tool": "ring", "args": {"times": 2}}, {"tool": "look"}],
        },
        {"match": "rung 2", "calls": [{"tool": "ring", "args": {"times": 1}}]},
        {"match": "rung 1", "reply": "that is all"},
    ]
)


@pytest.mark.parametrize("stream", [False, True])
def test_a_scripted_conversation_is_the_same_however_it_is_killed(book, stream):
    points = {"stream.chunk", "effect.after"} if stream else {"effect.after"}
    report = crash_everywhere(
        talking(SCRIPT, book, stream=stream),
        points=None if FULL else points,
        effects=partial(book.counted, "ring"),
    )
    assert all(report.killed[point] >= REQUESTS for point in points)
    with perdure.open("memory:") as store:
        history = store.run(talking(SCRIPT, book, stream=stream), "q").result
    assert problems(history, shape="openai") == []
    assert [one["role"] for one in history] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]


# --- a model that gives no ids, and counts ---------------------------------------------------------------------------


def given(messages: list[ModelMessage]) -> list[DeltaToolCall]:
    """What is called next. Without ids: another would be drawn each time."""
    results = [part for one in messages for part in one.parts if isinstance(part, ToolReturnPart)]
    calls = [[("look", "{}"), ("ring", '{"times": 2}')], [("ring", '{"times": 1}')]]
    done = sum(isinstance(one, ModelResponse) for one in messages)
    assert len(results) == sum(len(each) for each in calls[:done])
    return [DeltaToolCall(name, arguments) for name, arguments in calls[done]] if done < len(calls) else []


def counting(book: Book) -> FunctionModel:
    async def reply(messages: list[ModelMessage], info: Any) -> Any:
        book.note("model")
        calls = given(messages)
        for word in ("well ", "then"):
            yield word
        for at, call in enumerate(calls):
            yield {at + 1: call}

    return FunctionModel(stream_function=reply, model_name="counting")


def killed_in_a_stream(book: Book, points: list[str] | None) -> None:
    begins = [0]

    def check() -> None:
        done = Counter(book.lines()[begins[-1] :])
        begins.append(len(book.lines()))
        assert done["model"] <= REQUESTS + 1, "a finished request was made again"
        assert done["ring"] in (RUNGS, 0)

    agent = talking(counting(book), book, stream=True)
    report = crash_everywhere(agent, points=points, fresh=check, effects=partial(book.counted, "ring"))
    check()
    assert report.killed["stream.chunk"] >= 2 * REQUESTS


def test_a_stream_killed_in_the_middle_is_asked_for_once_more(book):
    killed_in_a_stream(book, None if FULL else ["stream.chunk"])


def test_ids_that_are_drawn_are_caught(book, monkeypatch):
    monkeypatch.setattr(offered, "with_ids", lambda message, _: message)
    with pytest.raises(AssertionError, match="state"):
        killed_in_a_stream(book, ["stream.chunk"])


def test_requests_that_are_not_recorded_are_caught(book, monkeypatch):
    async def unrecorded(s, sending, *, name):
        return await send(sending=sending, **sending.recorded())

    monkeypatch.setattr(asking, "request", unrecorded)
    monkeypatch.setattr("perdure.models.sending.Sending._say", lambda *_: None)
    with pytest.raises(AssertionError, match="made again"):
        killed_in_a_stream(book, ["stream.chunk"])
