"""The plain tree, which every codec can write, and its MessagePack form.

A plain tree is None, bool, int of 64 bits, float, str without surrogates, bytes, list, dict with such strings as keys,
or `Tagged`: a number that says the kind, and the tree that it is made of. Nothing here knows what the kinds mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import ormsgpack

from perdure import clock, limits
from perdure.errors import DamageError

CLASS: Final = 1
"""The kind of a registered class: its tree is [tag, version, body]; the body stays unread where the tag is unknown."""

ENCODED: Final = 0
"""A value that is encoded on its own inside of a body: in MessagePack plain bytes, elsewhere its tree."""

STRICT: Final = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
"""Refuse whatever MessagePack cannot hold exactly, instead of flattening it."""

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 64) - 1
"""The integers that a plain tree holds as they are."""

_GUARD: Final = clock.new_uuid().bytes
"""What must follow a value that is read, since ormsgpack ignores bytes after its end. Drawn anew in each process, so
that no stored bytes can hold it."""

_GUARD_BYTES: Final = b"\xc4\x10" + _GUARD
_FIXSTR, _STR8 = 0xA0, 0xD9
_INT_BYTES: Final = {0xCC: 2, 0xCD: 3, 0xCE: 5}

Hook = Callable[[int, bytes], Any]


def is_clean(text: str) -> bool:
    """Whether a plain tree holds this str as it is: it has no surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Tagged:
    """A node of a plain tree that stands for a value of the kind `number`."""

    __slots__ = ("number", "tree")

    def __init__(self, number: int, tree: Any) -> None:
        self.number, self.tree = number, tree


def read(data: bytes, hook: Hook) -> Any:
    """The one MessagePack value that fills `data`; `hook(number, payload)` is called for each extension in it.

    Raises DamageError for anything else. ormsgpack forgets what a hook raises: a hook keeps its own errors.
    """
    try:
        value, guard = ormsgpack.unpackb(b"\x92" + data + _GUARD_BYTES, ext_hook=hook)
    except (ValueError, TypeError) as error:
        raise DamageError(f"not a stored value: {error}") from error
    if type(guard) is not bytes or guard != _GUARD:
        raise DamageError("not a stored value: bytes follow its end")
    return value


def pack_tree(tree: Any) -> bytes:
    """A plain tree as MessagePack. The tree must belong to the caller alone: Python runs in between."""
    return ormsgpack.packb(tree, default=_extension, option=STRICT)


def _extension(node: Any) -> ormsgpack.Ext | bytes:
    if type(node) is not Tagged:
        raise TypeError(f"not in a plain tree: {type(node)}")
    if node.number == ENCODED:
        return pack_tree(node.tree)
    payload = pack_class(*node.tree) if node.number == CLASS else pack_tree(node.tree)
    return ormsgpack.Ext(node.number, payload)


def unpack_tree(data: bytes) -> Any:
    """The plain tree that `data` holds, with nothing in it rebuilt. Raises DamageError.

    Extensions are opened one after another and not inside each other, so that hostile nesting costs no native stack.
    """
    pending: list[tuple[Tagged, int]] = []
    level = 0

    def keep(number: int, payload: bytes) -> Tagged:
        node = Tagged(number, payload)
        pending.append((node, level + 1))
        return node

    tree = read(data, keep)
    while pending:
        node, level = pending.pop()
        if level > limits.DEPTH_MAX:
            raise DamageError(f"not a stored value: nested deeper than {limits.DEPTH_MAX} levels")
        node.tree = _open_class(node.tree, keep) if node.number == CLASS else read(node.tree, keep)
    return tree


def _open_class(payload: bytes, keep: Hook) -> list[Any]:
    tag, version, body = split_class(payload)
    return [tag, version, read(body, keep)]


class Logged(NamedTuple):
    """A record for programs that read by a schema; `body` is a plain tree."""

    session: str
    seq: int
    epoch: int
    kind: str
    time_us: int
    chain: bytes
    body: Any


class Raw:
    """A body that is MessagePack already, to be written as it is."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def pack_class(tag: str, version: int, body: Any) -> bytes:
    """A class's payload: an array of tag, version and body."""
    return class_head(tag, version) + (body.data if type(body) is Raw else pack_tree(body))


def class_head(tag: str, version: int) -> bytes:
    """How the payload of a class begins; its body follows."""
    return b"\x93" + ormsgpack.packb(tag) + ormsgpack.packb(version)


def split_class(payload: bytes) -> tuple[str, int, bytes]:
    """Tag, version and unread body of a class's payload. Raises DamageError."""
    try:
        end = _tag_end(payload)
        after = end + _INT_BYTES.get(payload[end], 1)
        tag, version = ormsgpack.unpackb(payload[1:end]), ormsgpack.unpackb(payload[end:after])
    except (IndexError, ValueError) as error:
        raise DamageError(f"not a stored class: {error}") from error
    if type(tag) is not str or type(version) is not int or payload[:after] != class_head(tag, version):
        raise DamageError("not a stored class: it does not begin with a tag and a version")
    return tag, version, payload[after:]


def _tag_end(payload: bytes) -> int:
    lead = payload[1]
    return 3 + payload[2] if lead == _STR8 else 2 + (lead - _FIXSTR)
