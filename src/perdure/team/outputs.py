"""What an action returns, as it is recorded, and what it was given, as the journal shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from perdure.errors import RefusedError
from perdure.team import content, message
from perdure.team.memory import Remembered
from perdure.team.message import Message, chained

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN_COUNT = 8
"""Messages that the journal lists one by one; of more it has their number and a digest."""


class ActionOutput(BaseModel):
    """What an action has to say, as text and as data."""

    content: str = ""
    instruct_content: BaseModel | dict[str, Any] | None = None

    model_config = {"arbitrary_types_allowed": True}


def dump(output: Any) -> Any:
    """As it is recorded: `[form, data]`. Raises `RefusedError` for several messages."""
    if isinstance(output, Message):
        return ["message", message.dump(output)]
    if isinstance(output, ActionOutput):
        return ["output", {"content": output.content, "instruct_content": content.dump(output.instruct_content)}]
    if isinstance(output, BaseModel):
        return ["content", content.dump(output)]
    if isinstance(output, list | tuple) and any(isinstance(each, Message) for each in output):
        raise RefusedError(
            "an action returns one message, and this one several: return what they have in common (text, a model), and "
            "make them in the role's _act, which publishes each with self.publish_message(message) and returns the last"
        )
    return ["value", output]


def told(result: Any) -> dict[str, Any]:
    """What came of an action: as it is recorded; or what it returned, if a person who settled it says no more."""
    match result:
        case {"output": ["message" | "output" | "content" | "value", _]}:
            return dict(result)
    return {"output": dump(result)}


def load(recorded: Any) -> Any:
    """What `dump` recorded."""
    form, data = recorded
    if form == "message":
        return message.load(data)
    if form == "output":
        return ActionOutput(content=data["content"], instruct_content=content.load(data["instruct_content"]))
    return content.load(data) if form == "content" else data


def shown(given: Any) -> Any:
    """An argument, as it is recorded: messages by their ids, what is long by its digest."""
    if isinstance(given, Message):
        return {"message": given.id}
    if isinstance(given, Remembered) and len(given) > SHOWN_COUNT and given.ids is not None:
        return {"messages": len(given), "digest": given.ids}
    if isinstance(given, list | tuple) and given and all(isinstance(each, Message) for each in given):
        return _listed(given)
    if isinstance(given, BaseModel):
        return content.dump(given)
    return given


def _listed(messages: Sequence[Message]) -> dict[str, Any]:
    ids = [each.id for each in messages]
    if len(ids) <= SHOWN_COUNT:
        return {"messages": ids}
    return {"messages": len(ids), "digest": chained(b"", ids)}
