"""What came of asking a model. It knows neither the model nor the session."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from perdure.values import storable

T = TypeVar("T")

KEPT: Final = "perdure"
"""Where a message of a history has what the plain shape of messages has no place for."""


@storable("perdure.ToolCall")
@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a model wants. `arguments` are JSON as the model wrote it, which may be broken.

    `id` is unique in the conversation; the result of the call is told to the model under it.
    """

    id: str
    name: str
    arguments: str


@storable("perdure.Answer")
@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a model answered.

    `output` is what was asked for, `text` the reply that it was read from. `tokens_in`, `tokens_out` and `usd` are
    those of all replies to this question, also of those that could not be used; `usd` is 0 where no price is known.
    `model` is the name of the model, as its server tells it. `calls` are the tools that it wants to be called, in its
    order; then `text` may be "". `kept` is what its provider wants back with the next request and no plain message can
    hold (thinking, signatures), None if there is none. Storable as long as `output` is.
    """

    output: T
    text: str
    tokens_in: int
    tokens_out: int
    usd: float
    model: str
    calls: tuple[ToolCall, ...] = ()
    kept: dict[str, Any] | None = None

    def message(self) -> dict[str, Any]:
        """The reply as a message of a history, in the shape of OpenAI's chat completions: plain values, a new dict.

        Each of `tool_calls` has to be followed by `{"role": "tool", "tool_call_id": …, "content": …}`, in their order.
        What is `kept` is in the key "perdure".
        """
        told: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.calls:
            told["tool_calls"] = [wanted(call) for call in self.calls]
        return told | ({KEPT: copy.deepcopy(self.kept)} if self.kept is not None else {})


def wanted(call: ToolCall) -> dict[str, Any]:
    """A call in the shape of OpenAI's chat completions."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
