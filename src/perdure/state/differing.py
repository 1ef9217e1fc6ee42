"""Where two states differ first: the path to the place, and what is at it in each.

Exact, as everything that is compared. For people who look for a cause; what is stored of a change is for `delta`.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from perdure import values


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = _Absent()
"""Stands for what is not there in one of the two."""

Difference: TypeAlias = tuple[list[Any], Any, Any]
"""The keys that lead to the place, and the two values at it."""


def first_difference(one: Any, other: Any) -> Difference | None:
    """The first place, in the order of `one`, at which the two differ; None when they are the same.

    Keys of a dict that are the same in another order are a difference of the dict.
    """
    if values.same(one, other):
        return None
    return _within([], one, other)


def _within(path: list[Any], one: Any, other: Any) -> Difference:
    inside = _children(one, other)
    for key, mine, theirs in inside:
        if mine is ABSENT or theirs is ABSENT or not values.same(mine, theirs):
            deeper = [*path, key]
            return (deeper, mine, theirs) if ABSENT in (mine, theirs) else _within(deeper, mine, theirs)
    return path, one, other


def _children(one: Any, other: Any) -> list[tuple[Any, Any, Any]]:
    """Each key of the two, with what is there in each; nothing for what is not looked into."""
    if type(one) is not type(other):
        return []
    if type(one) is dict:
        if not values.same([*one], [*other]) and {*one} == {*other}:
            return []
        return [(key, one.get(key, ABSENT), other.get(key, ABSENT)) for key in dict.fromkeys([*one, *other])]
    if type(one) in (list, tuple):
        length = max(len(one), len(other))
        padded = [[*each, *[ABSENT] * (length - len(each))] for each in (one, other)]
        return [(index, mine, theirs) for index, (mine, theirs) in enumerate(zip(*padded, strict=True))]
    return []
