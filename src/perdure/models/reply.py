"""One reply of a model: as it is recorded, what it cost, and the message that it was.

It is recorded as plain values in the form that pydantic-ai writes messages in, so a log can be read without it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_core import PydanticSerializationError

from perdure.models.history import sayable

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse


@dataclass(frozen=True)
class Reply:
    """A reply as it is recorded: `message`, `problem` (None: it can be used), `tokens_in`, `tokens_out`, `usd`."""

    told: dict[str, Any]

    @cached_property
    def message(self) -> ModelResponse:
        """The message that it was, exactly."""
        (message,) = ModelMessagesTypeAdapter.validate_json(json.dumps([self.told["message"]]))
        return message  # type: ignore[return-value]

    @property
    def problem(self) -> str | None:
        """Why it could not be used when it came; None if it could."""
        return self.told["problem"]  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The text of it, or the arguments of the tool that it called to answer."""
        calls = (call.args_as_json_str() for call in self.message.tool_calls)
        return self.message.text or next(calls, "")


def recorded(message: ModelResponse, problem: str | None) -> dict[str, Any]:
    """A reply as it is recorded."""
    told = _told(message)
    told["usage"] = {name: value for name, value in told["usage"].items() if value}
    usage = message.usage
    return {
        "message": told,
        "problem": problem,
        "tokens_in": usage.input_tokens,
        "tokens_out": usage.output_tokens,
        "usd": _usd(message),
    }


def _told(message: ModelResponse) -> dict[str, Any]:
    try:
        (told,) = json.loads(ModelMessagesTypeAdapter.dump_json([message], exclude_none=True))
    except PydanticSerializationError:  # half a character, as of a reply that was cut off: paid for all the same
        (told,) = _sayable(ModelMessagesTypeAdapter.dump_python([message], mode="json", exclude_none=True))
    return told  # type: ignore[no-any-return]


def _sayable(told: Any) -> Any:
    if isinstance(told, str):
        return sayable(told)
    if isinstance(told, dict):
        return {_sayable(name): _sayable(value) for name, value in told.items()}
    return [*map(_sayable, told)] if isinstance(told, list) else told


def spent(message: ModelResponse) -> dict[str, float]:
    """What is known of what a reply cost that broke off, by unit; empty if nothing is."""
    tokens = message.usage.input_tokens + message.usage.output_tokens
    return {"tokens": tokens, "usd": _usd(message)} if tokens else {}


def cost(told: dict[str, Any]) -> dict[str, float]:
    """What a recorded reply cost, by unit."""
    return {"tokens": told["tokens_in"] + told["tokens_out"], "usd": told["usd"]}


def _usd(message: ModelResponse) -> float:
    """The price of a reply: as its server told it, else as the table of prices has it; 0 if that does not know it."""
    if message.usage.cost is not None:
        return float(message.usage.cost)
    if not message.model_name:
        return 0.0
    try:
        return float(message.cost().total_price)
    except (LookupError, ValueError):
        return 0.0
