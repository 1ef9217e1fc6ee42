"""Messages as OpenAI's chat completions take them, and the many servers that speak the same language.

An assistant's message has `tool_calls`; each is answered by a message of its own, of the role `tool`, directly behind
it.
"""

from __future__ import annotations

from typing import Any

from perdure.recovery.messages.reading import arguments_of, get, list_of, text_of, with_fields
from perdure.recovery.messages.shape import INTERRUPTED, NOT_DONE, Ending, Plain, ToolCall, ToolResult


class OpenAI(Plain):
    """See `Shape`."""

    name: str = "openai"
    unique: bool = False

    def calls(self, message: Any, at: int) -> list[ToolCall]:
        """See `Shape.calls`."""
        if text_of(message, "role") != "assistant":
            return []
        return [_call(each, at, place) for place, each in enumerate(list_of(message, "tool_calls"))]

    def results(self, message: Any, at: int) -> list[ToolResult]:
        """See `Shape.results`."""
        if text_of(message, "role") != "tool":
            return []
        made_up = get(message, "content") in (INTERRUPTED, NOT_DONE)
        return [ToolResult(at, 0, text_of(message, "tool_call_id"), text_of(message, "name"), message, made_up)]

    def run_end(self, messages: list[Any], at: int) -> int:
        """See `Shape.run_end`."""
        del messages
        return at + 1

    def result(self, call: ToolCall, call_id: str, ending: Ending) -> Any:
        """See `Shape.result`."""
        del call
        return {"role": "tool", "tool_call_id": call_id, "content": ending.text}

    def renamed(self, message: Any, ids: dict[int, str]) -> Any:
        """See `Shape.renamed`."""
        told = list_of(message, "tool_calls")
        return with_fields(
            message,
            tool_calls=[with_fields(each, id=ids[place]) if place in ids else each for place, each in enumerate(told)],
        )

    def result_renamed(self, raw: Any, call_id: str) -> Any:
        """See `Shape.result_renamed`."""
        return with_fields(raw, tool_call_id=call_id)


def _call(told: Any, at: int, place: int) -> ToolCall:
    custom, function = get(told, "custom"), get(told, "function")
    if function is None and custom is not None:
        given: dict[str, Any] | None = {"input": get(custom, "input")}
        return ToolCall(at, place, text_of(told, "id"), text_of(custom, "name"), given, told, "custom")
    given = arguments_of(get(function, "arguments"))
    return ToolCall(at, place, text_of(told, "id"), text_of(function, "name"), given, told)
