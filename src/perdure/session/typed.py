"""A typed state: an object of the user's class whose fields are the parts.

A TypedDict needs nothing; it is a dict at run time.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from perdure.errors import EntryError

if TYPE_CHECKING:
    from perdure.session.rules.parts import State


class Typed:
    """The object that the code works on, and the parts that it stands for."""

    def __init__(self, cls: type, state: State) -> None:
        self._state = state
        self._names = _field_names(cls)
        parts = {name: value for name, value in state.load_all().items() if name in self._names}
        try:
            self.object = cls.model_construct(**parts) if hasattr(cls, "model_construct") else cls(**parts)
        except TypeError as error:
            raise EntryError(
                f"state={cls.__qualname__}: each of its fields needs a default to begin with ({error})"
            ) from error

    def sync(self) -> None:
        """Puts the object's fields back as the parts."""
        for name in self._names:
            value = getattr(self.object, name)
            if name not in self._state or self._state[name] is not value:
                self._state[name] = value

    def replace(self, parts: dict[str, Any]) -> None:
        """These parts are others now; so are the object's fields."""
        for name, value in parts.items():
            object.__setattr__(self.object, name, value)


def typed_state(cls: type | None, state: State) -> Typed | None:
    """The typed state over these parts; None for a plain one. Raises `EntryError` for a class that cannot be one."""
    if cls is None or issubclass(cls, dict):
        return None
    return Typed(cls, state)


def check_parts(cls: type | None, parts: dict[str, Any]) -> str:
    """Why these parts cannot be the fields of a typed state; "" if they can."""
    names = [] if cls is None else _names(cls)
    if cls is None or not names:
        return ""
    strange = [name for name in parts if name not in names]
    if strange and not _takes_more(cls):
        return f"{cls.__qualname__} has no field {strange[0]!r}"
    missing = sorted(getattr(cls, "__required_keys__", frozenset()) - parts.keys())
    if missing:
        return f"field {missing[0]!r} of {cls.__qualname__} is missing"
    if issubclass(cls, dict):
        return ""
    try:
        cls.model_validate(parts) if hasattr(cls, "model_validate") else cls(**parts)
    except (TypeError, ValueError) as error:  # pydantic's own is a ValueError
        return f"it is no {cls.__qualname__}: {error}"
    return ""


def _names(cls: type) -> list[str]:
    return list(getattr(cls, "__annotations__", {})) if issubclass(cls, dict) else _field_names(cls)


def _takes_more(cls: type) -> bool:
    return getattr(cls, "model_config", {}).get("extra") == "allow"


def _field_names(cls: type) -> list[str]:
    if hasattr(cls, "model_fields"):
        return list(cls.model_fields)
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    raise EntryError(f"state={cls.__qualname__}: a typed state is a dataclass, a pydantic model or a TypedDict")
