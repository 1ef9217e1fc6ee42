"""How many values are in a piece of MessagePack: counted in its bytes, before anything is made of them.

A value takes a byte at least, so only what is longer than the bound needs to be counted at all. Where something is not
MessagePack the count ends: whoever decodes it finds that, too.
"""

from __future__ import annotations

from typing import Final

from perdure import limits
from perdure.values.leaves import FIXED, LENGTHS

_EXTENSIONS: Final = (0xC7, 0xC8, 0xC9)
_FIXED_EXTENSIONS: Final = frozenset(range(0xD4, 0xD9))


def is_too_many(data: bytes) -> bool:
    """Whether there are more than `limits.ENCODED_NODES_MAX` values in `data`, those inside of extensions included."""
    if len(data) <= limits.ENCODED_NODES_MAX:
        return False
    return _counted(data, bound=limits.ENCODED_NODES_MAX) > limits.ENCODED_NODES_MAX


def _counted(data: bytes, *, bound: int) -> int:
    at, end, count = 0, len(data), 0
    while at < end and count <= bound:
        lead = data[at]
        count += 1
        if lead in _FIXED_EXTENSIONS:
            at += 2
            continue
        size = FIXED[lead]
        if not size:
            if lead not in LENGTHS:
                break
            width, more = LENGTHS[lead]
            length = int.from_bytes(data[at + 1 : at + 1 + width])
            size = 1 + width + more + (0 if lead in _EXTENSIONS else length)
        at += size
    return count
