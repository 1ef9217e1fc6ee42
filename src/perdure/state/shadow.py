"""The state as of the last save, kept so that what changed since is found at a cost that follows the change.

The shadow holds shallow copies of the containers; the leaves are shared. It moves only when it is told that a save is
committed: until then any number of comparisons, refused values and failed commits leave it as it was. Nothing here
writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from perdure import limits, values
from perdure.errors import AppendOnlyError, LimitError, StateChangedError, StorableError
from perdure.state.compare import Comparison
from perdure.state.delta import Op, lead_there, reach
from perdure.state.identity import find, prefix, raw
from perdure.state.light import light
from perdure.state.node import Node, Reading, content, mark, unmoved
from perdure.state.survey import Survey, shown
from perdure.state.versions import Versions
from perdure.state.watch import Block, Leaves, Long, Places, Watch

HOT_BLOCK = 256
"""Containers of a block that is looked at for each save: larger saves calls, smaller saves copying when one changes."""

CALM_BLOCK = 32
"""Containers of a block of an append-only part; one is looked at in turn for each save."""


Kept: TypeAlias = tuple[str, int, int]
"""Of a part that is a list: its name, how many items it begins with as at the last save, and how many it had then."""


class Changes(NamedTuple):
    """What changed since the last save. True when anything did.

    `ops` is the delta and `data` its encoded form, made before anybody could change the state again. `aliases` are
    pairs of paths at which the same container was found: they come back as two.
    """

    ops: list[Op]
    data: bytes
    aliases: list[tuple[list[Any], list[Any]]]
    step: Step

    def __bool__(self) -> bool:
        return bool(self.ops)


class Step(NamedTuple):
    """How the shadow moves once these changes are committed."""

    survey: Survey
    parts: dict[str, Any]
    order: tuple[str, ...]
    generation: int


class Shadow:
    """Compares the parts of a state with what they were at the last save.

    `order`: the names of all parts at the last save, loaded or not. `append_only`: parts that are lists of which only
    the end is looked at in full, the older items in turn; with `strict`, rewriting an item of one is an error. Not
    for use by two threads at once.
    """

    def __init__(self, *, append_only: Collection[str] = (), strict: bool = False, order: Sequence[str] = ()) -> None:
        self.append_only, self.strict = frozenset(append_only), strict
        self._order = tuple(order)
        self._parts: dict[str, Any] = {}
        self._root = Node(None, None)
        self._nodes: dict[int, Node] = {}
        self._hot = Places(size=HOT_BLOCK, calm=False)
        self._calm = {name: Places(size=CALM_BLOCK, calm=True) for name in self.append_only}
        self._size = 0
        self._generation = 0

    def track(self, name: str, value: Any) -> None:
        """The part is, as of the last save, this value: what was loaded."""
        survey = Survey(self._nodes, {name: value}, append_only=self._append_only({name: value}))
        if name in self._parts:
            self._lose(survey, name)
        survey.gain(value, self._root, ((), name), depth=1, calm=None)
        survey.finish()
        order = self._order if name in self._order else (*self._order, name)
        self._move(Step(survey, {**self._parts, name: value}, order, self._generation))

    def compare(self, parts: Mapping[str, Any], *, order: Sequence[str], full: bool = False) -> Changes:
        """What changed since the last save. The shadow stays as it is.

        `parts` are the loaded parts as they are now, `order` the names of all, in order; a part that is not loaded is
        unchanged, one that is not in `order` was deleted. With `full`, append-only parts are looked at in full.

        Raises `UnstorableError` and `LimitError` with the path of what cannot be stored, `StateChangedError` when
        another thread changed the state meanwhile, `AppendOnlyError` when strict.
        """
        try:
            return self._compare(parts, tuple(order), full=full)
        except RuntimeError as error:
            raise StateChangedError(f"the state was changed by another thread during a save: {error}") from error

    def advance(self, changes: Changes) -> None:
        """The changes are committed: the shadow becomes what they were compared with.

        Raises `ValueError` when it has moved since.
        """
        self._move(changes.step)

    def kept(self, value: Any) -> Kept | None:
        """Of a part, the very object: its name, how many items it begins with as at the last save, and had then.

        A part that is no list has kept all or nothing. None for any other object. Append-only parts are looked at as
        for a save.
        """
        name = next((name for name, part in self._parts.items() if part is value), None)
        node = self._nodes.get(id(value))
        if name is None or node is None or type(node.live) not in (dict, list):
            return None
        changed, leaves = self._looked(full=False)
        kept = size = len(node.old)
        for each in (*changed, *leaves):
            kept = min(kept, self._first_in(node, each))
        return name, kept, size

    def _first_in(self, root: Node, node: Node) -> int:
        """The first item of `root` that this changed node may be in; its length at the last save if in none."""
        if node is root:
            return prefix(raw(root.old), raw(root.live.copy())) if type(root.live) is list else 0
        first, pending, seen = len(root.old), [node], {node}
        while pending:
            each = pending.pop()
            for parent in each.parents():
                if parent is root:
                    first = min(first, max(0, find(raw(root.old), raw([each.live]))) if type(root.live) is list else 0)
                elif parent not in seen:
                    seen.add(parent)
                    pending.append(parent)
        return first

    # --- comparing ---------------------------------------------------------------------------------------------------

    def _compare(self, parts: Mapping[str, Any], order: tuple[str, ...], *, full: bool) -> Changes:
        survey, ops = self._found(parts, order, full=full)
        data = _encoded(ops, parts)
        if not _is_as_compared(survey, ops):
            if full:
                raise StateChangedError("the state was changed by another thread during a save; save again")
            return self._compare(parts, order, full=True)
        if order == self._order:
            kept = {**self._parts, **parts}
        else:
            kept = {**{name: value for name, value in self._parts.items() if name in order}, **parts}
        step = Step(survey, kept, order, self._generation)
        return Changes(ops, data, self._aliases(survey), step)

    def _found(self, parts: Mapping[str, Any], order: tuple[str, ...], *, full: bool) -> tuple[Survey, list[Op]]:
        changed, leaves = self._looked(full=full)
        if not leaves and not self.strict and order == self._order:
            found = light(self._nodes, self._parts, parts, changed, append_only=self._append_only(parts))
            if found is not None and lead_there(found[1]):
                self._bound(found[0])
                return found
        survey = self._survey(parts, order, changed, leaves)
        return survey, self._operations(survey, parts, order)

    def _looked(self, *, full: bool) -> tuple[list[Node], dict[Node, bytes | None]]:
        """The containers and the leaves that are not what they were."""
        changed, leaves = self._hot.changed(full=True)
        for calm in self._calm.values():
            more = calm.changed(full=full)
            changed += more[0]
            leaves |= more[1]
        return changed, leaves

    def _survey(
        self,
        parts: Mapping[str, Any],
        order: tuple[str, ...],
        changed: list[Node],
        leaves: dict[Node, bytes | None],
    ) -> Survey:
        survey = Survey(self._nodes, parts, changed=changed, leaves=leaves, append_only=self._append_only(parts))
        for name, value in parts.items():
            self._take(survey, name, value)
        for name in self._parts.keys() - set(order):
            self._lose(survey, name)
        survey.finish()
        self._bound(survey)
        return survey

    def _bound(self, survey: Survey) -> None:
        if self._size + survey.growth() > limits.NODES_MAX:
            raise LimitError(f"$: more than {limits.NODES_MAX} values")

    def _append_only(self, parts: Mapping[str, Any]) -> dict[int, str]:
        return {id(parts[name]): name for name in self.append_only if type(parts.get(name)) is list}

    def _take(self, survey: Survey, name: str, value: Any) -> None:
        trail = ((), name)
        if name not in self._parts or self._parts[name] is not value:
            if name in self._parts:
                self._lose(survey, name)
            survey.gain(value, self._root, trail, depth=1, calm=None)
            return
        node = self._nodes.get(id(value))
        if node is not None and (node in survey.dirty or node in survey.changed):
            survey.reach(node, trail, depth=1, calm=None)

    def _lose(self, survey: Survey, name: str) -> None:
        node = self._nodes.get(id(self._parts[name]))
        if node is not None:
            survey.lost.append((node, self._root))

    def _operations(self, survey: Survey, parts: Mapping[str, Any], order: tuple[str, ...]) -> list[Op]:
        compared = Comparison(survey)
        known, named = set(self._order), set(order)
        ops: list[Op] = [["del", [name]] for name in self._order if name not in named]
        for name in order:
            if name in self._parts and name in parts:
                found = compared.differences(self._parts[name], parts[name], [name])
                self._refuse_rewriting(name, parts[name], found)
                ops += found
            elif name in parts:
                ops.append(["set", [name], parts[name]])
            elif name not in known:
                raise ValueError(f"the part {name!r} is new and must be given")
        have = [name for name in self._order if name in named] + [name for name in order if name not in known]
        return ops if have == list(order) else [*ops, ["order", [], list(order)]]

    def _refuse_rewriting(self, name: str, value: Any, ops: list[Op]) -> None:
        if not (self.strict and name in self.append_only and ops) or type(value) is not list:
            return
        node = self._nodes.get(id(self._parts[name]))
        if node is None or type(node.old) is not list or len(value) < len(node.old):
            return
        for op in ops:
            if not _is_appending(op):
                raise AppendOnlyError(f"{shown(op[1])}: {name!r} is append-only, and an item in it was rewritten")

    def _aliases(self, survey: Survey) -> list[tuple[list[Any], list[Any]]]:
        found = []
        for node, _, trail, _ in survey.met:
            if type(node.live) is tuple or not survey.is_held(node, 2):
                continue
            here = survey.path(trail)
            there = next((path for path in survey.places(node, self._root) if path != here), None)
            if there is not None:
                found.append((there, here))
        return found

    # --- moving ------------------------------------------------------------------------------------------------------

    def _move(self, step: Step) -> None:
        if step.generation != self._generation:
            raise ValueError("these changes were compared before the shadow last moved")
        survey = step.survey
        self._size += survey.growth()
        self._revise(survey)
        for kid, parent in survey.gained:
            kid.hold(parent)
            parent.plain = False
        for kid, parent in survey.lost:
            kid.release(parent)
        self._drop(survey.gone)
        self._nodes.update(survey.fresh)
        self._watch(survey)
        self._parts, self._order = step.parts, step.order
        self._generation += 1

    def _revise(self, survey: Survey) -> None:
        blocks: dict[Block | Versions | Long, dict[Node, Reading]] = {}
        for node, reading in survey.readings.items():
            blocks.setdefault(node.block, {})[node] = reading
        for block, readings in blocks.items():
            block.watch.revise(block, readings)
        for node, reading in survey.readings.items():
            node.old = reading.now
        for node, came in survey.grown.items():
            node.old += came
            node.block.grown(came)
        for node, now in survey.marks.items():
            node.old = now

    def _drop(self, gone: Collection[Node]) -> None:
        places: dict[Any, set[Node]] = {}
        for node in gone:
            del self._nodes[id(node.live)]
            if node.block is not None:
                places.setdefault(node.block, set()).add(node)
        self._unwatch(places)

    def _unwatch(self, places: Mapping[Any, set[Node]]) -> None:
        for place, nodes in places.items():
            if isinstance(place, Leaves):
                place.drop(nodes)
            else:
                place.watch.drop(place, nodes)

    def _watch(self, survey: Survey) -> None:
        places: dict[Watch | Leaves, list[Node]] = {}
        for node in survey.fresh.values():
            kind = type(node.live)
            if kind is not tuple:
                calm = survey.calm.get(node)
                at = self._hot if calm is None else self._calm[calm]
                places.setdefault(at.of(kind), []).append(node)
        for place, nodes in places.items():
            place.add(nodes)
        for node, _, _, calm in survey.met:
            if calm is None:
                self._promote(node)

    def _promote(self, node: Node) -> None:
        """What is found in an ordinary part as well is looked at for each save, and all that it holds."""
        pending = [node]
        while pending:
            each = pending.pop()
            if each.block is not None and (each.block if isinstance(each.block, Leaves) else each.block.watch).calm:
                self._unwatch({each.block: {each}})
                self._hot.of(type(each.live)).add([each])
            if not each.plain:
                pending += (kid for value in content(each.old) if (kid := self._nodes.get(id(value))))


def _is_appending(op: Op) -> bool:
    return len(op[1]) == 1 and (op[0] == "extend" or (op[0] == "splice" and not op[4]))


def _encoded(ops: list[Op], parts: Mapping[str, Any]) -> bytes:
    try:
        return values.encode(ops)
    except StorableError:
        for op in ops:
            for path, value in _carried(op, parts):
                values.encode(value, at=shown(path))
        raise


def _carried(op: Op, parts: Mapping[str, Any]) -> Iterator[tuple[list[Any], Any]]:
    """The values that an operation carries, each with its path in the state as it is now."""
    for step in op[1]:
        yield op[1], step
    if op[0] == "set":
        yield op[1], op[2]
    elif op[0] in ("extend", "splice"):
        items = reach(parts, op[1])
        for value in op[-1]:
            yield [*op[1], next(i for i, item in enumerate(items) if item is value)], value


def _is_as_compared(survey: Survey, ops: list[Op]) -> bool:
    """Whether what was encoded is what was compared.

    If not, another thread came between, or an append-only item that was not looked at had changed. Only what the
    operations carry as a whole was read from the live state; all else is in the copies.
    """
    if survey.light:
        return all(unmoved(node.live, node.old, version=node.version) for node in survey.fresh.values())
    pending = [part for op in ops for part in op[2:]]
    seen: set[Node] = set()
    while pending:
        value = pending.pop()
        node = survey.node(value)
        if node is None:
            pending += value if type(value) is list else ()
        elif node not in seen:
            seen.add(node)
            if not _is_still(survey, node):
                return False
            if not node.plain or node in survey.readings:
                pending += content(survey.now(node))
    return True


def _is_still(survey: Survey, node: Node) -> bool:
    if type(node.live) in values.CONTAINERS:
        return unmoved(node.live, survey.now(node))
    return bool(mark(values.encode(node.live)) == survey.now(node))
