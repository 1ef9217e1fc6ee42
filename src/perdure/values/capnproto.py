"""Plain trees in Cap'n Proto, by the schema in `schemas/perdure.capnp`; and one field of a tree, the rest unread.

A message is read where it lies: what is not asked for is neither copied nor decoded. How much and how deep it may lead
is bounded by its own length, so that pointers to the same place again and again lead nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from struct import unpack_from
from typing import Any, Final

import capnp

from perdure.errors import DamageError, FormatNewerError
from perdure.values.wire import CLASS, ENCODED, Logged, Tagged

SCHEMA: Final = Path(__file__).parent / "schemas/perdure.capnp"

_WORD: Final = 8
_NESTING_MAX: Final = 1024
"""Pointers inside of pointers; a level of a tree takes up to three."""

_INT_MAX: Final = (1 << 63) - 1
_SEGMENTS_MAX: Final = 512
_FLOATS: Final = frozenset({float})

_schema: Final[Any] = capnp.load(str(SCHEMA))


def dumps(tree: Any) -> bytes:
    """The message of a plain tree, equal for equal trees."""
    message = _schema.Value.new_message()
    _fill(message, tree)
    return bytes(message.to_bytes())


def loads(data: bytes) -> Any:
    """The plain tree. Raises DamageError or FormatNewerError."""
    with _message(data) as value:
        return _tree(value)


def field(data: bytes, path: Sequence[str | int]) -> Any:
    """The plain tree of what is at `path`, keys of dicts and indexes of lists; nothing else is decoded.

    Raises KeyError or IndexError if there is nothing, DamageError as `loads`.
    """
    with _message(data) as found:
        for step in path:
            found = _step(found, step)  # noqa: PLW2901  (each step leads on from the one before)
        return _tree(found)


def log(records: Iterable[Logged]) -> Iterator[bytes]:
    """The message of a Log, in one piece."""
    every = list(records)
    message = _schema.Log.new_message()
    made = message.init("records", len(every))
    for at, one in enumerate(every):
        record = made[at]
        record.session, record.seq, record.epoch, record.kind = one.session, one.seq, one.epoch, one.kind
        record.timeUs, record.chain = one.time_us, one.chain
        _fill(record.init("body"), one.body)
    yield bytes(message.to_bytes())


def _step(value: Any, step: str | int) -> Any:
    kind = value.which()
    if kind == "dict":
        for entry in value.dict:
            if entry.key == step:
                return entry.value
        raise KeyError(step)
    if kind != "list" or type(step) is not int:
        raise KeyError(step)
    return value.list[step]


@contextmanager
def _message(data: bytes) -> Iterator[Any]:
    _check_segments(data)
    try:
        words = 4 * (len(data) // _WORD + 64)
        with _schema.Value.from_bytes(data, traversal_limit_in_words=words, nesting_limit=_NESTING_MAX) as value:
            yield value
    except (capnp.KjException, UnicodeDecodeError) as error:
        raise DamageError(f"not a stored value: {error!s:.200}") from error


def _check_segments(data: bytes) -> None:
    """Whether the table of segments speaks of exactly these bytes."""
    try:
        count = unpack_from("<I", data)[0] + 1
        sizes = unpack_from(f"<{count}I", data, 4) if count <= _SEGMENTS_MAX else ()
    except Exception as error:
        raise DamageError("not a stored value: its table of segments is cut off") from error
    table = (4 + 4 * count + _WORD - 1) // _WORD * _WORD
    if not sizes or table + _WORD * sum(sizes) != len(data):
        raise DamageError(f"not a stored value: its segments are not its {len(data)} bytes")


def _fill(message: Any, tree: Any) -> None:
    cls = type(tree)
    if cls in _PUT:
        _PUT[cls](message, tree)
    elif cls is dict:
        entries = message.init("dict", len(tree))
        for at, (key, item) in enumerate(tree.items()):
            entry = entries[at]
            entry.key = key
            _fill(entry.init("value"), item)
    elif cls is list and not (tree and _FLOATS.issuperset(map(type, tree))):
        items = message.init("list", len(tree))
        for at, item in enumerate(tree):
            _fill(items[at], item)
    elif cls is list:
        message.floats = tree
    else:
        inside, rest = _put_tagged(message, tree)
        _fill(inside, rest)


def _put_none(message: Any, _tree: None) -> None:
    message.none = None


def _put_flag(message: Any, tree: bool) -> None:  # noqa: FBT001  (it is the value)
    message.flag = tree


def _put_int(message: Any, tree: int) -> None:
    if tree > _INT_MAX:
        message.uint = tree
    else:
        message.int = tree


def _put_float(message: Any, tree: float) -> None:
    message.float = tree


def _put_text(message: Any, tree: str) -> None:
    message.text = tree


def _put_data(message: Any, tree: bytes) -> None:
    message.data = tree


def _put_tagged(message: Any, node: Tagged) -> tuple[Any, Any]:
    """What is still to be written of a tagged node, and where to."""
    if node.number == ENCODED:
        return message.init("encoded"), node.tree
    if node.number == CLASS:
        made = message.init("instance")
        made.tag, made.version, body = node.tree
        return made.init("body"), body
    made = message.init("tagged")
    made.kind = node.number
    return made.init("tree"), node.tree


_PUT: Final[dict[type, Callable[[Any, Any], None]]] = {
    type(None): _put_none,
    bool: _put_flag,
    int: _put_int,
    float: _put_float,
    str: _put_text,
    bytes: _put_data,
}


def _tree(value: Any) -> Any:
    kind = value.which()
    if kind in _LEAVES:
        return getattr(value, kind)
    if kind == "none":
        return None
    if kind == "dict":
        entries, fields = value.dict, {}
        for entry in entries:
            fields[entry.key] = _tree(entry.value)
        return _whole(fields, len(entries))
    if kind == "list":
        items = []
        for item in value.list:
            items.append(_tree(item))  # noqa: PERF401  (a comprehension takes another frame of the stack)
        return items
    if kind == "floats":
        return list(value.floats)
    number, head, inside = _tagged(value, kind)
    tree = _tree(inside)
    return Tagged(number, [*head, tree] if number == CLASS else tree)


def _whole(fields: dict[str, Any], count: int) -> dict[str, Any]:
    if len(fields) != count:
        raise DamageError("not a stored value: a dict with a key twice")
    return fields


def _tagged(value: Any, kind: str) -> tuple[int, list[Any], Any]:
    """Of a tagged node its kind, for a class tag and version, and the value that it is made of."""
    if kind == "encoded":
        return ENCODED, [], value.encoded
    if kind == "instance":
        found = value.instance
        return CLASS, [found.tag, found.version], found.body
    found = value.tagged
    if found.kind in (ENCODED, CLASS) or found.kind > 127:
        raise FormatNewerError(f"values of kind {found.kind} are not known to this version of perdure")
    return found.kind, [], found.tree


_LEAVES: Final = frozenset({"flag", "int", "uint", "float", "text", "data"})
