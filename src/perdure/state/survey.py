"""What the state holds now, as far as it is not what it held: read once, before anything is compared.

A survey starts from the containers that changed. It copies them, makes nodes for what is new in them, refuses cycles
and too deep nesting, and counts who holds whom, so that what nobody holds any more is known. The nodes of the last
save stay as they were; the outcome is a list of things to do once the save is committed. Nothing here knows what a
delta is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from perdure import limits, values
from perdure.errors import LimitError, UnstorableError
from perdure.state.identity import positions, prefix, raw, suffix
from perdure.state.node import Node, Reading, all_leaves, content, copied, is_fixed, is_leaf, mark, steps
from perdure.values.path import key_step

DEPTH_MAX = limits.DEPTH_MAX - 8
"""Levels of a state. A delta and a chunk put a few of their own around it."""

Trail = tuple[Any, ...]
"""The way to a place: the trail to its parent and the key. It becomes a path only when there is something to tell."""


def path_of(trail: Trail) -> list[Any]:
    """The keys from the root."""
    path: list[Any] = []
    while trail:
        trail, step = trail
        path.append(step)
    return path[::-1]


def shown(path: list[Any]) -> str:
    """A path as people read it: `$.plan[3].tool`."""
    return "$" + "".join(map(key_step, path))


class Survey:
    """One look at what changed. Everything that it finds is in its attributes.

    `fresh` nodes by the id of their object; `readings` of the containers that changed; `marks` of the leaves that
    changed in place; `gained` and `lost` pairs (child, parent); `gone`: nodes that nothing holds any more; `met`:
    nodes found again in another place, with the trail to it; `calm`: the fresh nodes and those met that belong to an
    append-only part.
    """

    def __init__(
        self,
        nodes: Mapping[int, Node],
        *,
        changed: Collection[Node] = (),
        leaves: Mapping[Node, bytes | None] | None = None,
        append_only: Mapping[int, str] | None = None,
    ) -> None:
        """`append_only` are the names of such parts by the id of their list."""
        self.nodes, self._lists = nodes, append_only or {}
        self._leaves = leaves or {}
        self.changed = {*changed, *self._leaves}
        self.marks: dict[Node, bytes] = {}
        self.dirty: dict[Node, dict[Node, None]] = {}
        self.fresh: dict[int, Node] = {}
        self.readings: dict[Node, Reading] = {}
        self.gained: list[tuple[Node, Node]] = []
        self.lost: list[tuple[Node, Node]] = []
        self.reached: set[Node] = set()
        self.met: list[tuple[Node, Node, Trail, str | None]] = []
        self.gone: set[Node] = set()
        self.calm: dict[Node, str] = {}
        self._open: set[int] = set()
        self._climb()

    def _climb(self) -> None:
        pending = list(self.changed)
        while pending:
            node = pending.pop()
            for parent in node.parents():
                kids = self.dirty.setdefault(parent, {})
                if not kids:
                    pending.append(parent)
                kids[node] = None

    def node(self, value: Any) -> Node | None:
        """The node of this very object."""
        return self.fresh.get(id(value)) or self.nodes.get(id(value))

    def now(self, node: Node) -> Any:
        """What the node's container holds now, as a copy; of a leaf, its mark."""
        if node in self.readings:
            return self.readings[node].now
        return self.marks.get(node, node.old)

    def held(self, value: Any) -> Any:
        """What `now` says of the node of this object; the value itself when it has none."""
        node = self.node(value)
        return value if node is None else self.now(node)

    def is_touched(self, node: Node) -> bool:
        """Whether it, or something in it, may not be what it was."""
        return node in self.reached and (node in self.dirty or node in self.changed)

    # --- the walk ----------------------------------------------------------------------------------------------------

    def reach(self, node: Node, trail: Trail, *, depth: int, calm: str | None) -> None:
        """Takes up a node of the last save that is still in its place."""
        if node in self.reached:
            return
        self.reached.add(node)
        calm = self._lists.get(id(node.live), calm)
        if node in self._leaves:
            self.marks[node] = self._leaves[node] or self.marked(node.live, trail)
        elif node in self.changed:
            self._settle(node, trail, depth=depth, calm=calm)
        for kid in self.dirty.get(node, ()):
            step = self._step(node, kid)
            if step is not None:
                self.reach(kid, (trail, step[0]), depth=depth + 1, calm=calm)

    def _step(self, node: Node, kid: Node) -> tuple[Any] | None:
        now = self.now(node)
        found = positions(raw(content(now)), [kid.live])
        return (next(islice(steps(now), found[0], None)),) if found else None

    def _settle(self, node: Node, trail: Trail, *, depth: int, calm: str | None) -> None:
        reading = self.readings[node] = Reading(node.live, copied(node.live))
        old, now = content(node.old), content(reading.now)
        a, b = raw(old), raw(now)
        start = prefix(a, b)
        same = suffix(a, b, most=min(len(old), len(now)) - start)
        for value in old[start : len(old) - same]:
            if kid := self.nodes.get(id(value)):
                self.lost.append((kid, node))
        came = now[start : len(now) - same]
        if all_leaves(came):
            return
        keys = list(steps(reading.now))[start:]
        for step, value in zip(keys, came, strict=False):
            self.gain(value, node, (trail, step), depth=depth + 1, calm=calm)

    def gain(self, value: Any, parent: Node, trail: Trail, *, depth: int, calm: str | None) -> None:
        """Takes up a value in a place where it was not."""
        if is_leaf(type(value)):
            return
        node = self.node(value)
        if node is None:
            if type(value) is not tuple or not is_fixed(value):
                self._enter(value, parent, trail, depth=depth, calm=calm)
            return
        if id(value) in self._open:
            raise UnstorableError(shown(path_of(trail)), "contains itself")
        self.gained.append((node, parent))
        self.met.append((node, parent, trail, calm))
        self.reach(node, trail, depth=depth, calm=calm)

    def _enter(self, value: Any, parent: Node, trail: Trail, *, depth: int, calm: str | None) -> None:
        if type(value) not in values.CONTAINERS:
            node = Node(value, self.marked(value, trail))
        elif depth > DEPTH_MAX:
            raise LimitError(f"{shown(path_of(trail))}: nested deeper than {DEPTH_MAX} levels")
        else:
            node = Node(value, copied(value))
        self.fresh[id(value)] = node
        self.gained.append((node, parent))
        if calm is not None:
            self.calm[node] = calm
        if type(value) in values.CONTAINERS and not all_leaves(held := content(node.old)):
            node.plain = False
            calm = self._lists.get(id(value), calm)
            self._open.add(id(value))
            for step, each in zip(steps(node.old), held, strict=True):
                self.gain(each, node, (trail, step), depth=depth + 1, calm=calm)
            self._open.discard(id(value))

    def marked(self, leaf: Any, trail: Trail) -> bytes:
        """The mark of a leaf that can change in place. Raises `UnstorableError` with its path."""
        try:
            return mark(values.encode(leaf))
        except UnstorableError:
            return mark(values.encode(leaf, at=shown(path_of(trail))))

    # --- the end -----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Refuses cycles and finds what is gone."""
        for node, parent, trail, _ in self.met:
            if self._holds(node, parent):
                raise UnstorableError(shown(path_of(trail)), "contains itself")
        counts = Counter(kid for kid, _ in self.gained)
        counts.subtract(kid for kid, _ in self.lost)
        pending = [kid for kid, _ in self.lost]
        while pending:
            node = pending.pop()
            if node in self.gone or len(node.parents()) + counts[node] > 0:
                continue
            self.gone.add(node)
            if not node.plain:
                kids = [kid for each in content(node.old) if (kid := self.nodes.get(id(each)))]
                self.lost += ((kid, node) for kid in kids)
                counts.subtract(kids)
                pending += kids

    def places(self, node: Node, root: Node, parts: Mapping[str, Any]) -> Iterator[list[Any]]:
        """All paths at which the object stands now."""
        parents = Counter(node.parents())
        parents.update(parent for kid, parent in self.gained if kid is node)
        parents.subtract(parent for kid, parent in self.lost if kid is node)
        for parent in (each for each, times in parents.items() if times > 0):
            now = parts if parent is root else self.now(parent)
            found = [step for step, value in zip(steps(now), content(now), strict=True) if value is node.live]
            bases = [[]] if parent is root else self.places(parent, root, parts)
            yield from ([*base, step] for base in bases for step in found)

    def _holds(self, node: Node, sought: Node) -> bool:
        seen, pending = {node}, [node]
        while pending:
            each = pending.pop()
            if each is sought:
                return True
            if type(each.live) in values.CONTAINERS:
                kids = {kid for value in content(self.now(each)) if (kid := self.node(value))}
                pending += kids - seen
                seen |= kids
        return False
