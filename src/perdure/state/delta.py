"""A delta: the list of operations that turns one plain state into the next.

An operation is a plain list, as it is stored. Its second element is a *path*: the keys that lead from the state's
outermost dict (whose keys are the names of the parts) to the place that changes. A step is a dict's key, of any
storable type, or a list's index, never negative. Only the path of an "order" may be empty: the parts themselves.

    ["set", path, value]                      the value there is this one; a new key goes to the end of its dict
    ["del", path]                             the key is gone from its dict
    ["extend", path, values]                  the list there goes on with these values
    ["splice", path, start, deleted, values]  in the list there, these stand in place of `deleted` items from `start` on
    ["order", path, keys]                     these keys of the dict there go to its end, in this order

Operations apply in order, each to the result of the ones before it. No path leads through a tuple or a value that is
not a dict or a list: a change inside of one sets the whole of it. Nor does one lead by a key that a copy of it does not
find again (NaN): what changes in a dict under such a key sets the whole dict. This module knows nothing of how a delta
is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Final

from perdure import values
from perdure.errors import DamageError, StorableError

Op = list[Any]
State = dict[str, Any]

_path: Final = itemgetter(1)
_FOUND_AGAIN: Final = frozenset({str, bytes, int, bool, type(None)})


def _is_found_again(key: Any) -> bool:
    """Whether a copy of this key of a dict leads to the same entry; False for NaN and what contains it."""
    try:
        return bool(values.decode(values.encode(key)) == key)
    except StorableError:  # which is told, with its place, when it is encoded
        return True


def lead_there(ops: Sequence[Op], depth: int = 0) -> bool:
    """Whether operations find their places in a copy of the state, from the dict at this depth of their paths on.

    An order of that dict's keys is the last of them; those of dicts inside of it have been asked about before.
    """
    order = ops[-1][2] if ops and ops[-1][0] == "order" else ()
    keys = chain(chain.from_iterable(map(_path, ops)), order)
    if _FOUND_AGAIN.issuperset(map(type, keys)):
        return True
    return all(map(_is_found_again, chain(*(op[1][depth:] for op in ops), order)))


def patch(state: State, ops: list[Op]) -> State:
    """Applies `ops` to `state`, in place, and returns it. The values in `ops` become part of it: decode them for this.

    Raises `DamageError` when an operation does not fit the state; the operations before it are applied by then.
    """
    for op in ops:
        apply(state, op)
    return state


def apply(state: Any, op: Op) -> None:
    """Applies one operation. Raises `DamageError` when it does not fit."""
    try:
        _KINDS[op[0]](state, *op[1:])
    except (LookupError, TypeError, ValueError) as error:
        raise DamageError(f"a change does not fit the state: {_shown(op)}: {error}") from error


def _shown(op: Any) -> str:
    return f"{op[0]!r} at {op[1]!r}" if type(op) is list and len(op) > 1 else f"a {type(op).__name__}"


def reach(state: Any, path: list[Any]) -> Any:
    """The value at `path`. Raises `LookupError` or `TypeError` when there is none."""
    for step in path:
        state = child(state, step)
    return state


def child(parent: Any, step: Any) -> Any:
    """What is under one step of a path. Raises `LookupError` or `TypeError`."""
    if type(parent) is list:
        _within(step, len(parent) - 1)
    elif type(parent) is not dict:
        raise TypeError(f"a path leads through a {type(parent).__name__}")
    return parent[step]


def _within(number: Any, most: int) -> None:
    if type(number) is not int or not 0 <= number <= most:
        raise ValueError(f"{number!r} is not a number from 0 to {most}")


def _parent(state: Any, path: list[Any]) -> tuple[Any, Any]:
    return reach(state, path[:-1]), path[-1]


def _exactly(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"there is a {type(value).__name__} in place of a {kind.__name__}")
    return value


def _set(state: Any, path: list[Any], value: Any) -> None:
    parent, step = _parent(state, path)
    if type(parent) is list:
        _within(step, len(parent) - 1)
        parent[step] = value
    else:
        _exactly(parent, dict)[step] = value


def _delete(state: Any, path: list[Any]) -> None:
    parent, step = _parent(state, path)
    del _exactly(parent, dict)[step]


def _extend(state: Any, path: list[Any], values: list[Any]) -> None:
    _exactly(reach(state, path), list).extend(_exactly(values, list))


def _splice(state: Any, path: list[Any], start: int, deleted: int, values: list[Any]) -> None:
    items = _exactly(reach(state, path), list)
    _within(start, len(items))
    _within(deleted, len(items) - start)
    items[start : start + deleted] = _exactly(values, list)


def _order(state: Any, path: list[Any], keys: list[Any]) -> None:
    entries = _exactly(reach(state, path), dict)
    for key in _exactly(keys, list):
        entries[key] = entries.pop(key)


_KINDS: Final[dict[Any, Callable[..., None]]] = {
    "set": _set,
    "del": _delete,
    "extend": _extend,
    "splice": _splice,
    "order": _order,
}
