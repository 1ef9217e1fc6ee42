"""The changes that most saves consist of, found without a survey.

Leaves set as parts or in small dicts, items appended to lists, lists of leaves emptied: such changes move and share
nothing, and what they remove are leaves, so the containers around them need no look.
Whatever is not plainly of this kind is left to the survey, which finds the same for these: so are leaves of a type that
was not met before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import compress
from operator import is_, is_not
from typing import Any, Final

from perdure import values
from perdure.state.delta import Op
from perdure.state.identity import FEW, find, raw
from perdure.state.node import LEAVES, Node, Reading, all_leaves
from perdure.state.survey import DEPTH_MAX, Survey
from perdure.state.watch import Long

APPENDED_MAX: Final = 64
"""Items appended at once: with more, the survey costs little in comparison."""

_DESCENDED: Final = frozenset({dict, list})
_ROOT: Final[list[Any]] = []


def light(
    nodes: Mapping[int, Node],
    then: Mapping[str, Any],
    parts: Mapping[str, Any],
    changed: Collection[Node],
    *,
    append_only: Mapping[int, str],
) -> tuple[Survey, list[Op]] | None:
    """The finished survey and the operations, if all changes are of this kind.

    `changed` are the containers that may hold other objects than at the last save, `then` the parts of then, and
    `parts` those of now. `append_only` are the names of such parts by the id of their list.
    """
    parts_set = _parts_set(then, parts)
    if parts_set is None:
        return None
    survey = Survey(nodes, parts)
    survey.light = True
    ops: list[Op] = []
    above: dict[Node, list[Any] | None] = {}
    for node in changed:
        path = _path(node, parts, above)
        if path is None:
            return None
        block = node.block
        if type(block) is Long and block.came is not None:
            survey.grown[node] = block.came
            found = _extended(survey, node, block.came, path, append_only)
        else:
            reading = survey.readings[node] = Reading(node)
            if type(reading.now) is dict:
                found = _set(node, reading.now, path)
            else:
                found = _listed(survey, node, reading, path, append_only)
        if found is None:
            return None
        ops += found
    return survey, ops + parts_set


def _parts_set(then: Mapping[str, Any], parts: Mapping[str, Any]) -> list[Op] | None:
    """The parts that are other leaves than they were; None if more than that became of parts."""
    return _leaves_set(then, parts, _ROOT) if then.keys() >= parts.keys() else None


def _path(node: Node, parts: Mapping[str, Any], above: dict[Node, list[Any] | None]) -> list[Any] | None:
    """Where the container is, if it stands in one place and so do all around it: mostly where it was.

    `above` are the paths that were found of what is around containers.
    """
    parent = node.parent
    if parent is None or node.more:
        return None
    held = parent.live
    way: list[Any] | None = _ROOT
    if held is None:
        held = parts
    elif parent in above:
        way = above[parent]
    else:
        way = above[parent] = _path(parent, parts, above)
    if way is None or type(held) is tuple:
        return None
    step = node.step
    if type(held) is list:
        if type(step) is not int or step >= len(held) or held[step] is not node.live:
            step = _item(node, held)
    elif step is None or held.get(step) is not node.live:
        step = _key(node, held)
    return None if step is None else [*way, step]


def _item(node: Node, held: list[Any]) -> Any:
    at = find(raw(held.copy()), raw([node.live]))
    node.step = None if at < 0 else at
    return node.step


def _key(node: Node, held: Mapping[Any, Any]) -> Any:
    for key, each in held.items():
        if each is node.live:
            node.step = key
            return key
    return None


def _set(node: Node, now: dict[Any, Any], path: list[Any]) -> list[Op] | None:
    """The leaves that a small dict holds under the same keys in place of others; None when it is anything else."""
    old = node.old
    if len(now) != len(old) or len(now) > FEW or not all(map(is_, old, now)):
        return None
    return _leaves_set(old, now, path)


def _leaves_set(old: Mapping[Any, Any], now: Mapping[Any, Any], path: list[Any]) -> list[Op] | None:
    """The leaves under these keys that are others than they were; None if anything else is."""
    ops: list[Op] = []
    for key in compress(now, map(is_not, map(old.get, now), now.values())):
        was, value = old[key], now[key]
        if not LEAVES.issuperset((type(was), type(value))):
            return None
        if not values.same(was, value):
            ops.append(["set", [*path, key], value])
    return ops


def _listed(
    survey: Survey, node: Node, reading: Reading, path: list[Any], append_only: Mapping[int, str]
) -> list[Op] | None:
    """The items that a list holds after those that it held, or that it holds none any more; None for anything else."""
    now, size = reading.now, len(node.old)
    if size and not now:
        return [["splice", path, 0, size, []]] if node.plain else None
    if size < len(now) and reading.ids.startswith(raw(node.old)):
        return _extended(survey, node, now[size:], path, append_only)
    return None


def _extended(
    survey: Survey, node: Node, came: list[Any], path: list[Any], append_only: Mapping[int, str]
) -> list[Op] | None:
    """These items behind those that a list held; None when they are many, or hold what others hold."""
    calm = append_only.get(id(node.live))
    if len(came) > APPENDED_MAX or not _take(survey, came, node, calm, depth=len(path) + 1):
        return None
    return [["extend", path, came]]


def _take(survey: Survey, items: list[Any], holder: Node, calm: str | None, *, depth: int) -> bool:
    """Whether these are leaves, or dicts and lists that nothing else holds, of such; they are fresh then."""
    nodes, fresh = survey.nodes, survey.fresh
    pending: list[tuple[Iterable[Any], Node, int]] = [(items, holder, depth)]
    for held, parent, level in pending:
        for value in held:
            kind = type(value)
            if kind in LEAVES:
                continue
            place = id(value)
            if kind not in _DESCENDED or place in nodes or place in fresh or level > DEPTH_MAX:
                return False
            node = fresh[place] = Node.of(value)
            survey.gained.append((node, parent))
            if calm is not None:
                survey.calm[node] = calm
            inner = node.old
            if kind is dict:
                if not all_leaves(inner):
                    return False
                inner = inner.values()
            if not all_leaves(inner):
                node.plain = False
                pending.append((inner, node, level + 1))
    return True
