"""What a text means where a value of some type is wanted. It must not know which key it is of, but for its unit.

Numbers are decimal, `true` and `false` are the only words for yes and no, `null` and `~` are nothing; text is taken as
it is written. Seconds and bytes may have a unit.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from perdure.ops.config.reading import Branch, Items, Node, Text
from perdure.ops.units import seconds_of, size_of
from perdure.values import Secret
from perdure.values.secret import PREFIX

NOTHING: Final = ("", "~", "null")
_INT: Final = re.compile(r"[+-]?(0|[1-9][0-9_]*)")
_FLOAT: Final = re.compile(r"[+-]?(0|[1-9][0-9_]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NUMBERS: Final[dict[Any, re.Pattern[str]]] = {int: _INT, float: _FLOAT}
_YES_OR_NO: Final = {"true": True, "false": False}


class WrongError(ValueError):
    """What was written is no such value; `where` is its place."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(what)
        self.where = where


def is_nothing(node: Node) -> bool:
    """Whether it says nothing: `key:`, `key: null`."""
    return isinstance(node, Text) and node.plain and node.text in NOTHING


def value_of(node: Node, hint: Any, name: str) -> Any:
    """The value of this type that is written here, in the unit that the name of its key tells. Raises `WrongError`."""
    options = _options(hint)
    if is_nothing(node):
        if type(None) in options:
            return None
        raise WrongError(f"needs a value: {wanted(hint, name)}", node.where)
    for option in options:
        try:
            return _as(node, option, name)
        except _NotThisError:
            continue
    raise WrongError(f"{_shown(node)} is not {wanted(hint, name)}{_hint(node, options)}", node.where)


class _NotThisError(Exception):
    pass


def _options(hint: Any) -> tuple[Any, ...]:
    """The types that may be there, those first that fewest texts fit."""
    found = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    order = [type(None), bool, int, float]
    return tuple(sorted(found, key=lambda one: order.index(one) if one in order else len(order) + (one is str)))


def _as(node: Node, option: Any, name: str) -> Any:
    origin = get_origin(option) or option
    if isinstance(node, Text):
        return _scalar(node, option, origin, name)
    if isinstance(node, Items) and _is_sequence(origin):
        items = get_args(option)
        return tuple(value_of(one, items[0] if items else str, name) for one in node.items)
    if isinstance(node, Branch) and _is_mapping(origin):
        values = get_args(option)
        return {key: value_of(one, values[1] if values else str, name) for key, one in node.items.items()}
    if isinstance(node, Branch) and dataclasses.is_dataclass(option):
        return {key: value_of(one, get_type_hints(option).get(key, str), key) for key, one in node.items.items()}
    raise _NotThisError


def _is_sequence(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Sequence) and origin is not str


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _scalar(node: Text, option: Any, origin: Any, name: str) -> Any:
    if origin is Literal and node.text in get_args(option):
        return node.text
    if option in (str, Any):
        return node.text
    if option is Path:
        return Path(node.text)
    if option is Secret:
        return Secret(node.text) if node.text.startswith(PREFIX) else Secret(value=node.text)
    return _number(node.text, option, name, plain=node.plain)


def _number(text: str, option: Any, name: str, *, plain: bool) -> Any:
    """A number, also with its unit, or yes or no."""
    try:
        if plain and option is bool and text in _YES_OR_NO:
            return _YES_OR_NO[text]
        if plain and option in _NUMBERS and _NUMBERS[option].fullmatch(text):
            return option(text)
        if option in (int, float) and is_seconds(name):
            return option(seconds_of(text))
        if option is int and is_bytes(name):
            return size_of(text)
    except ValueError:
        raise _NotThisError from None
    raise _NotThisError


def is_seconds(name: str) -> bool:
    """Whether values of this name are seconds."""
    return name.endswith(("_s", "_s_max", "_s_min"))


def is_bytes(name: str) -> bool:
    """Whether values of this name are bytes."""
    return "bytes" in name.split("_")


def wanted(hint: Any, name: str) -> str:
    """What a value of this type is, in words."""
    return " or ".join(_wanted(option, name) for option in _options(hint) if option is not type(None))


def _wanted(option: Any, name: str) -> str:
    if get_origin(option) is Literal:
        return "one of " + ", ".join(map(str, get_args(option)))
    if option in (int, float) and is_seconds(name):
        return "a number of seconds, such as 30, 15min or 12h"
    if option is int and is_bytes(name):
        return "a number of bytes, such as 65536, 800KB or 2GB"
    words: dict[Any, str] = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "a text",
        Any: "a text",
    }
    words |= {Path: "a path", Secret: "secret://env/NAME or secret://file/PATH"}
    origin = get_origin(option) or option
    if option not in words and _is_sequence(origin):
        return "a list"
    return words.get(option, "a mapping")


def json_types(hint: Any, name: str) -> list[str]:
    """What a value of this type may be in JSON."""
    known: dict[Any, str] = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string"}
    known |= {Any: "string", Path: "string", Secret: "string"}
    found = {known.get(option) or _json_type(option) for option in _options(hint)}
    has_unit = (is_seconds(name) or is_bytes(name)) and not {"integer", "number"}.isdisjoint(found)
    return sorted(found | ({"string"} if has_unit else set()))


def _json_type(option: Any) -> str:
    origin = get_origin(option) or option
    if origin is Literal:
        return "string"
    return "array" if _is_sequence(origin) else "object"


def _shown(node: Node) -> str:
    if isinstance(node, Text):
        return repr(node.text)
    return "a list" if isinstance(node, Items) else "a mapping"


def _hint(node: Node, options: tuple[Any, ...]) -> str:
    if not isinstance(node, Text):
        return ""
    if node.text.lower() in ("yes", "no", "on", "off", "true", "false") and bool in options:
        return "; write true or false"
    if {int, float} & set(options) and re.fullmatch(r"[+-]?0[0-9_]+", node.text):
        return "; a number does not begin with 0"
    if {int, float} & set(options) and not node.plain:
        return "; a number stands without quotation marks"
    return ""
