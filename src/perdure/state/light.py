"""The changes that most saves consist of, found without a survey: leaves set in small dicts, items appended to lists.

Such changes move, remove and share nothing, so the containers around them need no look. Whatever is not plainly of this
kind is left to the survey, which finds the same for these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import is_
from typing import Any, Final

from perdure import values
from perdure.state.delta import Op
from perdure.state.identity import FEW, WIDTH, find, raw
from perdure.state.node import Node, Reading, all_leaves
from perdure.state.survey import DEPTH_MAX, Survey

APPENDED_MAX: Final = 64
"""Items appended at once: with more, the survey costs little in comparison."""


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
        reading = Reading(node)
        now = reading.now
        found = _set(node, now, path) if type(now) is dict else _appended(survey, node, now, path, append_only)
        if found is None:
            return None
        survey.readings[node] = reading
        ops += found
    return survey, ops


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
    if not node.plain or len(now) != len(old) or len(now) > FEW or not all(map(is_, old, now)):
        return None
    held = list(now.values())
    if not all_leaves(held):
        return None
    return [
        ["set", [*path, key], value]
        for key, was, value in zip(now, old.values(), held, strict=True)
        if was is not value and not values.same(was, value)
    ]


def _appended(
    survey: Survey, node: Node, now: list[Any], path: list[Any], append_only: Mapping[int, str]
) -> list[Op] | None:
    """The items that a list holds after those that it held; None when it is anything else, or they hold others."""
    size = len(node.old)
    if (
        not size < len(now) <= size + APPENDED_MAX
        or len(path) >= DEPTH_MAX
        or raw(now)[: size * WIDTH] != raw(node.old)
    ):
        return None
    came = now[size:]
    calm = append_only.get(id(node.live))
    for item in came:
        if not _taken(survey, item, node, calm):
            return None
    return [["extend", path, came]]


def _taken(survey: Survey, item: Any, parent: Node, calm: str | None) -> bool:
    if type(item) is not dict:
        return all_leaves([item])
    fresh = Node.of(item)
    if survey.node(item) is not None or not all_leaves(list(fresh.old.values())) or not all_leaves(list(fresh.old)):
        return False
    survey.fresh[id(item)] = fresh
    survey.gained.append((fresh, parent))
    if calm is not None:
        survey.calm[fresh] = calm
    return True
