"""About how much a value weighs when it is encoded, without encoding it."""

from __future__ import annotations

from typing import Any


def weight(value: Any, most: int) -> int:
    """About how many bytes `value` takes when it is encoded. Counting ends soon after `most`."""
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
            total += 9
    return total
