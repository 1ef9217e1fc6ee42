"""Which dicts were changed since they were last looked at, told by the version that CPython keeps of each.

A version is a number that every change makes another and that no dict had before, so the same number means the same
objects under the same keys in the same order. Another number means only that the dict must be looked at: it may hold
what it held. A version is known only of a dict that was read after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import compress
from operator import itemgetter, ne
from typing import TYPE_CHECKING, Any, Final

from perdure.state.identity import version_place, words

if TYPE_CHECKING:
    from perdure.state.node import Node, Reading
    from perdure.state.watch import Watch

_ANY: Final[dict[str, Any]] = {}
"""Asked for first, twice: then what comes is a tuple, also of no dict."""

_FIRST: Final = 2


class Versions:
    """A block of dicts, and the version of each when it was last seen to hold what its `old` says."""

    __slots__ = ("_known", "_places", "_read", "nodes", "watch")

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.nodes: list[Node] = []
        self._places = [version_place(_ANY)] * _FIRST
        self._read: Callable[[Any], tuple[int, ...]] = itemgetter(*self._places)
        self._known = self._read(words)

    def changed(self) -> list[Node]:
        """The nodes whose dict has another version: it may still hold, or hold again, what it held."""
        now = self._read(words)
        if now == self._known:
            return []
        return [*compress(self.nodes, map(ne, now[_FIRST:], self._known[_FIRST:]))]

    def revise(self, readings: Mapping[Node, Reading]) -> None:
        """Some hold what was read of them. If they were changed since, they have another version by now."""
        known = list(self._known)
        for node, reading in readings.items():
            known[self.nodes.index(node) + _FIRST] = reading.version
        self._known = tuple(known)

    def drop(self, gone: Collection[Node]) -> None:
        """Some of its dicts are no longer watched."""
        kept = [at for at, node in enumerate(self.nodes) if node not in gone]
        self.nodes = [self.nodes[at] for at in kept]
        self._known = (*self._known[:_FIRST], *(self._known[_FIRST + at] for at in kept))
        self._look_at([self._places[_FIRST + at] for at in kept])

    def extend(self, nodes: list[Node]) -> None:
        """Watches these from now on; what they hold is what their `old` says."""
        self.nodes += nodes
        self._known += tuple([node.version for node in nodes])
        self._look_at([*self._places[_FIRST:], *map(version_place, [node.live for node in nodes])])
        for node in nodes:
            node.block = self

    def _look_at(self, places: list[int]) -> None:
        self._places[_FIRST:] = places
        self._read = itemgetter(*self._places)
