"""About how much a value weighs when it is encoded, without encoding it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from perdure import limits, values

_FIXED: Final = frozenset({type(None), bool, int, float})
_NUMBER: Final = 9


def weight(value: Any, most: int, *, other: Callable[[Any], int] = lambda _: _NUMBER) -> int:
    """About how many bytes `value` takes when it is encoded. Counting ends soon after `most`.

    `other` weighs what is neither a container nor a plain leaf.
    """
    total, pending = 0, [value]
    while pending and total < most:
        each = pending.pop()
        kind = type(each)
        if kind is str or kind is bytes:
            total += 2 + len(each)
        elif kind is dict:
            total += 2
            pending += each
            pending += each.values()
        elif kind is list or kind is tuple:
            total += 2
            pending += each
        else:
            total += _NUMBER if kind in _FIXED else other(each)
    return total


def stored_weight(value: Any, size: int) -> int:
    """As `weight`, of a value that was stored: exact for kinds beyond the plain ones.

    More than `size` as well for what has a leaf that bodies have in a chunk of its own: so it has the same one here.
    """
    heavy = weight(value, size + 1, other=_encoded)
    if limits.BLOB_BYTES_MIN <= heavy <= size and values.has_large_leaf(value):
        return size + 1
    return heavy


def _encoded(value: Any) -> int:
    return len(values.encode(value))
