"""Secrets in encoded values: whether there are any, where, and the same value with masks in their place.

Nearly every value has none, which is found out from its bytes at once. Only where something may be is the value taken
apart. It decides nothing: what is done about a secret is for whoever asks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from perdure.values import tokens
from perdure.values.path import key_step
from perdure.values.texts import Texts
from perdure.values.wire import pack_tree, unpack_tree

_NAME_TABLE: Final = bytes(
    0
    if code in (*range(0xA6, 0xC0), *range(0xC4, 0xCA), *range(0xD9, 0xDC))
    else ord(chr(code).lower()) or 1
    if code < 128
    else code
    for code in range(256)
)
"""Small letters; what begins a text, bytes or an extension in MessagePack becomes 0, and nothing else does: an array
may be zeros for megabytes, each of which would be looked at."""

_JOINS: Final = b"[-_. ]*"
_NAMED: Final = re.compile(
    b"\0%b(?:%b)" % (_JOINS, b"|".join(_JOINS.join(bytes([code]) for code in end[::-1]) for end in tokens.ENDS))
)
"""A beginning and the end of a name before it, read from the end on: so nothing is looked at but beginnings."""


@dataclass(slots=True)
class Found:
    """Secrets in one value: the paths to them, and the value's bytes with masks in their place."""

    paths: list[str] = field(default_factory=list)
    data: bytes = b""


def search(data: bytes, *, at: str = "$", name: str = "", mask: str = tokens.MASK) -> Found | None:
    """The secrets in an encoded value; None if there are none. `name` is that of the field whose value it is.

    About 8 us for 3 KB without any.
    """
    if not may_have(data, name):
        return None
    walk = _walk(mask)
    tree = walk.node(unpack_tree(data), at, name)
    return Found(walk.paths, pack_tree(tree)) if walk.paths else None


def may_have(data: bytes, name: str = "") -> bool:
    """Whether these bytes may hold a secret: never False if they do."""
    return tokens.may_have_token(data) or _may_be_named(data, name)


def search_delta(data: bytes, *, mask: str = tokens.MASK) -> Found | None:
    """The secrets in an encoded delta; the paths are those in the state."""
    if not may_have(data):
        return None
    walk, made = _walk(mask), []
    for kind, path, *more in unpack_tree(data):
        at = "$" + "".join(map(_step, path))
        op = [kind, walk.node(path, f"{at}{{key}}"), *more]
        if more:
            op[-1] = walk.node(more[-1], at, path[-1] if kind == "set" and type(path[-1]) is str else "")
        made.append(op)
    return Found(walk.paths, pack_tree(made)) if walk.paths else None


def _step(key: Any) -> str:
    return key_step(key) if type(key) in (str, int) else "{...}"


def _may_be_named(data: bytes, name: str) -> bool:
    """Whether a field with the name of a secret may be in there."""
    named = name.encode("utf-8", "surrogatepass") + data if name else data
    return _NAMED.search(named.translate(_NAME_TABLE)[::-1]) is not None


def _walk(mask: str) -> Texts:
    return Texts(lambda text, name: tokens.masked_field(name, text, mask=mask), mask=mask)


def masked(data: bytes) -> bytes:
    """The same encoded value with masks in the place of secrets."""
    found = search(data)
    return data if found is None else found.data
