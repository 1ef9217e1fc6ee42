"""Histories made of the packages' own objects, and results that the packages themselves take."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from anthropic import AsyncAnthropic
from anthropic.types import Message, MessageParam, ToolUseBlock
from langchain_core.messages import convert_to_messages, convert_to_openai_messages
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageParam
from openai.types.responses import ResponseFunctionToolCall, ResponseInputItemParam
from pydantic import BaseModel, TypeAdapter
from pydantic_ai import messages as pa
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

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


# --- pydantic-ai ------------------------------------------------------------------------------------------------------


def of_pydantic_ai(events: list[Any]) -> list[Any]:
    return pa.ModelMessagesTypeAdapter.validate_python(WRITE["pydantic_ai"](events))


def test_messages_of_pydantic_ai_stay_objects_and_go_to_a_file_and_back() -> None:
    made = completed(of_pydantic_ai(CRASHED))
    assert [type(message) for message in made] == [pa.ModelRequest, pa.ModelResponse, pa.ModelRequest, pa.ModelRequest]
    assert [(part.tool_call_id, part.content, part.outcome) for part in made[2].parts] == [
        ("c1", INTERRUPTED, "interrupted"),
        ("c2", "B", "success"),
        ("c3", INTERRUPTED, "interrupted"),
    ]
    dumped = pa.ModelMessagesTypeAdapter.dump_python(made, mode="json")
    strict.pydantic_ai(dumped)
    again = pa.ModelMessagesTypeAdapter.validate_python(dumped)
    assert problems(made) == problems(again) == problems(dumped) == []
    assert [id(message) for message in completed(again)] == [id(message) for message in again]


def test_what_pydantic_ai_is_given_is_the_same_each_time() -> None:
    crashed = of_pydantic_ai(CRASHED[:2])
    first, second = (pa.ModelMessagesTypeAdapter.dump_json(completed(crashed)) for _ in range(2))
    assert first == second


@pytest.mark.filterwarnings("ignore:.RetryPromptPart. is deprecated")
def test_a_prompt_to_try_again_is_the_result_of_the_call_that_it_names_only() -> None:
    said = pa.ModelResponse([pa.ThinkingPart("hm"), pa.ToolCallPart("f", "{}", "c1"), pa.ToolCallPart("g", None, "c2")])
    plain = pa.RetryPromptPart("answer in JSON")
    asked = pa.ModelRequest([pa.RetryPromptPart("x is no number", tool_name="f", tool_call_id="c1"), plain])
    history = [pa.ModelRequest([pa.UserPromptPart("u")]), said, asked]
    assert [(problem.call, problem.rule) for problem in problems(history)] == [("c2", "open")]
    made = completed(history)
    assert made[1] is said
    assert [part.tool_call_id for part in made[2].parts[:2]] == ["c1", "c2"]
    assert made[2].parts[0] is asked.parts[0]
    assert made[2].parts[2] is plain


def test_ids_are_told_apart_in_objects_of_pydantic_ai_and_the_old_ones_stay_as_they_are() -> None:
    twice = of_pydantic_ai([("user", "u"), ("model", "m", [("c1", "search"), ("c1", "search")])])
    made = completed(twice)
    assert [part.tool_call_id for part in made[2].parts] == ["c1", "c1-2"]
    assert [call.tool_call_id for call in twice[1].tool_calls] == ["c1", "c1"]


class Provider(BaseHTTPRequestHandler):
    """Takes down the messages that it is sent, and refuses them."""

    asked: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        self.asked[:] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        self.send_response(400)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture
def provider() -> Iterator[str]:
    Provider.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def model_of(shape: str, url: str) -> Model:
    if shape == "openai":
        return OpenAIChatModel("m", provider=OpenAIProvider(openai_client=AsyncOpenAI(api_key="k", base_url=url)))
    asking = AsyncAnthropic(api_key="k", base_url=url)
    return AnthropicModel("m", provider=AnthropicProvider(anthropic_client=asking))


@pytest.mark.parametrize("shape", ["openai", "anthropic"])
@pytest.mark.parametrize(("mended", "is_accepted"), [(completed, True), (list, False)])
def test_the_provider_takes_what_pydantic_ai_makes_of_a_completed_history(
    shape: str, mended: Any, is_accepted: Any, provider: str
) -> None:
    history = mended(of_pydantic_ai(CRASHED))
    with pytest.raises(ModelHTTPError):
        asyncio.run(model_of(shape, provider).request(history, None, ModelRequestParameters()))
    assert Provider.asked
    assert strict.accepts(shape, Provider.asked) is is_accepted
