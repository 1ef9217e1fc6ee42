"""Which provider's messages these are, told by what only its messages have."""

from __future__ import annotations

from typing import Any, Final

from perdure.errors import RefusedError
from perdure.recovery.messages import anthropic, pydantic_ai, responses
from perdure.recovery.messages.anthropic import Anthropic
from perdure.recovery.messages.google import Google
from perdure.recovery.messages.openai import OpenAI
from perdure.recovery.messages.pydantic_ai import PydanticAI
from perdure.recovery.messages.reading import get, list_of, text_of
from perdure.recovery.messages.responses import Responses
from perdure.recovery.messages.shape import Shape

SHAPES: Final[dict[str, Shape]] = {
    "openai": OpenAI(),
    "responses": Responses(),
    "anthropic": Anthropic(),
    "google": Google(),
    "pydantic_ai": PydanticAI(),
}
"""The shapes by their names."""


def shape_named(shape: str | None, messages: list[Any]) -> Shape | None:
    """The shape of that name; without one, that of the messages. None: they call no tools, and are the same in all.

    Raises `RefusedError` for an unknown name, and for messages that are of several shapes.
    """
    if shape is not None:
        if shape not in SHAPES:
            raise RefusedError(f"shape={shape!r}: it is one of {', '.join(SHAPES)}")
        return SHAPES[shape]
    found = {name: at for at in range(len(messages) - 1, -1, -1) if (name := _shape_of(messages[at]))}
    if len(found) > 1:
        told = ", ".join(f"message {at} is of {name}" for name, at in sorted(found.items(), key=lambda item: item[1]))
        raise RefusedError(f"these messages are of several providers: {told}. Give shape= to say which is meant")
    return SHAPES[next(iter(found))] if found else None


def _shape_of(message: Any) -> str:
    """The shape of a message that calls a tool or has a result; "" for any other."""
    if pydantic_ai.is_one(message):
        return "pydantic_ai"
    if text_of(message, "type") in (*responses.CALLS, *responses.OUTPUTS):
        return "responses"
    if list_of(message, "tool_calls") or (text_of(message, "role") == "tool" and text_of(message, "tool_call_id")):
        return "openai"
    if get(message, "parts") is not None:
        return "google"
    if any(get(block, "type") in (anthropic.CALL, anthropic.RESULT) for block in list_of(message, "content")):
        return "anthropic"
    return ""
