"""Values that are handed over whole each time: what changed since the last one, as the same exact delta.

A framework copies or rebuilds its state between two saves, so nothing follows from the identity of its objects. What
is kept of the last value is therefore its encoded form, part by part and item by item: equal bytes mean equal values,
in type and order. Only what differs is decoded and looked into. Nothing here knows of sessions or writes anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any

from perdure import values
from perdure.errors import StateChangedError
from perdure.state.align import Gap, Run, anchored, gaps, trimmed
from perdure.state.delta import Op, lead_there

Path = list[Any]
Form = list[bytes] | dict[bytes, tuple[Any, bytes]] | bytes
"""How a value is kept: the encoded items of a list; the entries of a dict under their encoded keys; else its bytes."""

FEW_OPS = 6
"""So many operations are never much longer than the value that they change."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What turns the last value into the new one: `ops` as `perdure.patch` takes them, `data` their encoded form.

    True when there is any difference.
    """

    ops: list[Op]
    data: bytes
    forms: dict[str, Form] = field(repr=False)
    since: int = field(repr=False)

    def __bool__(self) -> bool:
        return bool(self.ops)


class Baseline:
    """The last saved form of a value that somebody else owns: a dict of parts by name.

    `compare` costs one encoding of the new value, whatever of it was copied; the values are not kept. Not for several
    threads at once.
    """

    def __init__(self, parts: Mapping[str, Any] | None = None) -> None:
        self._forms = _forms(parts or {})
        self._moved = 0

    def compare(self, parts: Mapping[str, Any]) -> Difference:
        """What differs now. The baseline stays as it is until `advance`.

        Raises `UnstorableError` and `LimitError` with the path of what cannot be stored exactly.
        """
        forms = _forms(parts)
        ops: list[Op] = [["del", [name]] for name in self._forms if name not in forms]
        for name, form in forms.items():
            ops += _differences(self._forms[name], form, parts[name], [name]) if name in self._forms else ()
            ops += () if name in self._forms else [["set", [name], parts[name]]]
        have = [name for name in self._forms if name in forms] + [name for name in forms if name not in self._forms]
        ops += [] if have == list(forms) else [["order", [], list(forms)]]
        return Difference(ops, values.encode(ops), forms, self._moved)

    def advance(self, difference: Difference) -> None:
        """The difference is saved: the new value is the last one. Raises `StateChangedError` for an old one."""
        if difference.since != self._moved:
            raise StateChangedError("this difference was made before the baseline last moved; compare again")
        self._forms = difference.forms
        self._moved += 1


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Op]:
    """The operations that turn one dict of parts into another. Raises `UnstorableError`, `LimitError`."""
    return Baseline(old).compare(new).ops


def _forms(parts: Mapping[str, Any]) -> dict[str, Form]:
    return {name: _form(value, at=f"$.{name}") for name, value in parts.items()}


def _form(value: Any, *, at: str = "$") -> Form:
    if type(value) is list:
        return [values.encode(item, at=f"{at}[{i}]") for i, item in enumerate(value)]
    if type(value) is dict:
        return {values.encode(key, at=at): (key, values.encode(each, at=f"{at}.{key}")) for key, each in value.items()}
    return values.encode(value, at=at)


def _differences(old: Form, new: Form, value: Any, path: Path) -> list[Op]:
    if old == new and _same_order(old, new):
        return []
    if type(old) is list and type(new) is list:
        return _lists(old, new, value, path)
    if type(old) is dict and type(new) is dict:
        return _dicts(old, new, path, value)
    return [["set", path, value]]


def _same_order(old: Form, new: Form) -> bool:
    return type(old) is not dict or list(old) == list(new)


def _below(old: bytes, new: bytes, value: Any, path: Path) -> list[Op]:
    """The operations below one place whose encoded forms differ; or the one that sets it where that is shorter."""
    was = values.decode(old)
    if type(was) is not type(value) or type(value) not in (list, dict):
        return [["set", path, value]]
    ops = _differences(_form(was), _form(value), value, path)
    heavy = len(ops) > FEW_OPS and len(values.encode(ops)) >= len(new)
    return [["set", path, value]] if heavy else ops


# --- dicts ------------------------------------------------------------------------------------------------------------


def _dicts(
    old: dict[bytes, tuple[Any, bytes]], new: dict[bytes, tuple[Any, bytes]], path: Path, value: dict[Any, Any]
) -> list[Op]:
    ops: list[Op] = [["del", [*path, key]] for name, (key, _) in old.items() if name not in new]
    for name, (key, now) in new.items():
        if name not in old:
            ops.append(["set", [*path, key], value[key]])
        elif old[name][1] != now:
            ops += _below(old[name][1], now, value[key], [*path, key])
    have = [name for name in old if name in new] + [name for name in new if name not in old]
    moved = _moved(have, list(new))
    ops += [["order", path, [new[name][0] for name in moved]]] if moved else []
    return ops if lead_there(ops, len(path)) else [["set", path, value]]


def _moved(have: list[bytes], want: list[bytes]) -> list[bytes]:
    """The keys that must go to the end, in order, to turn one order into the other."""
    at = 0
    for name in have:
        if at < len(want) and name == want[at]:
            at += 1
    return want[at:]


# --- lists ------------------------------------------------------------------------------------------------------------


def _lists(old: list[bytes], new: list[bytes], value: list[Any], path: Path) -> list[Op]:
    whole = Gap(0, len(old), 0, len(new))
    runs = trimmed(whole, lambda i, j: old[i] == new[j])
    for gap in gaps(runs, whole):
        if gap.is_open:
            runs += anchored(gap, old[gap.old : gap.old_end], new[gap.new : gap.new_end], exact=True)
    runs.sort(key=_by_new)
    pairs = [pair for gap in gaps(runs, whole) if gap.is_open for pair in _pairs(old, value, gap)]
    runs = sorted([*runs, *pairs], key=_by_new)
    ops = [_splice(path, gap, len(old), value) for gap in reversed(gaps(runs, whole))]
    for pair in pairs:
        ops += _below(old[pair.old], new[pair.new], value[pair.new], [*path, pair.new])
    return ops


def _by_new(run: Run) -> int:
    return run.new


def _pairs(old: list[bytes], value: list[Any], gap: Gap) -> list[Run]:
    """Items in the same place of a gap that have something in common: they are looked into instead of replaced."""
    found = zip(range(gap.old, gap.old_end), range(gap.new, gap.new_end), strict=False)
    return list(starmap(_pair, (pair for pair in found if _related(old[pair[0]], value[pair[1]]))))


def _pair(old: int, new: int) -> Run:
    return Run(old, new, 1, exact=False)


def _related(old: bytes, value: Any) -> bool:
    if type(value) not in (list, dict):
        return False
    was = values.decode(old)
    if type(value) is list:
        return type(was) is list
    return type(was) is dict and any(key in was and values.same(was[key], each) for key, each in value.items())


def _splice(path: Path, gap: Gap, size: int, value: list[Any]) -> Op:
    came = value[gap.new : gap.new_end]
    if gap.old == gap.old_end == size:
        return ["extend", path, came]
    return ["splice", path, gap.old, gap.old_end - gap.old, came]
