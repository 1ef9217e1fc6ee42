"""What the state holds now, as far as it is not what it held: read once, before anything is compared.

A survey starts from the containers that changed. It copies them, makes nodes for what is new in them, refuses cycles
and too deep nesting, and counts who holds whom, so that what nobody holds any more is known. The nodes of the last
save stay as they were; the outcome is a list of things to do once the save is committed. Nothing here knows what a
delta is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from perdure import limits, values
from perdure.errors import LimitError, UnstorableError
from perdure.state.identity import FEW, ends, find, raw
from perdure.state.node import Node, Reading, all_leaves, content, is_fixed, is_leaf, mark, steps
from perdure.values.path import key_step

DEPTH_MAX = limits.DEPTH_MAX - 8
"""Levels of a state. A delta and a chunk put a few of their own around it."""

Trail = tuple[Any, ...]
"""The way to a place: the trail to its parent, and the key or the node there. A path is made of it only to be told."""


def shown(path: list[Any]) -> str:
    """A path as people read it: `$.plan[3].tool`."""
    return "$" + "".join(map(key_step, path))


def _key_of(value: Any, held: Any) -> Any:
    return next(key for key, each in zip(steps(held), content(held), strict=True) if each is value)


class Survey:
    """One look at what changed. Everything that it finds is in its attributes.

    `fresh` nodes by the id of their object; `readings` of the containers that changed; `grown`: of long lists that only
    grew, in place of a reading, what came; `marks` of the leaves that changed in place; `gained` and `lost` pairs
    (child, parent); `gone`: nodes that nothing holds any more; `met`: nodes found again in another place, with the
    trail to it; `calm`: the fresh nodes and those met that belong to an append-only part; `light`: all changes are of
    the kind that `light.py` is for, so that the operations carry nothing but leaves and fresh containers.
    """

    def __init__(
        self,
        nodes: Mapping[int, Node],
        parts: Mapping[str, Any],
        *,
        changed: Collection[Node] = (),
        leaves: Mapping[Node, bytes | None] | None = None,
        append_only: Mapping[int, str] | None = None,
    ) -> None:
        """`append_only` are the names of such parts by the id of their list."""
        self.nodes, self._parts, self._lists = nodes, parts, append_only or {}
        self._leaves = leaves or {}
        self.changed = {*changed, *self._leaves}
        self.marks: dict[Node, bytes] = {}
        self.dirty: dict[Node, dict[Node, None]] = {}
        self.fresh: dict[int, Node] = {}
        self.readings: dict[Node, Reading] = {}
        self.grown: dict[Node, list[Any]] = {}
        self.gained: list[tuple[Node, Node]] = []
        self.lost: list[tuple[Node, Node]] = []
        self.reached: set[Node] = set()
        self.met: list[tuple[Node, Node, Trail, str | None]] = []
        self.gone: set[Node] = set()
        self.calm: dict[Node, str] = {}
        self._counts: dict[Node, int] = {}
        self._growth: int | None = None
        self.light = False
        self._climb()

    def _climb(self) -> None:
        pending = [*self.changed]
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
        kids = self.dirty.get(node)
        if kids:
            for kid in self._staying(node, kids):
                self.reach(kid, (trail, kid), depth=depth + 1, calm=calm)

    def _staying(self, node: Node, kids: Iterable[Node]) -> Iterable[Node]:
        if node not in self.readings:
            return kids
        now = content(self.readings[node].now)
        if len(now) > FEW:
            ids = raw(now)
            return [kid for kid in kids if find(ids, raw([kid.live])) >= 0]
        here = set(map(id, now))
        return [kid for kid in kids if id(kid.live) in here]

    def _settle(self, node: Node, trail: Trail, *, depth: int, calm: str | None) -> None:
        reading = self.readings[node] = Reading(node)
        if node.plain and len(reading.now) <= FEW and all_leaves(content(reading.now)):
            return
        old, now = content(node.old), content(reading.now)
        start, same = reading.ends = ends(raw(old), reading.ids if now is reading.now else raw(now))
        for value in old[start : len(old) - same]:
            if kid := self.nodes.get(id(value)):
                self.lost.append((kid, node))
        came = now[start : len(now) - same]
        if all_leaves(came):
            return
        keys = islice(steps(reading.now), start, None)
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
        self.gained.append((node, parent))
        self.met.append((node, parent, trail, calm))
        self.reach(node, trail, depth=depth, calm=calm)

    def _enter(self, value: Any, parent: Node, trail: Trail, *, depth: int, calm: str | None) -> None:
        if type(value) not in values.CONTAINERS:
            node = Node(value, self.marked(value, trail))
        elif depth > DEPTH_MAX:
            raise LimitError(f"{shown(self.path(trail))}: nested deeper than {DEPTH_MAX} levels")
        else:
            node = Node.of(value)
        self.fresh[id(value)] = node
        self.gained.append((node, parent))
        if calm is not None:
            self.calm[node] = calm
        if type(value) in values.CONTAINERS and not all_leaves(held := content(node.old)):
            node.plain = False
            calm = self._lists.get(id(value), calm)
            for step, each in zip(steps(node.old), held, strict=True):
                self.gain(each, node, (trail, step), depth=depth + 1, calm=calm)

    def marked(self, leaf: Any, trail: Trail) -> bytes:
        """The mark of a leaf that can change in place. Raises `UnstorableError` with its path."""
        try:
            return mark(values.encode(leaf))
        except UnstorableError:
            return mark(values.encode(leaf, at=shown(self.path(trail))))

    # --- the end -----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Refuses cycles and finds what is gone."""
        for node, parent, trail, _ in self.met:
            if self._holds(node, parent):
                raise UnstorableError(shown(self.path(trail)), "contains itself")
        if self.lost or self.met:
            self._count()

    def _count(self) -> None:
        counts = self._counts
        for node, _ in self.gained:
            counts[node] = counts.get(node, 0) + 1
        pending = [node for node, _ in self.lost]
        for node in pending:
            counts[node] = counts.get(node, 0) - 1
        while pending:
            node = pending.pop()
            if node in self.gone or self.is_held(node):
                continue
            self.gone.add(node)
            if node.plain:
                continue
            for value in content(node.old):
                if kid := self.nodes.get(id(value)):
                    self.lost.append((kid, node))
                    counts[kid] = counts.get(kid, 0) - 1
                    pending.append(kid)

    def growth(self) -> int:
        """How many values more the state holds now. Asked when the survey is complete."""
        if self._growth is not None:
            return self._growth
        came = [*[node.old for node in self.fresh.values()], *self.grown.values()]
        came += [reading.now for reading in self.readings.values()]
        went = [node.old for node in (*self.gone, *self.readings)]
        self._growth = sum(map(len, came)) - sum(map(len, went))
        return self._growth

    def is_held(self, node: Node, times: int = 1) -> bool:
        """Whether the object stands in at least so many places now."""
        return len(node.parents()) + self._counts.get(node, 0) >= times

    def path(self, trail: Trail) -> list[Any]:
        """The keys from the root."""
        way: list[Any] = []
        while trail:
            trail, step = trail
            way.append(step)
        held, path = self._parts, []
        for step in reversed(way):
            path.append(_key_of(step.live, held) if type(step) is Node else step)
            held = self.held(held[path[-1]])
        return path

    def places(self, node: Node, root: Node) -> Iterator[list[Any]]:
        """All paths at which the object stands now."""
        parents = Counter(node.parents())
        parents.update(parent for kid, parent in self.gained if kid is node)
        parents.subtract(parent for kid, parent in self.lost if kid is node)
        for parent in (each for each, times in parents.items() if times > 0):
            now = self._parts if parent is root else self.now(parent)
            found = [step for step, value in zip(steps(now), content(now), strict=True) if value is node.live]
            bases = [[]] if parent is root else self.places(parent, root)
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
