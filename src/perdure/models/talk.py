"""What is said to a model: as messages, and as it is recorded, where a long history is not copied into each request."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_core import to_json

from perdure import limits
from perdure.errors import RefusedError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart

    from perdure.models.reply import Reply

Said: TypeAlias = "ModelMessage | Mapping[str, Any]"
"""One message of a history: of pydantic-ai, or a mapping with `role` (user, assistant, system) and `content`."""

_TOLD: Final = ("part_kind", "content", "tool_name", "tool_call_id", "args")
"""What a history is recognised by, of each part: what the model is told. Times and the like differ when made again."""


@dataclass(frozen=True)
class Talk:
    """A question with what goes before it, and the replies to it that could not be used (`unusable`)."""

    system: str
    history: tuple[ModelMessage, ...]
    prompt: str
    unusable: tuple[Reply, ...] = ()

    def messages(self, prompt: str) -> list[ModelMessage]:
        """All of it, to be sent; with this prompt in the place of its own."""
        said: list[ModelMessage] = [*self.history, ModelRequest([UserPromptPart(prompt)])]
        for reply in self.unusable:
            said += [reply.message, ModelRequest(list(_shown(reply)))]
        said[-1].instructions = self.system or None  # type: ignore[union-attr]
        return said

    def recorded(self) -> dict[str, Any]:
        """What is recorded of it, by the name of the argument; what it does not have is left out."""
        told = {
            "system": recorded_text(self.system),
            "history": _recorded_history(self.history),
            "prompt": recorded_text(self.prompt),
            "problems": [reply.problem for reply in self.unusable],
        }
        return {name: value for name, value in told.items() if value or name == "prompt"}


def messages(history: Sequence[Said]) -> tuple[ModelMessage, ...]:
    """The messages of a history. Raises `RefusedError` for what is none."""
    return tuple(_message(said) for said in history)


def _message(said: Said) -> ModelMessage:
    if isinstance(said, ModelRequest | ModelResponse):
        return said
    match said:
        case {"role": "user", "content": str(text)}:
            return ModelRequest([UserPromptPart(text)])
        case {"role": "system", "content": str(text)}:
            return ModelRequest([SystemPromptPart(text)])
        case {"role": "assistant", "content": str(text)}:
            return ModelResponse([TextPart(text)])
    raise RefusedError(
        f"history: {said!r:.200} is neither a message of pydantic-ai nor a mapping with a role (user, assistant, "
        "system) and a content that is text"
    )


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
