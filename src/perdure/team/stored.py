"""The fields of roles and actions as data: what cannot be stored is left out, and named once."""

from __future__ import annotations

import logging
from typing import Any, Final

from pydantic import BaseModel

from perdure import values
from perdure.errors import UnstorableError
from perdure.team import content, message
from perdure.team.message import Message

_log = logging.getLogger("perdure.team")

_MESSAGE: Final = "$message"
_CONTENT: Final = "$content"

_SIMPLE: Final = frozenset({str, bool, type(None)})
"""Types of values that are their own copies."""

unstored: set[tuple[str, str]] = set()
"""Class and field of what was left out in this process, each told once."""


def stored(owner: BaseModel, *without: str) -> dict[str, Any]:
    """Field name → value, but for those `without`. Values are copies: later changes leave them."""
    found = {}
    for name, value in _fields(owner):
        if name in without:
            continue
        if type(value) in _SIMPLE:
            found[name] = value
            continue
        try:
            found[name] = values.decode(values.encode(_plain(value)))
        except UnstorableError as error:
            _told(type(owner).__name__, name, error)
    return found


def unstorable(owner: BaseModel, *without: str) -> list[str]:
    """The fields that `stored` leaves out."""
    kept = stored(owner, *without)
    return [name for name, _ in _fields(owner) if name not in kept and name not in without]


def _fields(owner: BaseModel) -> list[tuple[str, Any]]:
    """Name and value of each, as going through the owner gives them, at a fraction of the time."""
    declared = (field for field in owner.__dict__.items() if field[0][:1] != "_")
    return [*declared, *(owner.__pydantic_extra__ or {}).items()]


def restored(value: Any) -> Any:
    """A field's value from what `stored` gave for it."""
    if isinstance(value, dict) and len(value) == 1:
        if _MESSAGE in value:
            return message.load(value[_MESSAGE])
        if _CONTENT in value:
            return content.load(value[_CONTENT])
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return {_MESSAGE: message.dump(value)}
    return {_CONTENT: content.dump(value)} if isinstance(value, BaseModel) else value


def _told(owner: str, name: str, error: UnstorableError) -> None:
    if (owner, name) not in unstored:
        unstored.add((owner, name))
        _log.warning("%s.%s is not saved, the rest of it is: %s", owner, name, error)
