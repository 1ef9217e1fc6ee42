"""Tools for a model that was never taught to call any: told in words, called by a reply that a schema enforces.

The wrapped model is asked for one JSON value: the call of one of the tools, or a text. What it is shown of earlier
calls looks the same. Without tools it is asked as it is.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from pydantic_ai import InlineDefsJsonSchemaTransformer
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import CompletedStreamedResponse, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition

_HOW: Final = """\
Answer with JSON alone: {"tool": "NAME", "arguments": {...}} to call a tool, {"text": "..."} to say something. \
You are then told what the tool gave. The tools:"""

_CALL: Final = re.compile(
    r'\s*\{\s*"tool"\s*:\s*"(?P<tool>[^"]+)"\s*,\s*"arguments"\s*:\s*(?P<arguments>.*)', re.DOTALL
)


class BySchema(WrapperModel):
    """A model that can be held to a schema, with tools."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The whole reply."""
        said, asked = _without_tools(messages, model_request_parameters)
        reply = await super().request(said, model_settings, asked)
        return _called(reply) if model_request_parameters.function_tools else reply

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """The reply as it comes; where it may be a call it comes at once, as it is not known before its end."""
        if model_request_parameters.function_tools:
            reply = await self.request(messages, model_settings, model_request_parameters)
            yield CompletedStreamedResponse(
                reply, model_request_parameters=model_request_parameters, replay_events=True
            )
            return
        said, asked = _without_tools(messages, model_request_parameters)
        async with super().request_stream(said, model_settings, asked, run_context) as stream:
            yield stream


def _without_tools(
    messages: Sequence[ModelMessage], parameters: ModelRequestParameters
) -> tuple[list[ModelMessage], ModelRequestParameters]:
    said = [_plain(message) for message in messages]
    tools = parameters.function_tools
    if not tools:
        return said, parameters
    told = InstructionPart(content="\n".join([_HOW, *map(_told, tools)]))
    return said, replace(
        parameters,
        function_tools=[],
        instruction_parts=[*_instructions(said, parameters), told],
        output_mode="native",
        output_object=OutputObjectDefinition(json_schema=_schema(tools), name="reply"),
        prompted_output_template="",  # it is in the instructions, shorter
        allow_text_output=True,
    )


def _instructions(said: Sequence[ModelMessage], parameters: ModelRequestParameters) -> list[InstructionPart]:
    if parameters.instruction_parts is not None:
        return parameters.instruction_parts
    text = getattr(said[-1], "instructions", None)
    return [InstructionPart(content=text)] if text else []


def _told(tool: ToolDefinition) -> str:
    """One tool in a line: its parameters, those in brackets may be left out."""
    schema = tool.parameters_json_schema
    required = schema.get("required", ())
    names = [name if name in required else f"[{name}]" for name in schema.get("properties", {})]
    about = (tool.description or "").strip().partition("\n")[0]
    return f"- {tool.name}({', '.join(names)}): {about}"


def _schema(tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    return {"anyOf": [*(_call_of(tool) for tool in tools), _object(text={"type": "string"})]}


def _call_of(tool: ToolDefinition) -> dict[str, Any]:
    arguments = InlineDefsJsonSchemaTransformer(tool.parameters_json_schema).walk()
    return _object(tool={"const": tool.name}, arguments=arguments)


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _plain(message: ModelMessage) -> ModelMessage:
    """A message without calls and results of tools: in the words that the model is asked for, and told."""
    return replace(message, parts=[_plain_part(part) for part in message.parts])  # type: ignore[arg-type]


def _plain_part(part: ModelRequestPart | ModelResponsePart) -> ModelRequestPart | ModelResponsePart:
    match part:
        case ToolReturnPart():
            return UserPromptPart(f"{part.tool_name}: {part.model_response_str()}")
        case ToolCallPart():
            name = json.dumps(part.tool_name)
            return TextPart(f'{{"tool": {name}, "arguments": {part.args_as_json_str()}}}')
    return part


def _called(reply: ModelResponse) -> ModelResponse:
    """The reply, with the call that its text is. Of one that was cut off the arguments are broken, as it wrote them."""
    text = reply.text or ""
    others: list[ModelResponsePart] = [part for part in reply.parts if not isinstance(part, TextPart)]
    with contextlib.suppress(ValueError):
        match json.loads(text):
            case {"tool": str(name), "arguments": dict(arguments)}:
                return replace(reply, parts=[*others, ToolCallPart(name, arguments)])
            case {"text": str(said)}:
                return replace(reply, parts=[*others, TextPart(said)])
    if cut := _CALL.match(text):
        return replace(reply, parts=[*others, ToolCallPart(cut["tool"], cut["arguments"])])
    return reply
