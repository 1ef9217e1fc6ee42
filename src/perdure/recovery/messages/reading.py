"""Reading a message whatever it is made of: a dict, or an object of a provider's package."""

from __future__ import annotations

import json
from dataclasses import is_dataclass, replace
from typing import Any


def get(item: Any, *names: str) -> Any:
    """The first of these fields that the item has and that is not None; None if it has none of them."""
    for name in names:
        found = item.get(name) if isinstance(item, dict) else getattr(item, name, None)
        if found is not None:
            return found
    return None


def text_of(item: Any, *names: str) -> str:
    """The same for a field that is a text; "" for one that is not there or is something else."""
    found = get(item, *names)
    return found if isinstance(found, str) else ""


def list_of(item: Any, *names: str) -> list[Any]:
    """The same for a field that is a list; an empty one for any other."""
    found = get(item, *names)
    return list(found) if isinstance(found, list | tuple) else []


def with_fields(item: Any, **fields: Any) -> Any:
    """The same item with other values in these fields, of the same type; the item itself is left as it is."""
    if isinstance(item, dict):
        return {**item, **fields}
    if is_dataclass(item) and not isinstance(item, type):
        return replace(item, **fields)
    return item.model_copy(update=fields)


def made_like(item: Any, fields: dict[str, Any]) -> Any:
    """These fields as an object of the type of `item`, where that is a pydantic model; else the dict that they are."""
    validate = getattr(type(item), "model_validate", None)
    return fields if isinstance(item, dict) or validate is None else validate(fields)


def arguments_of(told: Any) -> dict[str, Any] | None:
    """The arguments of a call, which some providers give as JSON; None if they are no object."""
    if isinstance(told, str):
        try:
            told = json.loads(told or "{}")
        except ValueError:
            return None
    return dict(told) if isinstance(told, dict) else None
