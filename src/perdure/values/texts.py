"""Other texts in the place of those of an encoded value, which is never decoded for it: no class is met.

Every text is asked about: keys, elements, paths, bytes, what is inside of classes. The kind and the order of everything
else stay. It decides nothing about texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from perdure.values import kinds
from perdure.values.arrays import RESERVED
from perdure.values.path import key_step
from perdure.values.wire import CLASS, Tagged, pack_tree

Change = Callable[[str, str], str]
"""From a text and the name of the field that it is in to the text that stands there: the same one for no change."""

_NUMBERS: Final = frozenset({kinds.BY_NAME[name].number for name in ("int", "uuid", "decimal", "fraction", "secret")})
"""Kinds in which no text of the user's can be."""

_WHOLE: Final = frozenset({kinds.BY_NAME["array"].number})
"""Kinds of which no part can be replaced."""

_PAIRS: Final = {kinds.BY_NAME[name].number: 0 for name in ("map", "ordered_dict", "counter")} | {
    kinds.BY_NAME["defaultdict"].number: 1
}
"""Kinds whose tree is keys and values in turn, from this place on."""

_SETS: Final = frozenset({kinds.BY_NAME["set"].number, kinds.BY_NAME["frozenset"].number})
_TEXT: Final = kinds.BY_NAME["text"]


class Texts:
    """One walk through a plain tree; `paths` are those of the texts that were changed."""

    def __init__(self, change: Change, *, mask: str) -> None:
        self.change, self.mask = change, mask
        self.paths: list[str] = []

    def node(self, tree: Any, at: str, name: str = "") -> Any:
        """The same tree with other texts in it. `name` is that of the field that it is in."""
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
        made = self.change(text, name)
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
        if node.number == _TEXT.number:
            text = node.tree.decode("utf-8", "surrogatepass")
            made = self._text(text, at, name)
            return node if made == text else plain_text(made)
        before = len(self.paths)
        tree = self._kind(node, at, name)
        if len(self.paths) == before:
            return node
        if node.number in _WHOLE or (node.number == CLASS and node.tree[0] in RESERVED):
            return self.mask
        return Tagged(node.number, _as_set(tree) if node.number in _SETS else tree)

    def _kind(self, node: Tagged, at: str, name: str) -> Any:
        if node.number == CLASS:
            tag, version, body = node.tree
            return [tag, version, self._class(body, at, name)]
        if node.number in _PAIRS:
            return self._pairs(node.tree, at, _PAIRS[node.number])
        return self.node(node.tree, at, name)

    def _class(self, body: Any, at: str, name: str) -> Any:
        return [self.node(part, at, name) for part in body] if type(body) is list else self.node(body, at, name)

    def _pairs(self, tree: list[Any], at: str, begin: int) -> list[Any]:
        made = tree[:begin]
        for key, item in zip(tree[begin::2], tree[begin + 1 :: 2], strict=True):
            step = key_step(key) if type(key) is str else "{...}"
            made += (self.node(key, f"{at}{{key}}"), self.node(item, at + step, key if type(key) is str else ""))
        return made


def _as_set(tree: list[Any]) -> list[Any]:
    """The elements as a set is written: each once, in the order of their bytes."""
    by_bytes = {pack_tree(item): item for item in tree}
    return [by_bytes[data] for data in sorted(by_bytes)]


def other_than(made: dict[Any, Any], name: str) -> str:
    """A key that is not there yet: two that are masked are still two."""
    found, count = name, 1
    while found in made:
        count += 1
        found = f"{name} {count}"
    return found


def plain_text(text: str) -> Any:
    """A text as a plain tree has it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return Tagged(_TEXT.number, _TEXT.dump(text))
    return text
