"""Where the large leaves are in encoded values: found in the MessagePack itself, which is never decoded for it.

A leaf is here whatever no change leads into: text, bytes, or a value of one of the kinds beyond plain ones, as a whole.
It knows no frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

FIXED: Final = [
    *[1] * 0xA0,  # small numbers, headers of small maps and arrays
    *range(1, 0x21),  # short text
    *(1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 5, 9, 2, 3, 5, 9, 2, 3, 5, 9),  # None, bools, numbers; 0: says its own length
    *(3, 4, 6, 10, 18, 0, 0, 0, 3, 5, 3, 5),  # small extensions; headers of arrays and maps
    *[1] * 0x20,
]
"""By its first byte, how long a node is, without what is inside of it; 0 for one that says its own length."""

LENGTHS: Final = {
    # bytes
    0xC4: (1, 0),
    0xC5: (2, 0),
    0xC6: (4, 0),
    # extensions, whose kind follows
    0xC7: (1, 1),
    0xC8: (2, 1),
    0xC9: (4, 1),
    # text
    0xD9: (1, 0),
    0xDA: (2, 0),
    0xDB: (4, 0),
}
"""By its first byte, how many bytes the length takes, and how many follow it before the content."""

_BYTES: Final = (0xC4, 0xC5, 0xC6)
_LONG: Final = (0xC6, 0xC9, 0xDB)
_SHORT_MAX: Final = 0xFFFF
"""Longer leaves have a length of four bytes."""


def large(data: bytes, *, least: int) -> list[tuple[int, int]]:
    """Begin and end of each leaf in the encoded dict `data` whose content has at least so many bytes, header included.

    What is bytes in `data` itself is an encoded value, and is looked into. Where something is not MessagePack, nothing
    more is found.
    """
    found: list[tuple[int, int]] = []
    for begin, end in _nodes(data, 0, len(data), least):
        inside = begin + 1 + LENGTHS[data[begin]][0]
        if data[begin] not in _BYTES:
            found.append((begin, end))
        elif _may_have(data, inside, end, least):
            found += _nodes(data, inside, end, least)
    return found


def _may_have(data: bytes, begin: int, end: int, least: int) -> bool:
    """Whether some bytes look like the header of a large leaf: finding none takes no time to speak of."""
    for lead in _LONG if least > _SHORT_MAX else LENGTHS:
        width, _ = LENGTHS[lead]
        at = data.find(lead, begin, end)
        while at >= 0:
            if least <= int.from_bytes(data[at + 1 : at + 1 + width]) < end - at:
                return True
            at = data.find(lead, at + 1, end)
    return False


def _nodes(data: bytes, at: int, end: int, least: int) -> Iterator[tuple[int, int]]:
    """The leaves of at least so many bytes, one after another: what is in a list or dict comes after its header."""
    while at < end:
        lead = data[at]
        size = FIXED[lead]
        if not size:
            if lead not in LENGTHS:
                return
            width, more = LENGTHS[lead]
            length = int.from_bytes(data[at + 1 : at + 1 + width])
            size = 1 + width + more + length
            if at + size > end:
                return
            if length >= least:
                yield at, at + size
        at += size
