"""What is known of one container, or of one value that can change in place, as of the last save.

Nothing here decides what a change means.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

from perdure import values
from perdure.state import identity
from perdure.state.identity import identical, raw, referents

MARK_BYTES: Final = 32
"""A value that can change in place is remembered by its encoded bytes, or, from this length on, by their digest."""

LEAVES: Final[set[type]] = set(values.IMMUTABLE)
"""Exact types whose values neither hold others nor change: all that were met so far, `is_leaf` finds others."""


class Node:
    """A container of the state, or a leaf that can change in place. One for each object, however often it occurs.

    `live` is the object. `old` is what it held: a shallow copy of a dict or list, the tuple itself, the mark of a leaf.
    `plain` says that it holds nothing that has a node. Parents are the nodes that held it, once for each occurrence.
    `version` is that of a dict before `old` was read from it; `step` is where it was last found in its parent.
    """

    __slots__ = ("block", "live", "more", "old", "parent", "plain", "step", "version")

    def __init__(self, live: Any, old: Any, *, version: int = identity.UNKNOWN) -> None:
        self.live, self.old, self.plain, self.version = live, old, True, version
        self.step: Any = None
        self.parent: Node | None = None
        self.more: list[Node] | None = None
        self.block: Any = None

    @classmethod
    def of(cls, container: Any) -> Node:
        """One for a container that is new, as it is now."""
        version = identity.version(container)
        return cls(container, container if type(container) is tuple else container.copy(), version=version)

    def parents(self) -> list[Node]:
        """The nodes that held it."""
        first = [] if self.parent is None else [self.parent]
        return first + self.more if self.more else first

    def hold(self, parent: Node) -> None:
        """It occurs once more in `parent`."""
        if self.parent is None:
            self.parent = parent
        else:
            self.more = [*(self.more or ()), parent]

    def release(self, parent: Node) -> None:
        """It occurs once less in `parent`."""
        if self.parent is parent:
            self.parent = self.more.pop() if self.more else None
        elif self.more:
            self.more.remove(parent)


class Reading:
    """What a container holds now: a shallow copy, and the identities, in order, by which a later look is compared.

    `odd` marks a dict whose referents are not simply its values in order: one with keys that are not strings, or the
    `__dict__` of an instance. It is looked at through a tuple of its values. `keys` is None when they are those of the
    node's `old`: then a dict that was not odd is not. A dict that has a version needs none of this. `ends` is how much
    of the content is the same (`identity.ends`). Without `now` it is read from the live container, after its `version`.
    """

    ends: tuple[int, int] | None = None
    ids = b""
    keys: bytes | None = None
    odd = False

    def __init__(self, node: Node, now: Any = None) -> None:
        self.version = identity.version(node.live)
        self.now = now = node.live.copy() if now is None else now
        if type(now) is not dict:
            self.ids = raw(now)
            return
        if identity.VERSIONED:
            return
        held = list(now.values())
        self.ids = raw(held)
        keys = list(now)
        if node.block is not None and node not in node.block.odd and identical(keys, list(node.old)):
            return
        self.keys = raw(keys)
        self.odd = self.ids != raw(referents(node.live))
        if self.odd:
            self.ids = raw(held[::-1])


def content(held: Any) -> list[Any]:
    """What a copy of a container holds, in order: values or items."""
    return list(held.values()) if type(held) is dict else held if type(held) is list else list(held)


def steps(held: Any) -> Iterable[Any]:
    """The keys or numbers that lead to what `content` gives."""
    return held if type(held) is dict else range(len(held))


def unmoved(live: Any, now: Any, *, version: int = identity.UNKNOWN) -> bool:
    """Whether a container still holds the very objects of its copy, in order; `version`: of a dict before the copy."""
    if version != identity.UNKNOWN and version == identity.version(live):
        return True
    if type(live) is dict:
        return identical(list(live), list(now)) and identical(list(live.values()), list(now.values()))
    return type(live) is tuple or identical(live.copy(), now)


def is_leaf(kind: type) -> bool:
    """Whether values of exactly this type neither hold others nor change."""
    if kind in LEAVES:
        return True
    if kind not in values.CONTAINERS and values.is_immutable(kind):
        LEAVES.add(kind)
        return True
    return False


def all_leaves(held: Iterable[Any]) -> bool:
    """Whether all of these are of such types."""
    kinds = set(map(type, held))
    return kinds <= LEAVES or all(map(is_leaf, kinds))


def is_fixed(value: Any) -> bool:
    """Whether nothing in this value can change in place: a leaf, or a tuple of such."""
    return is_leaf(type(value)) or (type(value) is tuple and all(map(is_fixed, value)))


def mark(data: bytes) -> bytes:
    """What is remembered of an encoded leaf. Equal marks mean equal bytes."""
    return data if len(data) < MARK_BYTES else hashlib.sha256(data).digest()
