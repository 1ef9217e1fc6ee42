"""Plain trees in Protocol Buffers, by the schema in `schemas/perdure.proto`.

A parser of Protocol Buffers refuses messages that are nested 100 deep; so deep trees are cut into serialised pieces.
What is read is serialised again and must be the same bytes: no unknown field, no field twice, no other order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError

from perdure.errors import DamageError, FormatNewerError
from perdure.values.schemas import perdure_pb2 as schema
from perdure.values.wire import CLASS, ENCODED, Tagged

_PIECE_LEVELS: Final = 20
"""Levels of a tree in one piece: each takes up to three messages."""

_INT_MAX: Final = (1 << 63) - 1
_FLOATS: Final = frozenset({float})


def dumps(tree: Any) -> bytes:
    """The serialised Value of a plain tree, equal for equal trees."""
    message = schema.Value()
    _fill(message, tree, 1)
    return message.SerializeToString()


def loads(data: bytes) -> Any:
    """The plain tree. Raises DamageError or FormatNewerError."""
    message = _parsed(data)
    return _tree(message, 1)


def _parsed(data: bytes) -> schema.Value:
    try:
        message = schema.Value.FromString(data)
    except DecodeError as error:
        raise DamageError(f"not a stored value: {error}") from error
    if message.SerializeToString() != data:
        raise DamageError("not a stored value: it is not as this schema is written")
    return message


def _fill(message: schema.Value, tree: Any, level: int) -> None:
    put = _PUT.get(type(tree))
    if put is not None:
        put(message, tree)
    elif level % _PIECE_LEVELS == 0:
        piece = schema.Value()
        _fill(piece, tree, level + 1)
        message.deep = piece.SerializeToString()
    else:
        _PUT_INSIDE[type(tree)](message, tree, level + 1)


def _put_none(message: schema.Value, _tree: None) -> None:
    message.none = True


def _put_flag(message: schema.Value, tree: bool) -> None:  # noqa: FBT001  (it is the value)
    message.flag = tree


def _put_int(message: schema.Value, tree: int) -> None:
    if tree > _INT_MAX:
        message.uint = tree
    else:
        message.int = tree


def _put_float(message: schema.Value, tree: float) -> None:
    message.float = tree


def _put_text(message: schema.Value, tree: str) -> None:
    message.text = tree


def _put_data(message: schema.Value, tree: bytes) -> None:
    message.data = tree


def _put_list(message: schema.Value, tree: list[Any], level: int) -> None:
    if tree and _FLOATS.issuperset(map(type, tree)):
        message.floats.items.extend(tree)
        return
    message.list.SetInParent()
    add = message.list.items.add
    for item in tree:
        _fill(add(), item, level)


def _put_dict(message: schema.Value, tree: dict[str, Any], level: int) -> None:
    message.dict.SetInParent()
    add = message.dict.entries.add
    for key, item in tree.items():
        entry = add()
        entry.key = key
        _fill(entry.value, item, level)


def _put_tagged(message: schema.Value, node: Tagged, level: int) -> None:
    if node.number == ENCODED:
        _fill(message.encoded, node.tree, level)
    elif node.number == CLASS:
        message.instance.tag, message.instance.version, body = node.tree
        _fill(message.instance.body, body, level)
    else:
        message.tagged.kind = node.number
        _fill(message.tagged.tree, node.tree, level)


_PUT: Final[dict[type, Callable[[schema.Value, Any], None]]] = {
    type(None): _put_none,
    bool: _put_flag,
    int: _put_int,
    float: _put_float,
    str: _put_text,
    bytes: _put_data,
}
_PUT_INSIDE: Final[dict[type, Callable[[schema.Value, Any, int], None]]] = {
    list: _put_list,
    dict: _put_dict,
    Tagged: _put_tagged,
}


def _tree(message: schema.Value, level: int) -> Any:
    kind = message.WhichOneof("kind")
    if kind is None:
        raise DamageError("not a stored value: a value of no kind")
    if kind in _LEAVES:
        return getattr(message, kind)
    if kind == "none":
        return _take_none(message)
    if (level % _PIECE_LEVELS == 0) != (kind == "deep"):
        raise DamageError("not a stored value: cut into pieces in other places than it is written")
    return _INSIDE[kind](message, level + 1)


def _take_none(message: schema.Value) -> None:
    if not message.none:
        raise DamageError("not a stored value: a None that is false")


def _take_list(message: schema.Value, level: int) -> list[Any]:
    items = []
    for item in message.list.items:
        items.append(_tree(item, level))  # noqa: PERF401  (a comprehension takes another frame of the stack)
    return items


def _take_dict(message: schema.Value, level: int) -> dict[str, Any]:
    fields = {}
    for entry in message.dict.entries:
        fields[entry.key] = _tree(entry.value, level)
    if len(fields) != len(message.dict.entries):
        raise DamageError("not a stored value: a dict with a key twice")
    return fields


def _take_tagged(message: schema.Value, level: int) -> Tagged:
    kind = message.tagged.kind
    if kind in (ENCODED, CLASS) or kind > 127:
        raise FormatNewerError(f"values of kind {kind} are not known to this version of perdure")
    return Tagged(kind, _tree(message.tagged.tree, level))


def _take_instance(message: schema.Value, level: int) -> Tagged:
    found = message.instance
    return Tagged(CLASS, [found.tag, found.version, _tree(found.body, level)])


_LEAVES: Final = frozenset({"flag", "int", "uint", "float", "text", "data"})
_INSIDE: Final[dict[str, Callable[[schema.Value, int], Any]]] = {
    "list": _take_list,
    "dict": _take_dict,
    "tagged": _take_tagged,
    "instance": _take_instance,
    "floats": lambda message, _: list(message.floats.items),
    "encoded": lambda message, level: Tagged(ENCODED, _tree(message.encoded, level)),
    "deep": lambda message, level: _tree(_parsed(message.deep), level),
}
