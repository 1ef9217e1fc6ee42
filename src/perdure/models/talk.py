"""What is said to a model: as it is sent, and as it is recorded. A long history is not copied into each record."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_core import to_json

from perdure import limits
from perdure.errors import RefusedError
from perdure.models import history as histories

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.messages import ModelMessage, ModelRequestPart

    from perdure.models.reply import Reply

_TOLD: Final = ("part_kind", "content", "tool_name", "tool_call_id", "args")
"""What a history is recognised by, of each part: what the model is told. Times and the like differ when made again."""


@dataclass(frozen=True)
class Talk:
    """A question with what goes before it, and the replies to it that could not be used (`unusable`)."""

    system: str
    history: tuple[ModelMessage, ...]
    prompt: str
    unusable: tuple[Reply, ...] = ()

    def __post_init__(self) -> None:
        if not self.prompt and not histories.asks(self.history):
            raise RefusedError("the prompt is empty, and the history does not end with a message of the user or a tool")

    def messages(self, prompt: str) -> list[ModelMessage]:
        """All of it, to be sent; with this prompt in the place of its own. Raises `RefusedError` for open calls."""
        said = self._question(prompt)
        for reply in self.unusable:
            said += [reply.message, ModelRequest(list(_shown(reply)))]
        said = histories.joined(said)
        histories.check(said)
        last = said[-1]
        assert isinstance(last, ModelRequest)  # noqa: S101 - a prompt, what was asked before, or a problem
        system = histories.sayable(self.system)
        said[-1] = replace(last, instructions=system or (None if prompt else last.instructions))
        return said

    def asked(self, prompt: str) -> str:
        """What the model is asked: the prompt, or without one what the history ends with."""
        return prompt or histories.newest(self.history)

    def _question(self, prompt: str) -> list[ModelMessage]:
        return [*self.history, *([ModelRequest([UserPromptPart(histories.sayable(prompt))])] if prompt else [])]

    def recorded(self) -> dict[str, Any]:
        """What is recorded of it, by the name of the argument; what it does not have is left out."""
        told = {
            "system": recorded_text(self.system),
            "history": _recorded_history(self.history),
            "prompt": recorded_text(self.prompt),
            "problems": [reply.problem for reply in self.unusable],
        }
        return {name: value for name, value in told.items() if value or name == "prompt"}


def recorded_text(text: str) -> str | dict[str, Any]:
    """A text as it is recorded: itself, or what tells it from every other."""
    if len(text) <= limits.PROMPT_CHARS_MAX:
        return text
    shown = limits.PROMPT_SHOWN_CHARS
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {"chars": len(text), "sha256": digest, "start": text[:shown], "end": text[-shown:]}


def _recorded_history(history: Sequence[ModelMessage]) -> dict[str, Any] | None:
    if not history:
        return None
    told = to_json([_told(message) for message in history], bytes_mode="base64", serialize_unknown=True)
    return {"messages": len(history), "bytes": len(told), "sha256": hashlib.sha256(told).hexdigest()}


def _told(message: ModelMessage) -> list[Any]:
    parts = [[getattr(part, name, None) for name in _TOLD] for part in message.parts]
    return [message.kind, message.instructions if isinstance(message, ModelRequest) else None, parts]


def _shown(reply: Reply) -> list[ModelRequestPart]:
    """What the model is told of a reply that could not be used: as the result of each tool that it called, or text."""
    problem = f"{reply.problem}\n\nAnswer again, and only with what was asked for."
    calls = reply.message.tool_calls
    if not calls:
        return [UserPromptPart(problem)]
    return [ToolReturnPart(call.tool_name, problem, tool_call_id=call.tool_call_id) for call in calls]
