"""Messages as pydantic-ai keeps them: requests and responses, each a list of parts.

A response has `tool-call` parts; the next request answers each of them with a `tool-return` part, or with a
`retry-prompt` part that names the tool, before anything that is said in it. A prompt to try again that names no tool
answers no call. What the provider ran by itself (`builtin-tool-call`) is answered by it.

Objects stay objects of the package, and histories that were dumped stay dicts.
"""

from __future__ import annotations

import importlib
from dataclasses import fields
from typing import Any, Final, NamedTuple

from perdure.recovery.messages.reading import arguments_of, get, list_of, text_of, with_fields
from perdure.recovery.messages.shape import INTERRUPTED, NOT_DONE, Anywhere, Ending, ToolCall, ToolResult

_SAID: Final = ("user-prompt", "system-prompt", "retry-prompt", "retry-feedback")
"""The parts of a request that a provider is told behind the results."""

_OF_THE_RUN: Final = ("run_id", "conversation_id")


class _Said(NamedTuple):
    """A call, and the response that it is in."""

    part: Any
    response: Any


class PydanticAI(Anywhere):
    """See `Shape`."""

    name: str = "pydantic_ai"
    needs_ids: bool = True
    unique: bool = True
    joined: bool = True

    def calls(self, message: Any, at: int) -> list[ToolCall]:
        """See `Shape.calls`."""
        if get(message, "kind") != "response":
            return []
        parts = [part for part in list_of(message, "parts") if _is_call(part)]
        return [_call(_Said(part, message), at, place) for place, part in enumerate(parts)]

    def results(self, message: Any, at: int) -> list[ToolResult]:
        """See `Shape.results`."""
        if get(message, "kind") != "request":
            return []
        parts = [part for part in list_of(message, "parts") if _is_result(part)]
        return [_result(part, at, place) for place, part in enumerate(parts)]

    def run_end(self, messages: list[Any], at: int) -> int:
        """See `Shape.run_end`."""
        del messages
        return at + 1

    def result(self, call: ToolCall, call_id: str, ending: Ending) -> Any:
        """See `Shape.result`. Its time is that of the response: a replay makes the very same."""
        said: _Said = call.raw
        told = {"tool_name": call.name, "content": ending.text, "tool_call_id": call_id, "outcome": _outcome(ending)}
        if (when := get(said.response, "timestamp")) is not None:
            told["timestamp"] = when
        return _made(said.part, "ToolReturnPart", {**told, "part_kind": "tool-return"})

    def renamed(self, message: Any, ids: dict[int, str]) -> Any:
        """See `Shape.renamed`."""
        made, place = [], 0
        for part in list_of(message, "parts"):
            is_call = _is_call(part)
            made.append(with_fields(part, tool_call_id=ids[place]) if is_call and place in ids else part)
            place += is_call
        return with_fields(message, parts=made)

    def result_renamed(self, raw: Any, call_id: str) -> Any:
        """See `Shape.result_renamed`."""
        return with_fields(raw, tool_call_id=call_id)

    def takes(self, message: Any) -> bool:
        """See `Shape.takes`: any request, for two in a row are one to the package."""
        return bool(get(message, "kind") == "request")

    def holding(self, message: Any | None, results: list[Any], *, like: Any) -> Any | None:
        """See `Shape.holding`."""
        if message is None:
            told = {name: found for name in _OF_THE_RUN if (found := get(like, name)) is not None}
            return _made(like, "ModelRequest", {"parts": results, **told, "kind": "request"}) if results else None
        parts = list_of(message, "parts")
        there = [part for part in parts if _is_result(part)]
        if list(map(id, there)) == list(map(id, results)) and not self.stray(message):
            return message
        wanted = [*results, *(part for part in parts if not _is_result(part))]
        return with_fields(message, parts=wanted) if wanted else None

    def stray(self, message: Any) -> bool:
        """See `Shape.stray`. Parts in which nothing is said may be anywhere."""
        told = [part for part in list_of(message, "parts") if _is_result(part) or get(part, "part_kind") in _SAID]
        kinds = [_is_result(part) for part in told]
        return kinds != sorted(kinds, reverse=True)


def is_one(message: Any) -> bool:
    """Whether it is a message of the package."""
    return get(message, "kind") in ("request", "response") and get(message, "parts") is not None


def _is_call(part: Any) -> bool:
    return bool(get(part, "part_kind") == "tool-call")


def _is_result(part: Any) -> bool:
    kind = get(part, "part_kind")
    return bool(kind == "tool-return" or (kind == "retry-prompt" and get(part, "tool_name") is not None))


def _call(said: _Said, at: int, place: int) -> ToolCall:
    part = said.part
    given = arguments_of(get(part, "args") or {})
    return ToolCall(at, place, text_of(part, "tool_call_id"), text_of(part, "tool_name"), given, said)


def _result(part: Any, at: int, place: int) -> ToolResult:
    made_up = get(part, "content") in (INTERRUPTED, NOT_DONE)
    return ToolResult(at, place, text_of(part, "tool_call_id"), text_of(part, "tool_name"), part, made_up)


def _outcome(ending: Ending) -> str:
    if ending.ok:
        return "success"
    return "interrupted" if ending.text in (INTERRUPTED, NOT_DONE) else "failed"


def _made(like: Any, name: str, told: dict[str, Any]) -> Any:
    """A part or message with these fields: a dict beside dicts, else an object of the package.

    An older package may not know every field, nor every outcome.
    """
    if isinstance(like, dict):
        return told
    kind = getattr(importlib.import_module("pydantic_ai.messages"), name)
    known = {each.name: str(each.type) for each in fields(kind)}
    if told.get("outcome", "") not in known.get("outcome", ""):
        told = {**told, "outcome": "failed"}
    return kind(**{field: value for field, value in told.items() if field in known})
