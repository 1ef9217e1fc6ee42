"""From what a state held and what it holds now to the operations that lead from one to the other.

Works on a finished survey: nodes for what was, copies for what is. The operations hold the live values; who encodes
them must check afterwards that they are still what the survey saw. The delta follows the change: a list is aligned, a
dict is compared key by key, whole values that were handed over anew are descended into; and where the operations
would weigh more than the value itself, the value is set.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_
from typing import Any

from perdure import values
from perdure.errors import StorableError
from perdure.state.align import Gap, Run, anchored, gaps, trimmed
from perdure.state.delta import Op, lead_there
from perdure.state.identity import FEW, WIDTH, differing, ends, positions, raw
from perdure.state.node import Node, content
from perdure.state.survey import Survey
from perdure.state.weight import weight

Path = list[Any]
_EQUAL_IS_SAME = frozenset({str, bytes, int, bool, type(None)})
_DESCENDED = frozenset({dict, list})
FEW_OPS = 6
"""So many operations are never much heavier than the value that they change."""

LONG, LONG_LOOK = 512, 64
"""Characters of a long text, and how many of them are looked at to find it again."""

_STEP_WEIGHT = 8
"""Bytes of one step of a path, about."""


class Comparison:
    """Finds the operations below one place."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey

    def differences(self, old: Any, new: Any, path: Path) -> list[Op]:
        """The operations that turn what `old` was at the last save into what `new` is now."""
        node = self.survey.nodes.get(id(old))
        if old is new and (node is None or not self.survey.is_touched(node)):
            return []
        if node is None or type(old) is not type(new) or type(new) not in (dict, list):
            return [] if self._equal(old, new) else [self._set(path, new)]
        ops = self._dict(node, new, path) if type(new) is dict else self._list(node, new, path)
        return self._lighter(ops, path, new)

    def _set(self, path: Path, value: Any) -> Op:
        return ["set", path, value]

    def _lighter(self, ops: list[Op], path: Path, new: Any) -> list[Op]:
        """The operations, or the one that sets the whole where that weighs less; a few are never much heavier."""
        if len(ops) <= FEW_OPS:
            return ops
        cost = sum(_STEP_WEIGHT * len(op[1]) + sum(weight(part, 1 << 40) for part in op[2:]) for op in ops)
        return ops if weight(new, cost) >= cost else [self._set(path, new)]

    # --- equality ----------------------------------------------------------------------------------------------------

    def _equal(self, old: Any, new: Any) -> bool:
        """Whether `new` is now, exactly, what `old` was at the last save."""
        node = self.survey.nodes.get(id(old))
        if old is new and (node is None or not self.survey.is_touched(node)):
            return True
        if type(old) is not type(new):
            return False
        if node is None:
            return values.same(old, new)
        now = self.survey.held(new)
        if type(old) not in values.CONTAINERS:
            return bool(node.old == now)
        return len(node.old) == len(now) and self._equal_content(node, now)

    def _equal_content(self, node: Node, now: Any) -> bool:
        if node.plain:
            return values.same(node.old, now)
        if type(now) is dict and not all(map(_same_key, node.old, now)):
            return False
        return all(map(self._equal, content(node.old), content(now)))

    # --- dicts -------------------------------------------------------------------------------------------------------

    def _dict(self, node: Node, new: Any, path: Path) -> list[Op]:
        old, now = node.old, self.survey.held(new)
        if old is now or (len(old) == len(now) and (all(map(is_, old, now)) or all(map(_same_key, old, now)))):
            ops = self._same_keys(node, now, path)
        else:
            ops = self._other_keys(node, now, path, ends(raw(list(old)), raw(list(now))))
        return ops if lead_there(ops, len(path)) else [self._set(path, new)]

    def _same_keys(self, node: Node, now: Any, path: Path) -> list[Op]:
        ops: list[Op] = []
        if len(now) > FEW:
            old, new, keys = content(node.old), content(now), list(now)
            for i in self._candidates(node, old, new):
                ops += self.differences(old[i], new[i], [*path, keys[i]])
            return ops
        touched = {id(kid.live) for kid in self.survey.dirty.get(node, ())}
        for key, was, value in zip(now, node.old.values(), now.values(), strict=True):
            if was is not value or id(value) in touched:
                ops += self.differences(was, value, [*path, key])
        return ops

    def _candidates(self, node: Node, old: list[Any], new: list[Any]) -> list[int]:
        a, b = raw(old), raw(new)
        found = differing(a, b)
        kids = [kid.live for kid in self.survey.dirty.get(node, ())]
        return sorted({*found, *positions(b, kids)}) if kids else found

    def _other_keys(self, node: Node, now: Any, path: Path, same: tuple[int, int]) -> list[Op]:
        """Of dicts whose keys are the same objects in the first and in the last so many of `same`."""
        start, end = same
        old_keys, keys = list(node.old), list(now)
        old_middle, middle, rest = (
            old_keys[start : len(old_keys) - end],
            keys[start : len(keys) - end],
            keys[len(keys) - end :],
        )
        spelled = dict(zip(middle, middle, strict=True))
        kept = {spelled[key]: None for key in old_middle if key in spelled and _same_key(key, spelled[key])}
        added = [key for key in middle if key not in kept]
        ops: list[Op] = [["del", [*path, key]] for key in old_middle if key not in kept]
        ops += self._ends(node, now, path, same)
        for key in kept:
            ops += self.differences(node.old[key], now[key], [*path, key])
        ops += [self._set([*path, key], now[key]) for key in added]
        moved = _moved([*kept, *rest, *added], [*middle, *rest])
        return [*ops, ["order", path, moved]] if moved else ops

    def _ends(self, node: Node, now: Any, path: Path, same: tuple[int, int]) -> list[Op]:
        start, end = same
        old, new, keys = content(node.old), content(now), list(now)
        ops: list[Op] = []
        for was, now_at, size in ((0, 0, start), (len(old) - end, len(new) - end, end)):
            for i in self._candidates(node, old[was : was + size], new[now_at : now_at + size]):
                ops += self.differences(old[was + i], new[now_at + i], [*path, keys[now_at + i]])
        return ops

    # --- lists -------------------------------------------------------------------------------------------------------

    def _list(self, node: Node, new: Any, path: Path) -> list[Op]:
        old, now = node.old, self.survey.held(new)
        a, b = raw(old), raw(now)
        runs = [Run(0, 0, len(old), exact=True)] if a == b else self._aligned(node, now, a, b)
        whole = Gap(0, len(old), 0, len(now))
        ops = [self._splice(path, gap, len(old), now) for gap in reversed(gaps(runs, whole))]
        kids = [kid.live for kid in self.survey.dirty.get(node, ())]
        touched = positions(b, kids) if kids else []
        for run in runs:
            for j in self._descended(run, a, b, touched):
                ops += self.differences(old[run.old + j - run.new], now[j], [*path, j])
        return ops

    def _descended(self, run: Run, a: bytes, b: bytes, touched: list[int]) -> Iterable[int]:
        if not run.exact:
            return range(run.new, run.new + run.size)
        if not touched:
            return ()
        shift = run.old - run.new
        inside = (j for j in touched if run.new <= j < run.new + run.size)
        return (j for j in inside if _slot(a, j + shift) == _slot(b, j))

    def _splice(self, path: Path, gap: Gap, size: int, now: list[Any]) -> Op:
        came = now[gap.new : gap.new_end]
        if gap.old == gap.old_end == size:
            return ["extend", path, came]
        return ["splice", path, gap.old, gap.old_end - gap.old, came]

    def _aligned(self, node: Node, now: list[Any], a: bytes, b: bytes) -> list[Run]:
        old, reading = node.old, self.survey.readings.get(node)
        start, end = reading.ends if reading and reading.ends and reading.now is now else ends(a, b)
        runs = [Run(0, 0, start, exact=True)] if start else []
        middle = Gap(start, len(old) - end, start, len(now) - end)
        if middle.is_open:
            same = anchored(
                middle, _numbers(a, middle.old, middle.old_end), _numbers(b, middle.new, middle.new_end), exact=True
            )
            for gap in gaps(same, middle):
                same += self._alike(old, now, gap)
            runs += sorted(same, key=_by_new)
        if end:
            runs.append(Run(len(old) - end, len(now) - end, end, exact=True))
        return runs

    def _alike(self, old: list[Any], now: list[Any], gap: Gap) -> list[Run]:
        if not gap.is_open:
            return []
        runs = trimmed(gap, lambda i, j: self._equal(old[i], now[j]))
        for inner in gaps(runs, gap):
            if inner.is_open:
                runs += self._paired(old, now, inner)
        return runs

    def _paired(self, old: list[Any], now: list[Any], gap: Gap) -> list[Run]:
        runs: list[Run] = []
        if gap.old_end - gap.old > 1 or gap.new_end - gap.new > 1:
            there = [self._print(each, was=True) for each in old[gap.old : gap.old_end]]
            here = [self._print(each, was=False) for each in now[gap.new : gap.new_end]]
            runs = anchored(gap, there, here, exact=False)
        for inner in gaps(runs, gap):
            for i, j in zip(range(inner.old, inner.old_end), range(inner.new, inner.new_end), strict=False):
                if type(now[j]) in _DESCENDED and self._related(old[i], now[j]):
                    runs.append(Run(i, j, 1, exact=False))
        return sorted(runs, key=_by_new)

    def _print(self, value: Any, *, was: bool) -> Any:
        """What an item is found again by. Items of the same print are still compared."""
        if type(value) is str and len(value) > LONG:
            middle = len(value) // 2  # where texts made from a template differ; to hash all of it takes longer
            return len(value), value[middle : middle + LONG_LOOK]
        if type(value) in _EQUAL_IS_SAME:
            return type(value), value
        try:
            return values.encode(self._was(value) if was else value)
        except StorableError:
            return id(value)

    def _was(self, value: Any) -> Any:
        """What `value` was at the last save, as a value of its own; of a leaf that can change only its mark."""
        node = self.survey.nodes.get(id(value))
        if node is None:
            return value
        if node.plain or type(value) not in values.CONTAINERS:
            return node.old
        if type(value) is dict:
            return dict(zip(node.old, map(self._was, node.old.values()), strict=True))
        return type(value)(map(self._was, node.old))

    def _related(self, old: Any, new: Any) -> bool:
        """Whether it is worth to descend: both are dicts with an equal entry, or both lists."""
        if type(old) is not type(new):
            return False
        if type(new) is list:
            return True
        was, now = self.survey.nodes[id(old)].old, self.survey.held(new)
        return any(key in was and self._equal(was[key], value) for key, value in now.items())


def _same_key(old: Any, new: Any) -> bool:
    return old is new or values.same(old, new)


def _numbers(ids: bytes, start: int, end: int) -> list[int]:
    return memoryview(ids)[start * WIDTH : end * WIDTH].cast("Q").tolist()


def _slot(ids: bytes, at: int) -> bytes:
    return ids[at * WIDTH : (at + 1) * WIDTH]


def _by_new(run: Run) -> int:
    return run.new


def _moved(have: list[Any], want: list[Any]) -> list[Any]:
    """The keys that must go to the end, in order, to turn one order into the other."""
    at = 0
    for key in have:
        if at < len(want) and key is want[at]:
            at += 1
    return want[at:]
