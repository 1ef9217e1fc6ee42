"""Frozen dataclasses as documents: plain dicts of exactly their fields, back again, and the JSON Schema of both.

One walk over the annotations for each. A field annotated `Any` holds a value of the user's and is left as it is. It
must not know any of the classes.
"""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from typing import Any, Final, get_args, get_origin, get_type_hints

from perdure.errors import DamageError

_PLAIN: Final = {str: "string", int: "integer", bool: "boolean"}


def document(value: Any) -> dict[str, Any]:
    """The dict of a dataclass: its fields in order, dataclasses and tuples in them as dicts and lists."""
    written: dict[str, Any] = _written(value, type(value))
    return written


def _written(value: Any, hint: Any) -> Any:
    if value is None or hint is Any or hint in _PLAIN:
        return value
    if is_dataclass(hint):
        return {name: _written(getattr(value, name), of) for name, of in _fields(hint).items()}
    if get_origin(hint) is tuple:
        return [_written(item, get_args(hint)[0]) for item in value]
    if get_origin(hint) is dict:
        return {name: _written(item, get_args(hint)[1]) for name, item in value.items()}
    return _written(value, _some(hint))


def read(cls: Any, found: Any, *, at: str = "$") -> Any:
    """The instance of the class that a document is of. Raises `DamageError` with the path of what is not as it says."""
    if cls is Any:
        return found
    if is_dataclass(cls):
        known = _fields(cls)
        if type(found) is not dict or list(found) != list(known):
            raise DamageError(f"{at}: its fields are not {', '.join(known)}")
        return cls(**{name: read(of, found[name], at=f"{at}.{name}") for name, of in known.items()})  # type: ignore[operator]
    if cls in _PLAIN:
        _check(type(found) is cls, at, cls.__name__)
        return found
    if get_origin(cls) is tuple:
        _check(type(found) is list, at, "list")
        return tuple(read(get_args(cls)[0], item, at=f"{at}[{number}]") for number, item in enumerate(found))
    if get_origin(cls) is dict:
        _check(type(found) is dict and all(type(name) is str for name in found), at, "dict with text as keys")
        return {name: read(get_args(cls)[1], item, at=f"{at}.{name}") for name, item in found.items()}
    return None if found is None else read(_some(cls), found, at=at)


def _check(fits: bool, at: str, wanted: str) -> None:  # noqa: FBT001 - what is checked
    if not fits:
        raise DamageError(f"{at}: is not a {wanted}")


def schema(cls: Any) -> dict[str, Any]:
    """The JSON Schema of the documents of a class, as the json codec writes them; descriptions are from docstrings."""
    if cls is Any:
        return {"$ref": "#/$defs/value"}
    if is_dataclass(cls):
        known = _fields(cls)
        return {
            "type": "object",
            "description": " ".join((cls.__doc__ or "").split()),
            "properties": {name: schema(of) for name, of in known.items()},
            "required": list(known),
            "additionalProperties": False,
        }
    if cls in _PLAIN:
        return {"type": _PLAIN[cls]}
    if get_origin(cls) is tuple:
        return {"type": "array", "items": schema(get_args(cls)[0])}
    if get_origin(cls) is dict:
        return {"type": "object", "additionalProperties": schema(get_args(cls)[1])}
    return {"anyOf": [schema(_some(cls)), {"type": "null"}]}


def _fields(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def _some(hint: Any) -> Any:
    """What `X | None` is beside None."""
    found = [of for of in get_args(hint) if of is not types.NoneType]
    if not isinstance(hint, types.UnionType) or len(found) != 1:
        raise TypeError(f"no document holds a {hint}")
    return found[0]
