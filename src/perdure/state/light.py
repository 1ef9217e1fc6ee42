"""The changes that most saves consist of, found without a survey.

Leaves set in small dicts, items appended to lists, lists of leaves emptied: such changes move and share nothing, and
what they remove are leaves, so the containers around them need no look.
Whatever is not plainly of this kind is left to the survey, which finds the same for these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import is_
from typing import Any, Final

from perdure import values
from perdure.state.delta import Op
from perdure.state.identity import FEW, find, raw
from perdure.state.node import Node, Reading, all_leaves, content, is_leaf
from perdure.state.survey import DEPTH_MAX, Survey
from perdure.state.watch import Long

APPENDED_MAX: Final = 64
"""Items appended at once: with more, the survey costs little in comparison."""

_DESCENDED: Final = frozenset({dict, list})


def light(
    nodes: Mapping[int, Node], parts: Mapping[str, Any], changed: Collection[Node], *, append_only: Mapping[int, str]
) -> tuple[Survey, list[Op]] | None:
    """The finished survey and the operations, if all changes are of this kind.

    `changed` are the containers that hold other objects than at the last save; `parts` are, the very same objects, the
    parts of then. `append_only` are the names of such parts by the id of their list.
    """
    survey = Survey(nodes, parts)
    survey.light = True
    ops: list[Op] = []
    for node in changed:
        path = _path(node, parts)
        if path is None:
            return None
        found = _found(survey, node, path, append_only)
        if found is None:
            return None
        ops += found
    return survey, ops


def _found(survey: Survey, node: Node, path: list[Any], append_only: Mapping[int, str]) -> list[Op] | None:
    """The operations of one container; None when they are of another kind."""
    block = node.block
    if type(block) is Long and block.came is not None:
        came = survey.grown[node] = block.came
        return _extended(survey, node, came, path, append_only)
    reading = survey.readings[node] = Reading(node)
    if type(reading.now) is dict:
        return _set(node, reading.now, path)
    return _listed(survey, node, reading, path, append_only)


def _path(node: Node, parts: Mapping[str, Any]) -> list[Any] | None:
    """Where the container is, if it stands in one place and so do all around it."""
    path: list[Any] = []
    while node.parent is not None and not node.more and type(node.live) is not tuple:
        parent = node.parent
        held = parts if parent.live is None else parent.live
        step = _step(node, held)
        if step is None:
            return None
        path.append(step)
        if parent.live is None:
            return path[::-1]
        node = parent
    return None


def _step(node: Node, held: Any) -> Any:
    """Where the node is in what holds it: mostly where it was."""
    value, step = node.live, node.step
    if type(held) is list:
        if type(step) is not int or not step < len(held) or held[step] is not value:
            at = find(raw(held.copy()), raw([value]))
            node.step = None if at < 0 else at
        return node.step
    if type(held) is tuple:
        return None
    if step is None or held.get(step) is not value:
        for key, each in held.items():
            if each is value:
                node.step = key
                return key
        return None
    return step


def _set(node: Node, now: dict[Any, Any], path: list[Any]) -> list[Op] | None:
    """The leaves that a small dict holds under the same keys in place of others; None when it is anything else."""
    old = node.old
    if len(now) != len(old) or len(now) > FEW or not all(map(is_, old, now)):
        return None
    ops: list[Op] = []
    for key, was, value in zip(now, old.values(), now.values(), strict=True):
        if was is value:
            continue
        if not is_leaf(type(was)) or not is_leaf(type(value)):
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
    if len(came) > APPENDED_MAX or not all(_taken(survey, item, node, calm, depth=len(path) + 1) for item in came):
        return None
    return [["extend", path, came]]


def _taken(survey: Survey, item: Any, parent: Node, calm: str | None, *, depth: int) -> bool:
    """Whether this is a leaf, or a dict or list that nothing else holds, of such."""
    kind = type(item)
    if is_leaf(kind):
        return True
    if kind not in _DESCENDED or depth > DEPTH_MAX or survey.node(item) is not None:
        return False
    fresh = survey.fresh[id(item)] = Node.of(item)
    survey.gained.append((fresh, parent))
    if calm is not None:
        survey.calm[fresh] = calm
    held = content(fresh.old)
    if kind is dict and not all_leaves(list(fresh.old)):
        return False
    fresh.plain = all_leaves(held)
    return fresh.plain or all(_taken(survey, each, fresh, calm, depth=depth + 1) for each in held)
