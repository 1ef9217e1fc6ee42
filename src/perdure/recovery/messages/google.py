"""Contents as Google's Gemini takes them.

A content of the model has `function_call` parts. The next one answers each of them with a `function_response` part: as
many, and in the order of the calls, for calls and responses need not have ids. Calls come behind a content of the user
or behind responses. Field names may be in either of the two spellings that its interfaces use.
"""

from __future__ import annotations

from typing import Any

from perdure.recovery.messages.reading import arguments_of, get, list_of, made_like, text_of, with_fields
from perdure.recovery.messages.shape import INTERRUPTED, NOT_DONE, Ending, ToolCall, ToolResult

_CALL, _RESULT = ("function_call", "functionCall"), ("function_response", "functionResponse")


class Google:
    """See `Shape`."""

    name: str = "google"
    needs_ids: bool = False
    unique: bool = False
    joined: bool = True

    def calls(self, message: Any, at: int) -> list[ToolCall]:
        """See `Shape.calls`."""
        if not _is_said(message):
            return []
        parts = [part for part in list_of(message, "parts") if get(part, *_CALL) is not None]
        return [_call(part, at, place) for place, part in enumerate(parts)]

    def results(self, message: Any, at: int) -> list[ToolResult]:
        """See `Shape.results`."""
        parts = [part for part in list_of(message, "parts") if _is_result(part)]
        return [_result(part, at, place) for place, part in enumerate(parts)]

    def run_end(self, messages: list[Any], at: int) -> int:
        """See `Shape.run_end`."""
        del messages
        return at + 1

    def result(self, call: ToolCall, call_id: str, ending: Ending) -> Any:
        """See `Shape.result`."""
        value = ending.value if isinstance(ending.value, dict) else {"result": ending.value}
        told: dict[str, Any] = {"name": call.name, "response": value if ending.ok else {"error": ending.text}}
        if call_id:
            told["id"] = call_id
        name = _RESULT[1] if isinstance(call.raw, dict) and _CALL[1] in call.raw else _RESULT[0]
        return made_like(call.raw, {name: told})

    def renamed(self, message: Any, ids: dict[int, str]) -> Any:
        """See `Shape.renamed`."""
        made, place = [], 0
        for part in list_of(message, "parts"):
            is_call = get(part, *_CALL) is not None
            made.append(_with_id(part, _CALL, ids[place]) if is_call and place in ids else part)
            place += is_call
        return with_fields(message, parts=made)

    def result_renamed(self, raw: Any, call_id: str) -> Any:
        """See `Shape.result_renamed`."""
        return _with_id(raw, _RESULT, call_id)

    def takes(self, message: Any) -> bool:
        """See `Shape.takes`: one that answers already."""
        return any(_is_result(part) for part in list_of(message, "parts"))

    def holding(self, message: Any | None, results: list[Any], *, like: Any) -> Any | None:
        """See `Shape.holding`."""
        if message is None:
            return made_like(like, {"role": "user", "parts": results}) if results else None
        parts = list_of(message, "parts")
        wanted = [*results, *(part for part in parts if not _is_result(part))]
        if list(map(id, wanted)) == list(map(id, parts)):
            return message
        return with_fields(message, parts=wanted) if wanted else None

    def stray(self, message: Any) -> bool:
        """See `Shape.stray`."""
        kinds = [_is_result(part) for part in list_of(message, "parts")]
        return kinds != sorted(kinds, reverse=True)

    def may_call(self, messages: list[Any], at: int) -> bool:
        """See `Shape.may_call`. Behind other calls it is their results that are missing."""
        return at > 0 and (not _is_said(messages[at - 1]) or bool(self.calls(messages[at - 1], at - 1)))

    def settled(self, messages: list[Any]) -> list[Any]:
        """See `Shape.settled`: what the model said right before its calls becomes one content with them."""
        made: list[Any] = []
        for at, message in enumerate(messages):
            before: list[Any] = []
            while self.calls(message, at) and made and _is_said(made[-1]):
                before.insert(0, made.pop())
            parts = [part for each in (*before, message) for part in list_of(each, "parts")]
            made.append(with_fields(message, parts=parts) if before else message)
        return made


def _is_said(message: Any) -> bool:
    """Whether it is a content of the model."""
    return text_of(message, "role") not in ("user", "function", "tool")


def _call(part: Any, at: int, place: int) -> ToolCall:
    call = get(part, *_CALL)
    return ToolCall(at, place, text_of(call, "id"), text_of(call, "name"), arguments_of(get(call, "args") or {}), part)


def _result(part: Any, at: int, place: int) -> ToolResult:
    told = get(part, *_RESULT)
    made_up = get(get(told, "response") or {}, "error") in (INTERRUPTED, NOT_DONE)
    return ToolResult(at, place, text_of(told, "id"), text_of(told, "name"), part, made_up)


def _is_result(part: Any) -> bool:
    return get(part, *_RESULT) is not None


def _with_id(part: Any, names: tuple[str, str], call_id: str) -> Any:
    name = next(name for name in names if get(part, name) is not None)
    return with_fields(part, **{name: with_fields(get(part, name), id=call_id)})
