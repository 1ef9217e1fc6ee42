"""What was said before, as messages: plain mappings in the shape of OpenAI's chat completions are read here.

What follows the result of a tool goes with it into one request, as providers want results directly behind the calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic import ValidationError
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from perdure.errors import RefusedError
from perdure.models import offered
from perdure.models.answer import KEPT, wanted
from perdure.recovery import messages as strict

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

Said: TypeAlias = "ModelMessage | Mapping[str, Any]"
"""One message of a history: of pydantic-ai, or a mapping with `role` (user, assistant, system, tool) and `content`."""

_REFUSED: Final = ("open", "double", "orphan", "early", "place")
"""What all providers refuse; some take ids twice, or results in another order."""

_KEPT: Final = ("parts", "provider_name", "canonical_system")


def messages(history: Iterable[Said]) -> tuple[ModelMessage, ...]:
    """The messages of a history, one for each. Raises `RefusedError` for what is none."""
    names: dict[str, str] = {}
    found: list[ModelMessage] = []
    for said in history:
        message = said if isinstance(said, ModelRequest | ModelResponse) else _message(said, names)
        if isinstance(message, ModelResponse):
            names |= {call.tool_call_id: call.tool_name for call in message.tool_calls}
        found.append(message)
    return tuple(found)


def joined(said: Iterable[ModelMessage]) -> list[ModelMessage]:
    """The same messages, with what follows the results of tools in one request with them."""
    found: list[ModelMessage] = []
    for message in said:
        last = found[-1] if found else None
        if isinstance(message, ModelRequest) and isinstance(last, ModelRequest) and _answers(last):
            both = message.instructions or last.instructions
            found[-1] = replace(message, parts=[*last.parts, *message.parts], instructions=both)
        else:
            found.append(message)
    return found


def _answers(request: ModelRequest) -> bool:
    return bool(request.parts) and isinstance(request.parts[-1], ToolReturnPart)


def asks(said: Sequence[ModelMessage]) -> bool:
    """Whether it is the model's turn: the last message is one of the user or the result of a tool."""
    last = said[-1] if said else None
    return isinstance(last, ModelRequest) and any(
        isinstance(one, UserPromptPart | ToolReturnPart) for one in last.parts
    )


def newest(said: Sequence[ModelMessage]) -> str:
    """What was said since the model spoke last: prompts, and what tools gave."""
    at = next((at for at in range(len(said), 0, -1) if isinstance(said[at - 1], ModelResponse)), 0)
    parts = (part for message in said[at:] for part in message.parts)
    return "\n".join(str(part.content) for part in parts if isinstance(part, UserPromptPart | ToolReturnPart))


def check(said: Sequence[ModelMessage]) -> None:
    """Raises `RefusedError` for messages that every provider would refuse: calls without results, and the like."""
    wrong = [one for one in strict.problems(said, shape="pydantic_ai") if one.rule in _REFUSED]
    if wrong:
        raise RefusedError(f"history: {wrong[0]}. perdure.recovery.completed() makes a history whole")


def kept(message: ModelResponse) -> dict[str, Any] | None:
    """What of a reply its provider wants back and a plain message has no place for: its parts; None if there is none.

    Thinking with its signature, tools that the provider ran itself, signatures of calls.
    """
    if all(isinstance(part, TextPart | ToolCallPart) and not part.provider_details for part in message.parts):
        return None
    (told,) = ModelMessagesTypeAdapter.dump_python([message], mode="json", exclude_none=True)
    return {name: told[name] for name in _KEPT if name in told}


def sayable(text: str) -> str:
    """A text as a server takes it: what is no UTF-8 (half a character, a byte of a command line) has backslashes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _message(said: Any, names: Mapping[str, str]) -> ModelMessage:
    match said:
        case {"role": "user", "content": str(text)}:
            return ModelRequest([UserPromptPart(sayable(text))])
        case {"role": "system", "content": str(text)}:
            return ModelRequest([SystemPromptPart(sayable(text))])
        case {"role": "tool", "tool_call_id": str(call), "content": str(text)}:
            if call not in names:
                raise RefusedError(
                    f"history: a tool's message answers the call {call!r}, which no message before it has"
                )
            return ModelRequest([ToolReturnPart(names[call], sayable(text), tool_call_id=call)])
        case {"role": "assistant"} if (found := _assistant(said)) is not None:
            return found
    raise RefusedError(
        f"history: {said!r:.200} is neither a message of pydantic-ai nor a mapping with a role (user, assistant, "
        "system, tool) and a content that is text; of the assistant: content, tool_calls, or both"
    )


def _assistant(said: Mapping[str, Any]) -> ModelResponse | None:
    text, told = said.get("content"), said.get("tool_calls")
    calls = [_call(one) for one in told or ()]
    if not (text is None or isinstance(text, str)) or None in calls or (text is None and not calls):
        return None
    text = sayable(text or "")
    whole = _whole(said.get(KEPT), text, list(told or ()))
    return whole or ModelResponse([*([TextPart(text)] if text else []), *filter(None, calls)])


def _call(told: Any) -> ToolCallPart | None:
    match told:
        case {"id": str(call), "function": {"name": str(name), "arguments": str(arguments)}}:
            return ToolCallPart(name, sayable(arguments), tool_call_id=call)
    return None


def _whole(told: Any, text: str, calls: list[Any]) -> ModelResponse | None:
    """The reply as its provider wants it back; None for a message that is not any more what it was kept with."""
    if not isinstance(told, Mapping):
        return None
    try:
        (found,) = ModelMessagesTypeAdapter.validate_python([{"kind": "response", **told}])
    except ValidationError as error:
        raise RefusedError(
            f"history: what is in {KEPT!r} of an assistant's message is damaged: leave it out"
        ) from error
    assert isinstance(found, ModelResponse)  # noqa: S101 - of this kind
    same = (found.text or "") == text and [wanted(call) for call in offered.calls(found)] == calls
    return found if same else None
