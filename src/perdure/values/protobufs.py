"""Plain trees in Protocol Buffers, by the schema in `schemas/perdure.proto`.

A parser of Protocol Buffers refuses messages that are nested 100 deep; so deep trees are cut into serialised pieces.
What is read is serialised again and must be the same bytes: no unknown field, no field twice, no other order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError

from perdure.errors import DamageError, FormatNewerError
from perdure.values.schemas import perdure_pb2 as schema
from perdure.values.wire import CLASS, ENCODED, Logged, Tagged

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


def log(records: Iterable[Logged]) -> Iterator[bytes]:
    """A serialised Log, record by record."""
    for one in records:
        message = schema.Log()
        record = message.records.add(
            session=one.session, seq=one.seq, epoch=one.epoch, kind=one.kind, time_us=one.time_us, chain=one.chain
        )
        _fill(record.body, one.body, 1)
        yield message.SerializeToString()


def _parsed(data: bytes) -> schema.Value:
    try:
        message = schema.Value.FromString(data)
    except DecodeError as error:
        raise DamageError(f"not a stored value: {error}") from error
    if message.SerializeToString() != data:
        raise DamageError("not a stored value: it is not as this schema is written")
    return message


def _fill(message: schema.Value, tree: Any, level: int) -> None:
    cls = type(tree)
    if cls in _PUT:
        _PUT[cls](message, tree)
    elif level % _PIECE_LEVELS == 0:
        piece = schema.Value()
        _fill(piece, tree, level + 1)
        message.deep = piece.SerializeToString()
    elif cls is dict:
        message.dict.SetInParent()
        add = message.dict.entries.add
        for key, item in tree.items():
            entry = add()
            entry.key = key
            _fill(entry.value, item, level + 1)
    elif cls is list and not (tree and _FLOATS.issuperset(map(type, tree))):
        message.list.SetInParent()
        add_item = message.list.items.add
        for item in tree:
            _fill(add_item(), item, level + 1)
    elif cls is list:
        message.floats.items.extend(tree)
    else:
        inside, rest = _put_tagged(message, tree)
        _fill(inside, rest, level + 1)


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


def _put_tagged(message: schema.Value, node: Tagged) -> tuple[schema.Value, Any]:
    """What is still to be written of a tagged node, and where to."""
    if node.number == ENCODED:
        return message.encoded, node.tree
    if node.number == CLASS:
        message.instance.tag, message.instance.version, body = node.tree
        return message.instance.body, body
    message.tagged.kind = node.number
    return message.tagged.tree, node.tree


_PUT: Final[dict[type, Callable[[schema.Value, Any], None]]] = {
    type(None): _put_none,
    bool: _put_flag,
    int: _put_int,
    float: _put_float,
    str: _put_text,
    bytes: _put_data,
}


def _tree(message: schema.Value, level: int) -> Any:
    kind = message.WhichOneof("kind")
    if kind in _LEAVES:
        return getattr(message, kind) if kind != "none" else _take_none(message)
    if kind is None or (level % _PIECE_LEVELS == 0) != (kind == "deep"):
        raise DamageError("not a stored value: a value of no kind, or cut into pieces where it is not written so")
    if kind == "dict":
        fields = {}
        for entry in message.dict.entries:
            fields[entry.key] = _tree(entry.value, level + 1)
        return _whole(fields, len(message.dict.entries))
    if kind == "list":
        items = []
        for item in message.list.items:
            items.append(_tree(item, level + 1))  # noqa: PERF401  (a comprehension takes another frame of the stack)
        return items
    if kind == "floats":
        return list(message.floats.items)
    if kind == "deep":
        return _tree(_parsed(message.deep), level + 1)
    return _tagged(message, kind, _tree(_inside(message, kind), level + 1))


def _take_none(message: schema.Value) -> None:
    if not message.none:
        raise DamageError("not a stored value: a None that is false")


def _whole(fields: dict[str, Any], count: int) -> dict[str, Any]:
    if len(fields) != count:
        raise DamageError("not a stored value: a dict with a key twice")
    return fields


def _inside(message: schema.Value, kind: str) -> schema.Value:
    """The value that a tagged node is made of."""
    if kind == "encoded":
        return message.encoded
    return message.instance.body if kind == "instance" else message.tagged.tree


def _tagged(message: schema.Value, kind: str, tree: Any) -> Tagged:
    if kind == "encoded":
        return Tagged(ENCODED, tree)
    if kind == "instance":
        return Tagged(CLASS, [message.instance.tag, message.instance.version, tree])
    number = message.tagged.kind
    if number in (ENCODED, CLASS) or number > 127:
        raise FormatNewerError(f"values of kind {number} are not known to this version of perdure")
    return Tagged(number, tree)


_LEAVES: Final = frozenset({"none", "flag", "int", "uint", "float", "text", "data"})
