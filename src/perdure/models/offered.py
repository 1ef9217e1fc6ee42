"""The tools that are offered to a model, and the calls of them that it makes: read, told apart, and as recorded.

It carries out nothing, and does not look into the arguments of a call: whoever has the tools tells what is wrong.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.tools import ToolDefinition
from pydantic_core import to_json

from perdure.errors import RefusedError
from perdure.models.answer import ToolCall

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

_MADE_UP: Final = "pyd_ai_"
"""Begins the ids that pydantic-ai draws for calls that came without one: another try would draw others."""


class Box(Protocol):
    """Something that has tools, as a `perdure.tools.Toolbox`."""

    def definitions(self) -> list[Any]:
        """Its tools, as `pydantic_ai.tools.ToolDefinition`."""


Tools: TypeAlias = "Sequence[ToolDefinition] | Box"


def definitions(tools: Tools) -> tuple[ToolDefinition, ...]:
    """The definitions of tools. Raises `RefusedError` for what is none, and for two of one name."""
    found = tuple(tools if isinstance(tools, Sequence) else tools.definitions())
    for one in found:
        if not isinstance(one, ToolDefinition):
            raise RefusedError(f"tools: {one!r:.100} is no ToolDefinition; perdure.tools.Toolbox makes them")
    names = [one.name for one in found]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise RefusedError(f"tools: there are two of the name {double!r}")
    return found


def recorded(tools: Sequence[ToolDefinition]) -> dict[str, Any] | None:
    """What is recorded of them: their names, and a digest of all that a model is told of them."""
    told = [[one.name, one.description, one.parameters_json_schema, one.strict] for one in tools]
    digest = hashlib.sha256(to_json(told, serialize_unknown=True)).hexdigest()
    return {"names": [one.name for one in tools], "sha256": digest} if tools else None


def calls(message: ModelResponse) -> tuple[ToolCall, ...]:
    """The calls in a reply, in its order."""
    return tuple(ToolCall(part.tool_call_id, part.tool_name, _arguments(part)) for part in message.tool_calls)


def _arguments(part: ToolCallPart) -> str:
    if isinstance(part.args, dict):
        return json.dumps(part.args, ensure_ascii=False)
    return part.args or "{}"


def with_ids(message: ModelResponse, before: Sequence[ModelMessage]) -> ModelResponse:
    """The reply with ids of calls that no other call in the conversation has, the same ones whenever it is asked for.

    Ids that the server gave stay as they are, unless there was one like it `before`.
    """
    taken = [call.tool_call_id for one in before if isinstance(one, ModelResponse) for call in one.tool_calls]
    own = [call.tool_call_id for call in message.tool_calls]
    parts = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            if not part.tool_call_id or part.tool_call_id.startswith(_MADE_UP) or part.tool_call_id in taken:
                part = replace(part, tool_call_id=_free(len(taken) + 1, {*taken, *own}))  # noqa: PLW2901 - renamed
            taken.append(part.tool_call_id)
        parts.append(part)
    return replace(message, parts=parts)


def _free(number: int, taken: Collection[str]) -> str:
    while f"call_{number}" in taken:
        number += 1
    return f"call_{number}"
