"""Plain trees as strict JSON, ASCII only, that any parser reads without loss of what is plain.

An object with one member whose name begins with `$` is a tag: `{"$tuple": [1, 2]}`. A dict of the user's that looks so
is written inside `{"$dict": …}`.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from typing import Any, Final

from perdure import limits
from perdure.errors import DamageError, FormatNewerError
from perdure.values import kinds
from perdure.values.wire import CLASS, ENCODED, INT_MAX, INT_MIN, Tagged, is_clean

_SAFE_INT_MAX: Final = (1 << 53) - 1
"""Beyond it JSON parsers round integers to floats."""

_INT: Final = kinds.BY_NAME["int"]
_HEX: Final = re.compile(r"-?0x[0-9a-f]+")


def dumps(tree: Any) -> bytes:
    """The JSON of a plain tree, equal for equal trees."""
    return json.dumps(_jsonable(tree), allow_nan=False, separators=(",", ":")).encode("ascii")


def loads(data: bytes) -> Any:
    """The plain tree. Raises DamageError or FormatNewerError; runs and imports nothing that the text names."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") > limits.ENCODED_NODES_MAX:
        raise DamageError(f"not a stored value: more than {limits.ENCODED_NODES_MAX} values in one")
    try:
        return _tree(json.loads(data.decode("ascii"), object_pairs_hook=_unique, parse_constant=_constant))
    except ValueError as error:
        raise DamageError(f"not a stored value: {error}") from error


def tree_of(shown: Any) -> Any:
    """The plain tree of JSON that is parsed already; objects that look tagged and have no tag of ours stay objects."""
    try:
        return _tree(shown)
    except FormatNewerError:
        if type(shown) is dict:
            return {key: tree_of(item) for key, item in shown.items()}
        return [tree_of(item) for item in shown]


def _jsonable(tree: Any) -> Any:
    cls = type(tree)
    if cls is list:
        items = []
        for item in tree:
            items.append(_jsonable(item))  # noqa: PERF401  (a comprehension takes another frame of the stack)
        return items
    if cls is dict:
        fields = {}
        for key, item in tree.items():
            fields[key] = _jsonable(item)
        return {"$dict": fields} if _looks_tagged(fields) else fields
    return _tag(tree) if cls is Tagged else _leaf(tree, cls)


def _leaf(tree: Any, cls: type) -> Any:
    if cls is int and abs(tree) > _SAFE_INT_MAX:
        return {"$int": hex(tree)}
    if cls is bytes:
        return {"$bytes": base64.b64encode(tree).decode()}
    if cls is float and not math.isfinite(tree):
        return {"$float": struct.pack(">d", tree).hex()}
    return tree


def _looks_tagged(items: dict[str, Any]) -> bool:
    return len(items) == 1 and next(iter(items)).startswith("$")


def _tag(node: Tagged) -> dict[str, Any]:
    if node.number == CLASS:
        tag, version, body = node.tree
        return {"$class": [tag, version, _jsonable(body)]}
    if node.number == ENCODED:
        return {"$value": _jsonable(node.tree)}
    if node.number == _INT.number:
        return {"$int": hex(_INT.load(node.tree))}
    return {f"${kinds.BY_NUMBER[node.number].name}": _jsonable(node.tree)}


def _constant(name: str) -> Any:
    raise DamageError(f"not a stored value: {name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    items = dict(pairs)
    if len(items) != len(pairs) or not is_clean("".join(items)):
        raise DamageError("not a stored value: a JSON object with a name twice, or with half a character in a name")
    return items


def _tree(node: Any) -> Any:
    """The plain tree that parsed JSON stands for."""
    cls = type(node)
    if cls is list:
        items = []
        for item in node:
            items.append(_tree(item))  # noqa: PERF401  (a comprehension takes another frame of the stack)
        return items
    if cls is dict:
        return _untag(node) if _looks_tagged(node) else {key: _tree(item) for key, item in node.items()}
    if cls is int and abs(node) > _SAFE_INT_MAX:
        raise DamageError("not a stored value: an integer that JSON does not hold exactly")
    if cls is str and not is_clean(node):
        raise DamageError("not a stored value: a string with half a character")
    return node


def _untag(node: dict[str, Any]) -> Any:
    ((name, body),) = node.items()
    if name in _LEAVES:
        return _leaf_of(name, body)
    if name == "$class":
        tag, version, body = _class_parts(body)
        return Tagged(CLASS, [tag, version, _tree(body)])
    if name == "$value":
        return Tagged(ENCODED, _tree(body))
    if name == "$dict" and type(body) is dict:
        return {key: _tree(item) for key, item in body.items()}
    kind = kinds.BY_NAME.get(name[1:])
    if kind is None:
        raise FormatNewerError(f"values of kind {name[1:61]!r} are not known to this version of perdure")
    return Tagged(kind.number, _tree(body))


def _class_parts(body: Any) -> tuple[str, int, Any]:
    if type(body) is list and [type(part) for part in body[:-1]] == [str, int]:
        return body[0], body[1], body[2]
    raise DamageError("not a stored class: it does not begin with a tag and a version")


def _leaf_of(name: str, body: Any) -> Any:
    try:
        return _LEAVES[name](body)
    except (ValueError, TypeError, struct.error) as error:
        raise DamageError(f"not a stored value: {name[1:]} {body!r:.60}") from error


def _read_int(body: Any) -> Any:
    if not _HEX.fullmatch(body):
        raise DamageError(f"not a stored integer: {body[:60]!r}")
    value = int(body, 16)
    return value if INT_MIN <= value <= INT_MAX else Tagged(_INT.number, _INT.dump(value))


def _read_bytes(body: Any) -> bytes:
    return base64.b64decode(body, validate=True)


def _read_float(body: Any) -> float:
    (value,) = struct.unpack(">d", bytes.fromhex(body))
    return float(value)


_LEAVES: Final = {"$int": _read_int, "$bytes": _read_bytes, "$float": _read_float}
