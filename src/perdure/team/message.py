"""A message: what roles say to one another, whose action caused it, and to whom it goes.

It knows nothing of who carries it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import uuid
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_serializer,
    field_validator,
)

from perdure.errors import TagError
from perdure.setting import Setting
from perdure.team import content as contents
from perdure.team.names import USER_REQUIREMENT, name_of

ALL: Final = "<all>"
"""The address of everybody."""

SELF: Final = "<self>"
"""The address of whoever sends it."""

_ids: ContextVar[Callable[[], str] | None] = ContextVar("ids", default=None)


def derived_ids(*scope: str | int) -> Setting[Callable[[], str]]:
    """Within it, in this task, messages get ids that follow from `scope` and their order: the same when run again."""
    told, numbers = json.dumps(scope), itertools.count()
    return Setting(_ids, lambda: hashlib.sha256(f"{told}#{next(numbers)}".encode()).hexdigest()[:32])


def new_id() -> str:
    """32 hexadecimal digits: derived within `derived_ids`, else random."""
    ids = _ids.get()
    return uuid.uuid4().hex if ids is None else ids()


def renewed(message: Message) -> Message:
    """The same with an id of its own: what was received and is sent on, with something changed."""
    return message.model_copy(update={"id": new_id()})


def chained(digest: bytes, ids: Iterable[str]) -> bytes:
    """The digest of all ids until now, 16 bytes, from that of those before (empty for none)."""
    for each in ids:
        digest = hashlib.sha256(digest + each.encode()).digest()[:16]
    return digest


class Message(BaseModel):
    """One message. `cause_by`, `sent_from` and `send_to` take classes, objects and names, and hold names.

    `instruct_content` is its structured content: a pydantic model or a plain dict. Fields that are not declared here
    are kept.
    """

    model_config = ConfigDict(extra="allow", validate_assignment=True)

    id: str = Field(default="", validate_default=True)
    content: str = ""
    instruct_content: Any = None
    role: str = "user"
    cause_by: str = Field(default="", validate_default=True)
    sent_from: str = ""
    send_to: set[str] = Field(default_factory=set, validate_default=True)

    def __init__(self, content: str = "", /, **fields: Any) -> None:
        super().__init__(**{"content": content, **fields})

    @field_validator("id", mode="before")
    @classmethod
    def _identified(cls, value: Any) -> Any:
        return value or new_id()

    @field_validator("instruct_content", mode="before")
    @classmethod
    def _loaded(cls, value: Any) -> Any:
        if value is None or isinstance(value, BaseModel):
            return value
        if not isinstance(value, dict):
            raise ValueError(f"instruct_content is a pydantic model, a dict or None, not {type(value).__name__}")  # noqa: TRY004
        return contents.load(value) if contents.is_form(value) else value

    @field_validator("cause_by", mode="before")
    @classmethod
    def _caused(cls, value: Any) -> str:
        return name_of(value or USER_REQUIREMENT)

    @field_validator("sent_from", mode="before")
    @classmethod
    def _sent(cls, value: Any) -> str:
        return name_of(value or "")

    @field_validator("send_to", mode="before")
    @classmethod
    def _addressed(cls, value: Any) -> set[str]:
        if not value:
            return {ALL}
        many = (
            value if isinstance(value, Iterable) and not isinstance(value, str | type | BaseModel | dict) else (value,)
        )
        return {name_of(one) for one in many}

    @field_serializer("send_to")
    def _addresses(self, value: set[str]) -> list[str]:
        return sorted(value)

    @field_serializer("instruct_content")
    def _form(self, value: Any) -> Any:
        return contents.dump(value)

    def to_dict(self) -> dict[str, str]:
        """What a model is told of it: `role` and `content`."""
        return {"role": self.role, "content": self.content}

    def dump(self) -> str:
        """The message as JSON text, without what is None."""
        return self.model_dump_json(exclude_none=True)

    @classmethod
    def load(cls, text: str) -> Message:
        """The message that `dump` gave this text of. Raises TagError for what is none."""
        try:
            return load(json.loads(text))
        except json.JSONDecodeError as error:
            raise TagError(f"no message is JSON that cannot be read: {error}") from error

    def __str__(self) -> str:
        structured = self.instruct_content
        if not structured:
            return f"{self.role}: {self.content}"
        return f"{self.role}: {structured if isinstance(structured, dict) else structured.model_dump()}"

    __repr__ = __str__


def dump(message: Message) -> dict[str, Any]:
    """The plain form of a message, as team.json has it. Raises as `content.dump` does."""
    structured = contents.dump(message.instruct_content)  # not from within pydantic, which would hide what is wrong
    rest = message.model_dump(exclude={"instruct_content"})
    return {"id": rest.pop("id"), "content": rest.pop("content"), "instruct_content": structured, **rest}


def load(form: Any) -> Message:
    """The message of this form. Raises TagError, which names the message and the key that does not fit."""
    if not isinstance(form, dict):
        raise TagError(f"no message has this form: {form!r:.200}")
    known = f"the message {form.get('id', '')!r:.80}"
    try:
        return Message.model_validate(form)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise TagError(f"{known} does not fit, at {where!r:.80}: {first['msg']}") from error
    except TagError as error:
        raise TagError(f"{known}: {error}") from error


def UserMessage(content: str = "", **fields: Any) -> Message:  # noqa: N802 - as its users know it
    """A message whose role is `user`."""
    return Message(content, **{**fields, "role": "user"})


def SystemMessage(content: str = "", **fields: Any) -> Message:  # noqa: N802 - as its users know it
    """A message whose role is `system`."""
    return Message(content, **{**fields, "role": "system"})


def AIMessage(content: str = "", **fields: Any) -> Message:  # noqa: N802 - as its users know it
    """A message whose role is `assistant`."""
    return Message(content, **{**fields, "role": "assistant"})
