"""From a value to its plain tree and back: the exact walk, in Python, in which every kind of value is known.

The one place that decides what can be stored, and that finds the path of what cannot. Knows no codec.
"""

from __future__ import annotations

from typing import Any, Final

import ormsgpack

from perdure import limits
from perdure.errors import DamageError
from perdure.values import kinds, registry
from perdure.values.opaque import Opaque
from perdure.values.path import Refusal, key_step
from perdure.values.wire import CLASS, INT_MAX, INT_MIN, STRICT, Raw, Tagged, is_clean, pack_tree

_SIMPLE: Final = frozenset({type(None), bool, float, bytes, str, int})
"""Exact types that a plain tree holds as they are, a str without surrogates and an int of 64 bits."""

_TEXT, _BIG = kinds.BY_NAME["text"], kinds.BY_NAME["int"]
_SETS: Final = frozenset({kinds.BY_NAME["set"].number, kinds.BY_NAME["frozenset"].number})
_FLAT_MIN: Final = 16
_STR: Final = frozenset({str})


def to_tree(value: Any, *, at: str = "$") -> Any:
    """The plain tree of `value`, sharing no container with it.

    Raises UnstorableError, its path beginning with `at`, or LimitError beyond `limits.DEPTH_MAX` or `NODES_MAX`.
    """
    try:
        return Walk().node(value)
    except Refusal as refusal:
        raise refusal.error(at) from refusal.__cause__
    except RecursionError as error:
        raise Refusal("nested deeper than this thread's stack bears", limit=True).error(at) from error


class Walk:
    """One walk: the containers it is inside of, and how many nodes it met. Three frames of the stack for each level."""

    __slots__ = ("inside", "nodes")

    depth_max = limits.DEPTH_MAX

    def __init__(self) -> None:
        self.inside: set[int] = set()
        self.nodes = 0

    def node(self, value: Any) -> Any:
        """The tree of one value. Raises Refusal."""
        cls = type(value)
        if cls in _SIMPLE:
            return _leaf(value, cls)
        key = id(value)
        if key in self.inside:
            raise Refusal("contains itself")
        if len(self.inside) >= self.depth_max:
            raise Refusal(f"nested deeper than {self.depth_max} levels", limit=True)
        self.inside.add(key)
        try:
            if cls is list:
                return self._list(value.copy())
            if cls is dict and _has_plain_keys(value := value.copy()):
                return self._dict(value)
            kind = kinds.of(cls)
            return self._class(value, cls) if kind is None else self._kind(value, kind)
        finally:
            self.inside.discard(key)

    def _count(self, more: int) -> None:
        self.nodes += more
        if self.nodes > limits.NODES_MAX:
            raise Refusal(f"more than {limits.NODES_MAX} values", limit=True)

    def _list(self, items: list[Any], *, of: Any = None, step: kinds.Step = kinds.list_step) -> list[Any]:
        self._count(len(items))
        if len(items) > _FLAT_MIN and _is_flat(items):
            return items
        out: list[Any] = []
        try:
            for item in items:
                out.append(self.node(item))  # noqa: PERF401  (its length is the index of the item that is refused)
        except Refusal as refusal:
            refusal.steps.append(step(of, len(out)))
            raise
        return out

    def _dict(self, items: dict[str, Any]) -> dict[str, Any]:
        self._count(len(items))
        out = {}
        for key, item in items.items():
            try:
                out[key] = self.node(item)
            except Refusal as refusal:
                refusal.steps.append(key_step(key))
                raise
        return out

    def _kind(self, value: Any, kind: kinds.Kind) -> Tagged:
        tree = kind.dump(value)
        if type(tree) is not list:
            return Tagged(kind.number, self.node(tree))
        tree = self._list(tree, of=value, step=kind.step)
        if kind.number in _SETS:
            tree.sort(key=pack_tree)
        return Tagged(kind.number, tree)

    def _class(self, value: Any, cls: type) -> Tagged:
        if cls is Opaque:
            return Tagged(CLASS, [value.tag, value.version, Raw(value.payload)])
        entry = registry.entry_of(cls)
        if entry is None:
            raise registry.refusal(cls)
        body = entry.take(value)
        if type(body) is dict:
            body = self._dict(body)
        elif type(body) is list:
            body = [self._part(part) for part in body]
        return Tagged(CLASS, [entry.tag, entry.version, body])

    def _part(self, part: Any) -> Any:
        return self._dict(part) if type(part) is dict and _has_plain_keys(part) else self.node(part)


def _leaf(value: Any, cls: type) -> Any:
    if cls is str and not is_clean(value):
        return Tagged(_TEXT.number, _TEXT.dump(value))
    if cls is int and not INT_MIN <= value <= INT_MAX:
        return Tagged(_BIG.number, _BIG.dump(value))
    return value


def _has_plain_keys(value: dict[Any, Any]) -> bool:
    return _STR.issuperset(map(type, value)) and is_clean("".join(value))


def _is_flat(items: list[Any]) -> bool:
    """Whether all items are leaves that a plain tree holds as they are: 30 times faster for a vector of numbers."""
    if not _SIMPLE.issuperset(map(type, items)):
        return False
    try:
        ormsgpack.packb(items, option=STRICT)
    except TypeError:
        return False
    return True


def from_tree(tree: Any) -> Any:
    """The value of a plain tree. Raises DamageError, FormatNewerError or TagError; runs nothing that the tree names."""
    try:
        return _value(tree, 1)
    except RecursionError as error:
        raise DamageError("a stored value nested deeper than this thread's stack bears") from error


def _value(tree: Any, level: int) -> Any:
    cls = type(tree)
    if cls in _SIMPLE:
        return tree
    if level > 3 * limits.DEPTH_MAX:
        raise DamageError("a stored value nested too deep")
    if cls is list:
        items = []
        for item in tree:
            items.append(_value(item, level + 1))  # noqa: PERF401  (a comprehension takes another frame of the stack)
        return items
    if cls is dict:
        fields = {}
        for key, item in tree.items():
            fields[key] = _value(item, level + 1)
        return fields
    if tree.number == CLASS:
        return _instance(tree.tree, level)
    return kinds.load(tree.number, _value(tree.tree, level + 1))


def _instance(stored: list[Any], level: int) -> Any:
    tag, version, body = stored
    entry = registry.entry_named(tag)
    if entry is None:
        return Opaque(tag, version, pack_tree(body))
    return entry.build(version, _value(body, level + 1))
