"""Histories made of the packages' own objects, and results that the packages themselves take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from anthropic.types import Message, MessageParam, ToolUseBlock
from langchain_core.messages import convert_to_messages, convert_to_openai_messages
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageParam
from openai.types.responses import ResponseFunctionToolCall, ResponseInputItemParam
from pydantic import BaseModel, TypeAdapter

from perdure.recovery.messages import INTERRUPTED, completed, problems
from tests.recovery import strict
from tests.recovery.conversations import WRITE

CALLS = [("c1", "search"), ("c2", "send"), ("c3", "read")]
CRASHED = [("user", "u"), ("model", "m", CALLS), ("results", [("c2", "send", "B")], ""), ("user", "and?")]


def test_messages_of_openai() -> None:

    user, said, *rest = WRITE["openai"](CRASHED)
    made = completed([user, ChatCompletionMessage.model_validate(said), *rest])
    assert isinstance(made[1], ChatCompletionMessage)
    wire = [one if isinstance(one, dict) else one.model_dump(exclude_none=True) for one in made]
    strict.openai(wire)
    TypeAdapter(list[ChatCompletionMessageParam]).validate_python(wire)
    assert problems(made) == []


def test_ids_are_told_apart_in_objects_of_openai_too() -> None:

    twice = WRITE["openai"]([("user", "u"), ("model", "m", [("c1", "search"), ("c1", "search")])])
    said = ChatCompletionMessage.model_validate(twice[1])
    made = completed([twice[0], said])
    assert [call.id for call in made[1].tool_calls] == ["c1", "c1-2"]
    assert [call.id for call in said.tool_calls or []] == ["c1", "c1"]


def test_items_of_the_responses_api() -> None:

    items = [
        ResponseFunctionToolCall.model_validate(item) if item.get("type") == "function_call" else item
        for item in WRITE["responses"](CRASHED)
    ]
    made = completed(items)
    wire = [one if isinstance(one, dict) else one.model_dump(exclude_none=True) for one in made]
    strict.responses(wire)
    TypeAdapter(list[ResponseInputItemParam]).validate_python(wire)
    assert problems(made) == []


@pytest.mark.parametrize("kind", ["custom_tool_call", "shell_call", "apply_patch_call", "local_shell_call"])
def test_outputs_of_every_kind_are_those_of_the_package(kind: str) -> None:

    output = completed([{"type": kind, "id": "i", "call_id": "c", "name": "f", "input": ""}])[-1]
    TypeAdapter(ResponseInputItemParam).validate_python(output)
    assert output["type"] == f"{kind}_output"


def test_messages_of_anthropic() -> None:

    user, said, *rest = WRITE["anthropic"](CRASHED)
    usage = {"input_tokens": 1, "output_tokens": 1}
    whole = {"id": "m", "type": "message", "model": "m", "stop_reason": "tool_use", "usage": usage, **said}
    message = Message.model_validate({**whole, "stop_sequence": None})
    made = completed([user, message, *rest])
    assert made[1] is message
    assert isinstance(message.content[1], ToolUseBlock)
    wire = [
        one if isinstance(one, dict) else {"role": one.role, "content": [b.model_dump() for b in one.content]}
        for one in made
    ]
    strict.anthropic(wire)
    for one in wire:
        TypeAdapter(MessageParam).validate_python(one)


def test_a_conversation_goes_through_langchain() -> None:

    wire = convert_to_openai_messages(convert_to_messages(completed(WRITE["openai"](CRASHED))))
    strict.openai(wire)
    assert str(wire).count(INTERRUPTED) == 2


class FunctionCall(BaseModel):
    name: str
    args: dict[str, Any]
    id: str | None = None


class FunctionResponse(BaseModel):
    name: str
    response: dict[str, Any]
    id: str | None = None


class Part(BaseModel):
    """As the package of Gemini has it: an object with a field for each kind of part."""

    text: str | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None


class Content(BaseModel):
    role: str
    parts: list[Part]


def test_contents_that_are_objects_are_completed_with_objects() -> None:
    contents = [Content.model_validate(content) for content in WRITE["google"](CRASHED[:2])]
    made = completed(contents)
    assert isinstance(made[2], Content)
    assert [part.function_response.name for part in made[2].parts] == ["search", "send", "read"]  # type: ignore[union-attr]
    strict.google([content.model_dump(exclude_none=True) for content in made])


@dataclass
class Told:
    """An object of no package: fields are enough to be read."""

    role: str
    content: str = ""
    tool_calls: list[Any] = field(default_factory=list)


def test_fields_are_enough() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    made = completed([Told("user"), Told("assistant", tool_calls=[call])])
    assert made[2] == {"role": "tool", "tool_call_id": "c1", "content": INTERRUPTED}
