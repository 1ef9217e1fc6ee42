"""What a session's journal knows of open calls, and how their model is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from pydantic_core import to_json, to_jsonable_python

from perdure import values
from perdure.recovery.messages.shape import INTERRUPTED, NOT_DONE, Ending, ToolCall
from perdure.session.rules.recall import Asked, Told

Say: TypeAlias = "Callable[[Any], str]"
"""What makes the text of a result that a model is given."""


def asked(calls: Iterable[ToolCall], opened: list[ToolCall]) -> list[Asked]:
    """The open calls as the journal is asked about them: each with its place among its like in the whole history."""
    every = Counter(map(_like, calls))
    met: Counter[bytes] = Counter()
    found = {}
    for call in calls:
        like = _like(call)
        found[call.at, call.within] = Asked(call.id, call.name, call.arguments, met[like], every[like])
        met[like] += 1
    return [found[call.at, call.within] for call in opened]


def _like(call: ToolCall) -> bytes:
    return values.encode([call.name, sorted((call.arguments or {}).items())])


def ending(told: Told, say: Say | None) -> Ending:
    """How the model is told what the journal knows."""
    if told.how == "result":
        return Ending(_text(told.value, say), to_jsonable_python(told.value, serialize_unknown=True), ok=True)
    if told.how == "error":
        return Ending(told.value)
    if told.how == "unstorable":
        return Ending(told.value, told.value, ok=True)
    return Ending(NOT_DONE if told.how == "not done" else INTERRUPTED)


def _text(value: Any, say: Say | None) -> str:
    if say is not None:
        return say(value)
    return value if isinstance(value, str) else to_json(value, serialize_unknown=True).decode()
