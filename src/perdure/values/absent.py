"""What is left of a value that holds something that cannot be stored: all the rest, and a mark in its place.

For snapshots that people look at. Whatever is saved to go on from is exact or refused, as `tree` says.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final

from perdure import limits
from perdure.errors import LimitError
from perdure.values import kinds, messagepack, registry
from perdure.values.describe import class_name
from perdure.values.path import Refusal, key_step
from perdure.values.shapes import is_model
from perdure.values.tree import Walk
from perdure.values.wire import CLASS, Tagged, pack_tree

TAG: Final = "perdure.AbsentValue"

_OPEN: Final = frozenset({"map", "tuple", "set", "frozenset", "deque", "ordered_dict", "defaultdict", "counter"})
"""Kinds that may hold a mark in place of any of their items; of the others, the whole is absent."""


@registry.storable(TAG)
@dataclass(frozen=True, slots=True)
class AbsentValue:
    """Stands in a snapshot for what could not be stored.

    `path` is where it was, `type` the name of its class, `why` the reason. `kept` is what could be kept of its content,
    None for nothing. `number` counts those of one part, so that two are never equal.
    """

    path: str
    type: str
    why: str
    number: int = 1
    kept: Any = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"<absent: {self.type} at {self.path}: {self.why}>"


def spare(value: Any, *, at: str = "$") -> tuple[Any, tuple[AbsentValue, ...]]:
    """A copy of `value` that can be stored, and the marks in it; `at` is where it is. Raises nothing.

    Of an instance of a class that is not registered, its fields are kept; of a dict, list, tuple or set of its own
    class, the items.
    """
    walk = _Sparing(at)
    try:
        kept = messagepack.decode(pack_tree(walk.node(value)))
        return kept, tuple(sorted(walk.absent, key=lambda mark: mark.number))
    except Exception as error:  # noqa: BLE001 - whatever taking it apart raises, the mark tells of it
        mark = AbsentValue(at, class_name(type(value)), f"it cannot be read: {type(error).__name__}: {error}"[:500])
        return mark, (mark,)


class _Sparing(Walk):
    """A walk that goes on where something is refused. `path` leads to where it is."""

    __slots__ = ("absent", "marks", "path")

    depth_max = limits.DEPTH_MAX - 10
    """There must be room for a mark, and for the delta around the value."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.absent: list[AbsentValue] = []
        self.path: list[str | tuple[kinds.Step, Any, int]] = [at]
        self.marks = 0

    def node(self, value: Any) -> Any:
        try:
            return super().node(value)
        except Refusal as refusal:
            return self._mark(value, refusal)
        except RecursionError:  # raised again by each level that has no room for the mark either
            return self._mark(value, Refusal("nested deeper than this thread's stack bears", limit=True))

    def _mark(self, value: Any, refusal: Refusal) -> Tagged:
        if self.marks >= limits.ABSENT_COUNT_MAX:
            raise LimitError(f"more than {limits.ABSENT_COUNT_MAX} values in it cannot be stored")
        self.marks += 1
        mark = AbsentValue("".join(map(_told, self.path)), class_name(type(value)), refusal.reason, self.marks)
        told = {name: super(_Sparing, self).node(getattr(mark, name)) for name in ("path", "type", "why", "number")}
        tree = Tagged(CLASS, [TAG, 1, {**told, "kept": self._kept(value, refusal)}])
        self.absent.append(mark)
        return tree

    def _kept(self, value: Any, refusal: Refusal) -> Any:
        key = id(value)
        if refusal.limit or key in self.inside:
            return None
        self.inside.add(key)
        try:
            return self.node(_content(value))
        finally:
            self.inside.discard(key)

    def _list(self, items: list[Any], *, of: Any = None, step: kinds.Step = kinds.list_step) -> list[Any]:
        self._count(len(items))
        out = []
        for number, item in enumerate(items):
            self.path.append((step, of, number))
            try:
                out.append(self.node(item))
            finally:
                self.path.pop()
        return out

    def _dict(self, items: dict[str, Any]) -> dict[str, Any]:
        self._count(len(items))
        out = {}
        for key, item in items.items():
            self.path.append(key_step(key))
            try:
                out[key] = self.node(item)
            finally:
                self.path.pop()
        return out

    def _kind(self, value: Any, kind: kinds.Kind) -> Any:
        return super()._kind(value, kind) if kind.name in _OPEN else Walk().node(value)


def _told(step: str | tuple[kinds.Step, Any, int]) -> str:
    """A step of a path. One in a long dict is looked up in it, so only those are that are told."""
    if isinstance(step, str):
        return step
    told, of, number = step
    return told(of, number)


_ITEMS: Final = (list, tuple, set, frozenset)


def _content(value: Any) -> Any:
    """What there is in a value whose class is not stored, as plain containers; none of its code is run."""
    cls = type(value)
    if issubclass(cls, dict):
        return dict.copy(value)
    if issubclass(cls, _ITEMS):
        own = next(base for base in _ITEMS if issubclass(cls, base))
        return [*own.__iter__(value)]
    if (dataclasses.is_dataclass(cls) or is_model(cls)) and cls.__dictoffset__:
        return dict(object.__getattribute__(value, "__dict__"))
    return None
