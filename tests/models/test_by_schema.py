"""Tools for models that know of none: what such a model is shown and held to, and what its reply is taken for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from perdure.models.by_schema import BySchema
from perdure.tools import Toolbox

BOX = Toolbox()


class Place(BaseModel):
    city: str


@BOX.tool(effect="repeatable")
def weather(where: Place, day: str = "today") -> str:
    """The weather in a city.

    As it will be.
    """
    return f"{where.city}: rain {day}"


TOOLS = ModelRequestParameters(function_tools=list(BOX.definitions()))
NATIVE = {"supports_json_schema_output": True}
CALL = '{"tool": "weather", "arguments": {"where": {"city": "Oslo"}}}'


def asked(*parts: Any, before: tuple[ModelMessage, ...] = ()) -> list[ModelMessage]:
    return [*before, ModelRequest([*parts], instructions="be short")]


def replied(text: str) -> tuple[ModelResponse, list[ModelMessage], AgentInfo]:
    """The reply of a model that says this; what it was shown and asked for."""
    seen: list[Any] = []

    def says(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.extend((messages, info))
        return ModelResponse([TextPart(text)])

    wrapped = FunctionModel(says, profile=NATIVE)
    called = (
        ModelRequest([UserPromptPart("and in Rome?")]),
        ModelResponse([ToolCallPart("weather", {"where": {"city": "Rome"}}, tool_call_id="call_1")]),
    )
    messages = asked(ToolReturnPart("weather", "Rome: sun", tool_call_id="call_1"), before=called)
    found = asyncio.run(model_request(BySchema(wrapped), messages, model_request_parameters=TOOLS))
    return found, *seen


def test_it_is_shown_the_tools_and_what_was_called_in_words():
    _, messages, info = replied(CALL)
    assert info.function_tools == []
    shown = [part.content for message in messages for part in message.parts]
    assert shown == [
        "and in Rome?",
        '{"tool": "weather", "arguments": {"where":{"city":"Rome"}}}',
        "weather: Rome: sun",
    ]
    rules, tools = [part.content for part in info.model_request_parameters.instruction_parts]
    assert rules == "be short"
    assert tools.splitlines()[-1] == "- weather(where, [day]): The weather in a city."


@pytest.mark.parametrize(
    ("reply", "fits"),
    [
        (CALL, True),
        ('{"text": "it rains"}', True),
        ('{"tool": "climate", "arguments": {"where": {"city": "Oslo"}}}', False),
        ('{"tool": "weather", "arguments": {"where": "Oslo"}}', False),
        ('{"tool": "weather", "arguments": {}}', False),
        ('{"text": "it rains", "tool": "weather"}', False),
    ],
)
def test_it_is_held_to_calls_that_the_tools_can_take(reply, fits):
    _, _, info = replied(CALL)
    told = info.model_request_parameters
    assert told.output_mode == "native"
    assert jsonschema.Draft202012Validator(told.output_object.json_schema).is_valid(json.loads(reply)) is fits


@pytest.mark.parametrize(
    ("reply", "name", "arguments"),
    [
        (CALL, "weather", {"where": {"city": "Oslo"}}),
        ('{"tool":"weather" , "arguments": {"where": {"ci', "weather", '{"where": {"ci'),
        ('{"tool": "weather", "arguments": "Oslo"}', "weather", '"Oslo"}'),
    ],
)
def test_a_call_is_a_call_also_where_it_was_cut_off(reply, name, arguments):
    (part,) = replied(reply)[0].parts
    assert (type(part), part.tool_name, part.args) == (ToolCallPart, name, arguments)


@pytest.mark.parametrize(
    ("reply", "text"), [('{"text": "it rains"}', "it rains"), ('{"text": "it ra', '{"text": "it ra'), ("no", "no")]
)
def test_what_is_no_call_is_a_text(reply, text):
    found, _, _ = replied(reply)
    assert (found.text, found.tool_calls) == (text, [])


def test_a_stream_has_the_call_at_its_end():
    async def last() -> ModelResponse:
        model = BySchema(FunctionModel(lambda *_: ModelResponse([TextPart(CALL)]), profile=NATIVE))
        async with model_request_stream(model, asked(UserPromptPart("x")), model_request_parameters=TOOLS) as stream:
            assert [event async for event in stream]
            return stream.get()

    assert [call.tool_name for call in asyncio.run(last()).tool_calls] == ["weather"]


def test_without_tools_nothing_differs():
    async def pieces() -> tuple[str | None, int]:
        model = BySchema(TestModel(custom_output_text="a word or two"))
        messages = asked(UserPromptPart("x"))
        whole = await model_request(model, messages)
        async with model_request_stream(model, messages) as stream:
            count = len([event async for event in stream])
            assert stream.get().text == whole.text
        return whole.text, count

    text, count = asyncio.run(pieces())
    assert text == "a word or two"
    assert count > 3
