"""Objects of a JSON file as frozen dataclasses, whose annotations say what the value of each key must be.

What is read is checked to the last value, and the error names its path. Keys that no field names are kept in `more`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from perdure.team import content
from perdure.values.describe import describe

P = TypeVar("P", bound="Part")


class MisformedError(Exception):
    """What is wrong with a value, and where: a path as in `$.env.roles.Writer.rc.state`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


@dataclass(frozen=True, slots=True)
class Kind:
    """How a value is read, which checks it, and how it is written; in an annotation it goes before the type."""

    read: Callable[[Any, str], Any]
    write: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True, slots=True)
class Key:
    """In an annotation: how a key is called, that None is told by leaving it out, that it must always be there."""

    name: str = ""
    omit: bool = False
    needed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One object of a file. A field that has no default must be there; `more` has the keys that are not known here."""

    more: dict[str, Any] = dataclasses.field(default_factory=dict)

    def check(self, path: str) -> None:
        """Raises MisformedError for values that contradict one another."""


def read_part(part: type[P], value: Any, path: str = "$") -> P:
    """The part that a JSON object is. Raises MisformedError."""
    rest, found = dict(OBJECT.read(value, path)), {}
    for field in _fields(part):
        if field.key in rest:
            found[field.name] = field.kind.read(rest.pop(field.key), f"{path}.{field.key}")
        elif field.needed:
            raise MisformedError(path, f"the key {field.key!r} is missing")
    ANY.read(rest, path)
    made = part(**found, more=rest)
    made.check(path)
    return made


def plain(part: Part) -> dict[str, Any]:
    """The JSON object of a part. Unchecked: read it to check it."""
    told = {}
    for field in _fields(type(part)):
        value = getattr(part, field.name)
        if value is not None or not field.omit:
            told[field.key] = field.kind.write(value)
    return {**told, **part.more}


class _Field(NamedTuple):
    name: str
    key: str
    kind: Kind
    needed: bool
    omit: bool


_known: Final[dict[type[Part], list[_Field]]] = {}


def _fields(part: type[Part]) -> list[_Field]:
    if part not in _known:
        _known[part] = _fields_of(part)
    return _known[part]


def _fields_of(part: type[Part]) -> list[_Field]:
    hints = get_type_hints(part, include_extras=True)
    found = []
    for field in dataclasses.fields(part):
        if field.name == "more":
            continue
        told = next((one for one in get_args(hints[field.name]) if isinstance(one, Key)), Key())
        bare = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        kind = _kind(hints[field.name])
        found.append(_Field(field.name, told.name or field.name, kind, bare or told.needed, told.omit))
    return found


def _kind(hint: Any) -> Kind:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return next((one for one in args if isinstance(one, Kind)), None) or _kind(args[0])
    if origin is list:
        return _list_of(_kind(args[0]))
    if origin is dict:
        return _dict_of(_kind(args[1]))
    if origin in (Union, UnionType):
        return _maybe(_kind(next(arg for arg in args if arg is not NoneType)))
    if origin is Literal:
        return _one_of(args)
    return _PLAIN[hint] if hint in _PLAIN else Kind(lambda value, path: read_part(hint, value, path), plain)


def text_of(part: type[Part]) -> Kind:
    """A part as JSON text in a text."""

    def read(value: Any, path: str) -> Part:
        try:
            told = parsed(TEXT.read(value, path))
        except ValueError as error:
            raise MisformedError(path, f"its text is no JSON: {error}") from None
        return read_part(part, told, path)

    return Kind(read, lambda value: json.dumps(plain(value), ensure_ascii=False, separators=(",", ":")))


def _list_of(item: Kind) -> Kind:
    def read(value: Any, path: str) -> list[Any]:
        return [item.read(one, f"{path}[{at}]") for at, one in enumerate(_LIST.read(value, path))]

    return Kind(read, lambda value: [item.write(one) for one in value])


def _dict_of(item: Kind) -> Kind:
    def read(value: Any, path: str) -> dict[str, Any]:
        return {name: item.read(one, f"{path}.{name}") for name, one in OBJECT.read(value, path).items()}

    return Kind(read, lambda value: {name: item.write(one) for name, one in value.items()})


def _maybe(item: Kind) -> Kind:
    return Kind(
        lambda value, path: None if value is None else item.read(value, path),
        lambda value: None if value is None else item.write(value),
    )


def _one_of(words: tuple[str, ...]) -> Kind:
    def read(value: Any, path: str) -> Any:
        if value not in words:
            raise MisformedError(path, f"one of {', '.join(words)} is expected, not {describe(value)}")
        return value

    return Kind(read)


def _exactly(word: str, *types: type) -> Kind:
    def read(value: Any, path: str) -> Any:
        if type(value) not in types:
            raise MisformedError(path, f"{word} is expected, not {describe(value)}")
        return value

    return Kind(read)


def _number(value: Any, path: str) -> Any:
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
        raise MisformedError(path, f"a number is expected, not {describe(value)}")
    return value


def _count(value: Any, path: str) -> Any:
    if type(value) is not int or value < 0:
        raise MisformedError(path, f"a count is expected, not {describe(value)}")
    return value


def _any(value: Any, path: str) -> Any:
    content.check_plain(value, path, MisformedError)
    return value


TEXT: Final = _exactly("a text", str)
OBJECT: Final = _exactly("an object", dict)
ANY: Final = Kind(_any)
COUNT: Final = Kind(_count)
_LIST: Final = _exactly("a list", list)
TEXTS: Final = _list_of(TEXT)

_PLAIN: Final[dict[Any, Kind]] = {
    str: TEXT,
    bool: _exactly("true or false", bool),
    int: _exactly("a whole number", int),
    float: Kind(_number),
    Any: ANY,
}


def parsed(text: str) -> Any:
    """The value of a JSON text. Raises ValueError also for what Python reads and JSON has not, and for a double key."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {double!r:.80} stands twice in one object")
    return made
