"""Messages as Anthropic's messages API takes them.

An assistant's message has `tool_use` blocks. All of them are answered by `tool_result` blocks in the next message,
which is the user's, before anything else in it. What the provider's own servers ran (`server_tool_use`) is answered by
them.
"""

from __future__ import annotations

from typing import Any

from perdure.recovery.messages.reading import arguments_of, get, list_of, text_of, with_fields
from perdure.recovery.messages.shape import INTERRUPTED, NOT_DONE, Anywhere, Ending, ToolCall, ToolResult

CALL, RESULT = "tool_use", "tool_result"


class Anthropic(Anywhere):
    """See `Shape`."""

    name: str = "anthropic"
    needs_ids: bool = True
    unique: bool = True
    joined: bool = True

    def calls(self, message: Any, at: int) -> list[ToolCall]:
        """See `Shape.calls`."""
        if text_of(message, "role") != "assistant":
            return []
        blocks = [block for block in list_of(message, "content") if get(block, "type") == CALL]
        return [
            ToolCall(at, place, text_of(each, "id"), text_of(each, "name"), arguments_of(get(each, "input")), each)
            for place, each in enumerate(blocks)
        ]

    def results(self, message: Any, at: int) -> list[ToolResult]:
        """See `Shape.results`."""
        blocks = [block for block in list_of(message, "content") if get(block, "type") == RESULT]
        return [
            ToolResult(at, place, text_of(each, "tool_use_id"), "", each, _is_made_up(each))
            for place, each in enumerate(blocks)
        ]

    def run_end(self, messages: list[Any], at: int) -> int:
        """See `Shape.run_end`."""
        del messages
        return at + 1

    def result(self, call: ToolCall, call_id: str, ending: Ending) -> Any:
        """See `Shape.result`."""
        made: dict[str, Any] = {"type": RESULT, "tool_use_id": call_id, "content": ending.text}
        if not ending.ok:
            made["is_error"] = True
        if family := text_of(call.raw, "toolset_name"):
            made["toolset_name"] = family
        return made

    def renamed(self, message: Any, ids: dict[int, str]) -> Any:
        """See `Shape.renamed`."""
        made, place = [], 0
        for block in list_of(message, "content"):
            is_call = get(block, "type") == CALL
            made.append(with_fields(block, id=ids[place]) if is_call and place in ids else block)
            place += is_call
        return with_fields(message, content=made)

    def result_renamed(self, raw: Any, call_id: str) -> Any:
        """See `Shape.result_renamed`."""
        return with_fields(raw, tool_use_id=call_id)

    def takes(self, message: Any) -> bool:
        """See `Shape.takes`: any message of the user, for two in a row are one to the provider."""
        return text_of(message, "role") == "user"

    def holding(self, message: Any | None, results: list[Any], *, like: Any) -> Any | None:
        """See `Shape.holding`."""
        del like
        blocks = [] if message is None else _blocks(message)
        wanted = [*results, *(block for block in blocks if get(block, "type") != RESULT)]
        if message is None:
            return {"role": "user", "content": wanted} if wanted else None
        if list(map(id, wanted)) == list(map(id, blocks)):
            return message
        return with_fields(message, content=wanted) if wanted else None

    def stray(self, message: Any) -> bool:
        """See `Shape.stray`."""
        kinds = [get(block, "type") == RESULT for block in list_of(message, "content")]
        return kinds != sorted(kinds, reverse=True)


def _blocks(message: Any) -> list[Any]:
    content = get(message, "content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list_of(message, "content")


def _is_made_up(block: Any) -> bool:
    content = get(block, "content")
    if isinstance(content, list) and len(content) == 1:
        content = get(content[0], "text")
    return content in (INTERRUPTED, NOT_DONE)
