"""Which items of a list are still there, after items came, went or were replaced.

Works on positions: what identical, equal and alike mean is told by the caller.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """`size` items from `old` on in the old list stand from `new` on in the new one. `exact`: they are equal."""

    old: int
    new: int
    size: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Gap:
    """What stands between two runs: old items from `old` to `old_end`, new ones from `new` to `new_end`."""

    old: int
    old_end: int
    new: int
    new_end: int

    @property
    def is_open(self) -> bool:
        """Whether there are items on both sides."""
        return self.old < self.old_end and self.new < self.new_end


def gaps(runs: Sequence[Run], gap: Gap) -> list[Gap]:
    """What is left of `gap` between `runs` (ascending on both sides); gaps with nothing on either side are left out."""
    found, old, new = [], gap.old, gap.new
    for run in [*runs, Run(gap.old_end, gap.new_end, 0, exact=True)]:
        if run.old > old or run.new > new:
            found.append(Gap(old, run.old, new, run.new))
        old, new = run.old + run.size, run.new + run.size
    return found


def anchored(gap: Gap, old: Sequence[Hashable], new: Sequence[Hashable], *, exact: bool) -> list[Run]:
    """Runs of items whose names occur once on each side, in the longest ascending order; names begin at the gap."""
    if set(old).isdisjoint(new):
        return []
    there, here = _unique(old), _unique(new)
    pairs = [(there[name], j) for name, j in here.items() if name in there]
    runs: list[Run] = []
    for i, j in _ascending(pairs):
        last = runs[-1] if runs else None
        if last and (last.old + last.size, last.new + last.size) == (gap.old + i, gap.new + j):
            runs[-1] = Run(last.old, last.new, last.size + 1, exact=exact)
        else:
            runs.append(Run(gap.old + i, gap.new + j, 1, exact=exact))
    return runs


def _unique(names: Sequence[Hashable]) -> dict[Hashable, int]:
    found: dict[Hashable, int] = {}
    twice = set()
    for i, name in enumerate(names):
        if name in found:
            twice.add(name)
        found[name] = i
    return {name: i for name, i in found.items() if name not in twice}


def _ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence of pairs, ascending by the second, that ascends by the first as well."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for at, (i, _) in enumerate(pairs):
        place = bisect_left(tails, i)
        before.append(ends[place - 1] if place else -1)
        tails[place : place + 1] = [i]
        ends[place : place + 1] = [at]
    found = []
    at = ends[-1] if ends else -1
    while at >= 0:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]


def trimmed(gap: Gap, equal: Callable[[int, int], bool]) -> list[Run]:
    """The runs of equal items at the beginning and at the end of a gap."""
    most = min(gap.old_end - gap.old, gap.new_end - gap.new)
    head = 0
    while head < most and equal(gap.old + head, gap.new + head):
        head += 1
    tail = 0
    while tail < most - head and equal(gap.old_end - tail - 1, gap.new_end - tail - 1):
        tail += 1
    found = [
        Run(gap.old, gap.new, head, exact=True),
        Run(gap.old_end - tail, gap.new_end - tail, tail, exact=True),
    ]
    return [run for run in found if run.size]
