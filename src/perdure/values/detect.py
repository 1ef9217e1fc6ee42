"""Secrets in encoded values: whether there are any, where, and the same value with masks in their place.

Nearly every value has none, which is found out from its bytes at once. Only where something may be is the value taken
apart. It decides nothing: what is done about a secret is for whoever asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from perdure.values import kinds, tokens
from perdure.values.arrays import RESERVED
from perdure.values.path import key_step
from perdure.values.wire import CLASS, Tagged, pack_tree, unpack_tree

_NAME_TABLE: Final = bytes(
    0
    if code in (*range(0xA6, 0xC0), *range(0xC4, 0xCA), *range(0xD9, 0xDC))
    else ord(chr(code).lower())
    if code < 128
    else code
    for code in range(256)
)
"""Small letters; what begins a text, bytes or an extension in MessagePack becomes 0."""

_JOINS: Final = b"_-. "
_FEW: Final = 64

_NUMBERS: Final = frozenset({kinds.BY_NAME[name].number for name in ("int", "uuid", "decimal", "fraction", "secret")})
"""Kinds in which no text of the user's can be."""

_WHOLE: Final = frozenset({kinds.BY_NAME["array"].number})
"""Kinds of which no part can be replaced."""

_PAIRS: Final = {kinds.BY_NAME[name].number: 0 for name in ("map", "ordered_dict", "counter")} | {
    kinds.BY_NAME["defaultdict"].number: 1
}
"""Kinds whose tree is keys and values in turn, from this place on."""

_ENDS: Final = tuple(end + b"\0" for end in tokens.ENDS)


@dataclass(slots=True)
class Found:
    """Secrets in one value: the paths to them, and the value's bytes with masks in their place."""

    paths: list[str] = field(default_factory=list)
    data: bytes = b""


def search(data: bytes, *, at: str = "$", name: str = "", mask: str = tokens.MASK) -> Found | None:
    """The secrets in an encoded value; None if there are none. `name` is that of the field whose value it is.

    About 12 us for 3 KB without any.
    """
    if not may_have(data, name):
        return None
    walk = _Walk(mask)
    tree = walk.node(unpack_tree(data), at, name)
    return Found(walk.paths, pack_tree(tree)) if walk.paths else None


def may_have(data: bytes, name: str = "") -> bool:
    """Whether these bytes may hold a secret: never False if they do."""
    return tokens.may_have_token(data) or _may_be_named(data, name)


def search_delta(data: bytes, *, mask: str = tokens.MASK) -> Found | None:
    """The secrets in an encoded delta; the paths are those in the state."""
    if not may_have(data):
        return None
    walk, made = _Walk(mask), []
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
    plain = (name.encode("utf-8", "surrogatepass") + data if name else data).translate(_NAME_TABLE, _JOINS)
    if plain.count(0) > _FEW:
        return any(end in plain for end in _ENDS)
    return any(piece.endswith(tokens.ENDS) for piece in plain.split(b"\0")[:-1])


class _Walk:
    """One walk through a plain tree; `paths` are those of the secrets that it met."""

    def __init__(self, mask: str) -> None:
        self.mask, self.paths = mask, list[str]()

    def node(self, tree: Any, at: str, name: str = "") -> Any:
        """The same tree with masks in it. `name` is that of the field that it is in."""
        cls = type(tree)
        if cls is str:
            return self._text(tree, at, name)
        if cls is bytes:
            return self._text(tree.decode("latin-1"), at, name).encode("latin-1", "replace")
        if cls is list:
            return [self.node(item, f"{at}[{i}]") for i, item in enumerate(tree)]
        if cls is dict:
            return self._dict(tree, at)
        return self._tagged(tree, at, name) if cls is Tagged else tree

    def _text(self, text: str, at: str, name: str) -> str:
        made = tokens.masked_field(name, text, mask=self.mask)
        if made is not text and made != text:
            self.paths.append(at)
        return made

    def _dict(self, tree: dict[str, Any], at: str) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, item in tree.items():
            name = self._text(key, f"{at}{{key}}", "")
            made[other_than(made, name)] = self.node(item, at + key_step(name), key)
        return made

    def _tagged(self, node: Tagged, at: str, name: str) -> Any:
        if node.number in _NUMBERS:
            return node
        if node.number == kinds.BY_NAME["text"].number:
            text = node.tree.decode("utf-8", "surrogatepass")
            made = self._text(text, at, name)
            return node if made == text else _plain_text(made)
        if node.number == CLASS:
            return self._class(node, at, name)
        if node.number in _PAIRS:
            return Tagged(node.number, self._pairs(node.tree, at, _PAIRS[node.number]))
        before = len(self.paths)
        made = self.node(node.tree, at, name)
        return self.mask if node.number in _WHOLE and len(self.paths) > before else Tagged(node.number, made)

    def _pairs(self, tree: list[Any], at: str, begin: int) -> list[Any]:
        made = tree[:begin]
        for key, item in zip(tree[begin::2], tree[begin + 1 :: 2], strict=True):
            step = key_step(key) if type(key) is str else "{...}"
            made += (self.node(key, f"{at}{{key}}"), self.node(item, at + step, key if type(key) is str else ""))
        return made

    def _class(self, node: Tagged, at: str, name: str) -> Any:
        tag, version, body = node.tree
        before = len(self.paths)
        parts = [self.node(part, at, name) for part in body] if type(body) is list else self.node(body, at, name)
        if tag in RESERVED and len(self.paths) > before:
            return self.mask
        return Tagged(CLASS, [tag, version, parts])


def other_than(made: dict[Any, Any], name: str) -> str:
    """A key that is not there yet: two that are masked are still two."""
    found, count = name, 1
    while found in made:
        count += 1
        found = f"{name} {count}"
    return found


def _plain_text(text: str) -> Any:
    """A text as a plain tree has it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        kind = kinds.BY_NAME["text"]
        return Tagged(kind.number, kind.dump(text))
    return text


def masked(data: bytes) -> bytes:
    """The same encoded value with masks in the place of secrets."""
    found = search(data)
    return data if found is None else found.data
