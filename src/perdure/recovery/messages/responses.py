"""Items as OpenAI's responses API takes them as input.

A call is an item, and so is its output, which names it by its `call_id`. What the model gave in one go (reasoning,
texts, calls) stays together; the outputs come behind it.
"""

from __future__ import annotations

from typing import Any, Final

from perdure.recovery.messages.reading import arguments_of, get, text_of, with_fields
from perdure.recovery.messages.shape import INTERRUPTED, NOT_DONE, Ending, Plain, ToolCall, ToolResult

CALLS: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
"""The calls that the caller answers, and what with. All others are answered by the provider itself."""

OUTPUTS: Final = frozenset(CALLS.values())

_INPUT_ROLES: Final = ("user", "system", "developer")


class Responses(Plain):
    """See `Shape`."""

    name: str = "responses"
    unique: bool = True

    def calls(self, message: Any, at: int) -> list[ToolCall]:
        """See `Shape.calls`."""
        kind = text_of(message, "type")
        if kind not in CALLS:
            return []
        return [ToolCall(at, 0, _id(message), text_of(message, "name") or kind, _arguments(message), message, kind)]

    def results(self, message: Any, at: int) -> list[ToolResult]:
        """See `Shape.results`."""
        if text_of(message, "type") not in OUTPUTS:
            return []
        return [ToolResult(at, 0, _id(message), "", message, _is_made_up(message))]

    def run_end(self, messages: list[Any], at: int) -> int:
        """See `Shape.run_end`."""
        if not _is_said(messages[at]):
            return at + 1
        while at < len(messages) and _is_said(messages[at]):
            at += 1
        return at

    def result(self, call: ToolCall, call_id: str, ending: Ending) -> Any:
        """See `Shape.result`. What a computer shows cannot be made up."""
        made = {"type": CALLS[call.kind], "call_id": call_id}
        if call.kind == "computer_call":
            return None
        if call.kind == "local_shell_call":
            return {"type": made["type"], "id": call_id, "output": ending.text}
        if call.kind == "shell_call":
            told = {"stdout": "", "stderr": ending.text, "outcome": {"type": "exit", "exit_code": 1}}
            return {**made, "output": [told]}
        if call.kind == "apply_patch_call":
            return {**made, "status": "completed" if ending.ok else "failed", "output": ending.text}
        return {**made, "output": ending.text}

    def renamed(self, message: Any, ids: dict[int, str]) -> Any:
        """See `Shape.renamed`."""
        return with_fields(message, call_id=ids[0])

    def result_renamed(self, raw: Any, call_id: str) -> Any:
        """See `Shape.result_renamed`."""
        if text_of(raw, "type") == "local_shell_call_output":
            return with_fields(raw, id=call_id)
        return with_fields(raw, call_id=call_id)


def _id(item: Any) -> str:
    """What ties a call and its output together: the output of a local shell has nothing but an `id`."""
    if text_of(item, "type") == "local_shell_call_output":
        return text_of(item, "call_id", "id")
    return text_of(item, "call_id")


def _is_said(item: Any) -> bool:
    """Whether the model said it: neither input nor an output of a tool."""
    return text_of(item, "role") not in _INPUT_ROLES and text_of(item, "type") not in OUTPUTS


def _arguments(item: Any) -> dict[str, Any] | None:
    if text_of(item, "type") == "custom_tool_call":
        return {"input": get(item, "input")}
    return arguments_of(get(item, "arguments", "action", "operation"))


def _is_made_up(item: Any) -> bool:
    output = get(item, "output")
    if isinstance(output, list) and len(output) == 1:
        output = get(output[0], "stderr")
    return output in (INTERRUPTED, NOT_DONE)
