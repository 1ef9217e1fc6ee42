"""The types of the fields of a model made at run time, as text: what MetaGPT writes, read without evaluating it.

field   = "(" type "," ("Ellipsis" | "None") ")"
type    = one ("|" one)*
one     = "<class '" name "'>" | name ["[" type ("," type)* "]"]
name    = str | int | float | bool | None | NoneType | object | Any | list | dict | Optional | Union, or List, Dict;
each may have "typing." before it
"""

from __future__ import annotations

import functools
import operator
import re
from types import EllipsisType, NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from perdure import limits
from perdure.errors import TagError

_TOKEN: Final = re.compile(r"\s*(<class '[\w.]*'>|[\w.]+|[\[\](),|])")

_PLAIN: Final[dict[str, Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "None": None,
    "NoneType": None,
    "object": Any,
    "Any": Any,
    "list": list,
    "List": list,
    "dict": dict,
    "Dict": dict,
}

_WRITTEN: Final = {str: "str", int: "int", float: "float", bool: "bool", list: "list", dict: "dict", NoneType: "None"}

Field = tuple[Any, EllipsisType | None]
"""A type, and `...` for a field that must be given or the default None."""


def parse(text: str) -> Field:
    """The type and default that the text of a field stands for. Raises TagError, which names the text."""
    try:
        reading = _Reading(text)
        field = reading.field()
        reading.end()
    except _NotOneError as error:
        raise TagError(
            f"the type {text!r:.200} is none that a field can have: {error}. There are str, int, float, bool, list, "
            "dict, Optional, Union and Any, one in another"
        ) from None
    return field


def write(kind: Any, default: EllipsisType | None = ...) -> str:
    """The text of a field, which `parse` reads back and MetaGPT, too. Raises TagError for a type that has none."""
    told = "<class 'str'>" if kind is str else _type(kind, 1)
    return f"({told}, {'None' if default is None else 'Ellipsis'})"


def _type(kind: Any, depth: int) -> str:
    if kind is Any or kind is object:
        return "object"
    if kind is None or kind in _WRITTEN:
        return _WRITTEN[kind or NoneType]
    origin, args = get_origin(kind), get_args(kind)
    if depth > limits.TYPE_DEPTH_MAX or origin not in (list, dict, Union, UnionType):
        raise TagError(
            f"a model made at run time cannot keep a field of type {kind!r:.100}: it has str, int, float, bool, list, "
            "dict, Optional and Any. Declare the model as a class in a module, or make the field one of these"
        )
    parts = [_type(arg, depth + 1) for arg in args]
    return f"{origin.__name__}[{', '.join(parts)}]" if origin in (list, dict) else " | ".join(parts)


class _NotOneError(Exception):
    """What is wrong with a text."""


class _Reading:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise _NotOneError(f"{text[at : at + 20]!r} is not understood")
            self._tokens.append(found[1])
            at = found.end()
        self._tokens.reverse()

    def field(self) -> Field:
        self._expect("(")
        kind = self._union(1)
        self._expect(",")
        default = self._next()
        if default not in ("Ellipsis", "None"):
            raise _NotOneError(f"its default is {default!r:.40}, and can be Ellipsis or None")
        self._expect(")")
        return kind, None if default == "None" else ...

    def end(self) -> None:
        if self._tokens:
            raise _NotOneError(f"{self._tokens[-1]!r:.40} is left over")

    def _union(self, depth: int) -> Any:
        kinds = [self._one(depth)]
        while self._peek() == "|":
            self._next()
            kinds.append(self._one(depth))
        return _either(kinds)

    def _one(self, depth: int) -> Any:
        if depth > limits.TYPE_DEPTH_MAX:
            raise _NotOneError(f"it is nested more than {limits.TYPE_DEPTH_MAX} deep")
        name = self._next()
        if name.startswith("<"):
            return self._plain(name.removeprefix("<class '").removesuffix("'>"))
        name = name.removeprefix("typing.")
        args = self._arguments(depth) if self._peek() == "[" else None
        if args is None:
            return self._plain(name)
        return _with(name, args)

    def _arguments(self, depth: int) -> list[Any]:
        self._expect("[")
        args = [self._union(depth + 1)]
        while self._peek() == ",":
            self._next()
            args.append(self._union(depth + 1))
        self._expect("]")
        return args

    def _plain(self, name: str) -> Any:
        if name not in _PLAIN:
            raise _NotOneError(f"{name!r:.60} is no type of these")
        return _PLAIN[name]

    def _peek(self) -> str:
        return self._tokens[-1] if self._tokens else ""

    def _next(self) -> str:
        if not self._tokens:
            raise _NotOneError("it ends early")
        return self._tokens.pop()

    def _expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            raise _NotOneError(f"{found!r:.40} stands where {token!r} must")


def _with(name: str, args: list[Any]) -> Any:
    match name, args:
        case "list" | "List", [item]:
            return list[item]  # type: ignore[valid-type]
        case "dict" | "Dict", [key, item]:
            return dict[key, item]  # type: ignore[valid-type]
        case "Optional", [item]:
            return _either([item, None])
        case "Union", _:
            return _either(args)
    raise _NotOneError(f"{name!r:.60} does not take {len(args)} types")


def _either(kinds: list[Any]) -> Any:
    if len(kinds) == 1:
        return kinds[0]
    return functools.reduce(operator.or_, (NoneType if kind is None else kind for kind in kinds))
