"""Which objects a container refers to, as raw bytes: eight per object, so that thousands are compared in a microsecond.

Two equal runs of bytes mean the same objects in the same order, as long as one side is kept alive. On CPython the bytes
are read from a list's own array; elsewhere, or when the check at import fails, they are put together from `id`, which
means the same and is slower. Nothing here looks at the value of an object or calls any of its methods.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from array import array
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any, Final

WIDTH: Final = 8
"""Bytes per object."""

FEW: Final = 32
"""Up to so many objects, looking at one after the other costs less than reading them as bytes."""

_SIZE_OFFSET: Final = 16
"""Of a list's size, after reference count and type."""

_ITEMS_OFFSET: Final = 24
"""Of the pointer to a list's array, after its size."""

_LOW_BYTES: Final = 3 if sys.byteorder == "little" else WIDTH


def _from_ids(items: list[Any]) -> bytes:
    return array("Q", map(id, items)).tobytes()


def _from_memory(items: list[Any]) -> bytes:
    if not items:
        return b""
    array = _pointer(id(items) + _ITEMS_OFFSET).value
    return _bytes(array)[: WIDTH * len(items)]  # type: ignore[arg-type, return-value]


_pointer = ctypes.c_void_p.from_address
_bytes = (ctypes.c_char * sys.maxsize).from_address
"""Memory as bytes, which only a slice of it reads: half of what `ctypes.string_at` takes."""


def _readable() -> bool:
    """Whether this interpreter lays out a list as `_from_memory` needs it."""
    if sys.implementation.name != "cpython" or list.__basicsize__ != 40 or ctypes.sizeof(ctypes.c_void_p) != WIDTH:
        return False
    items: list[Any] = [object(), "text", 1, None]
    return _from_memory(items) == _from_ids(items)


raw: Final[Callable[[list[Any]], bytes]] = _from_memory if _readable() else _from_ids
"""The identities of a list's items. The list must be one that no other thread can change."""


def _in_one_step(items: list[Any]) -> Callable[[], bytes]:
    size = ctypes.c_ssize_t.from_address(id(items) + _SIZE_OFFSET)
    array = ctypes.POINTER(ctypes.c_char).from_address(id(items) + _ITEMS_OFFSET)
    # The interpreter changes threads, and collects garbage, only where something is called or a container is made. From
    # the size on nothing is called here, and the slice is the first one, which is kept for the next.
    return lambda: array[:0] + array[: size.value * WIDTH]  # type: ignore[return-value]


def _has_one_lock() -> bool:
    return raw is _from_memory and getattr(sys, "_is_gil_enabled", lambda: True)()


def look(items: list[Any]) -> Callable[[], bytes]:
    """What gives the identities of a list's items at this instant, whoever changes it; the list must be kept alive.

    It touches none of the items, which for a long list is most of what a copy takes.
    """
    return _in_one_step(items) if _has_one_lock() else lambda: raw(items.copy())


def _traversed(*containers: Any) -> list[Any]:
    return [item for each in containers for item in (each.values() if type(each) is dict else reversed(each))]


def _traverses() -> bool:
    """Whether `gc.get_referents` gives the values of a dict and the items of lists and tuples, all of them."""
    one, two = object(), object()
    found = gc.get_referents({"a": one, "b": two, "c": two}, [one, two], (two, one, one), (), {})
    return raw(found) == raw([one, two, two, two, one, one, one, two])


referents: Final[Callable[..., list[Any]]] = gc.get_referents if _traverses() else _traversed
"""What each of these containers refers to: the items; of a dict the values, and its keys unless all are strings."""


_VERSION_AT: Final = 24
"""Where the version of a dict stands, after reference count, type and size; until CPython 3.12."""


def _words() -> Any:
    """Memory as numbers of eight bytes. Only what is asked for is read."""
    return memoryview((ctypes.c_char * (sys.maxsize // WIDTH * WIDTH)).from_address(0)).cast("B").cast("Q")


def version_place(container: Any) -> int:
    """Where among the `words` the version of this dict stands; the dict must be kept alive."""
    return (id(container) + _VERSION_AT) // WIDTH


def _has_versions() -> bool:
    """Whether a dict has, where it is looked for, a number that every change makes one that no dict had before."""
    if raw is not _from_memory or sys.version_info >= (3, 13):
        return False
    one: dict[Any, int] = {"a": 1}
    words, seen = _words(), set()
    changes: list[Callable[[], Any]] = [
        lambda: one.__setitem__("b", 2),
        lambda: one.__setitem__("b", 3),
        lambda: one.pop("a"),
        lambda: one.update(a=1),
        lambda: one.setdefault("c", 4),
        lambda: one.__ior__({"d": 5}),
        lambda: one.__delitem__("d"),
        one.popitem,
        one.clear,
        lambda: one.__setitem__(1, 1),
    ]
    for change in changes:
        seen.add(words[version_place(one)])
        change()
    now = words[version_place(one)]
    return len({*seen, now}) == len(changes) + 1 and now == words[version_place(one)] and 0 not in seen


VERSIONED: Final = _has_versions()
"""Whether a look at the versions of dicts says which were changed; it is half the cost of looking at all they hold."""

words: Final[Any] = _words() if VERSIONED else None

UNKNOWN: Final = 0
"""No dict has this version."""


def version(container: Any) -> int:
    """The version of a dict now; `UNKNOWN` where there are none, and for anything else."""
    return words[(id(container) + _VERSION_AT) // WIDTH] if VERSIONED and type(container) is dict else UNKNOWN


def prefix(a: bytes, b: bytes) -> int:
    """How many objects `a` and `b` begin with in common."""
    low, high = 0, min(len(a), len(b)) // WIDTH
    if a[:WIDTH] != b[:WIDTH]:
        return 0
    if a.startswith(b) or b.startswith(a):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if a.startswith(b[low * WIDTH : middle * WIDTH], low * WIDTH):
            low = middle
        else:
            high = middle
    return low


def suffix(a: bytes, b: bytes, *, most: int) -> int:
    """How many objects `a` and `b` end with in common, at most `most`."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        size = middle * WIDTH
        if a[len(a) - size : len(a) - low * WIDTH] == b[len(b) - size : len(b) - low * WIDTH]:
            low = middle
        else:
            high = middle
    return low


def ends(a: bytes, b: bytes) -> tuple[int, int]:
    """How many objects `a` and `b` begin with in common, and how many, of the others, they end with in common."""
    start = prefix(a, b)
    return start, suffix(a, b, most=min(len(a), len(b)) // WIDTH - start)


def identical(a: list[Any], b: list[Any]) -> bool:
    """Whether two lists hold the same objects in the same order."""
    if len(a) != len(b):
        return False
    return all(map(is_, a, b)) if len(a) <= FEW else raw(a) == raw(b)


def differing(a: bytes, b: bytes) -> list[int]:
    """Where `a` and `b`, of equal length, differ: the numbers of the objects, ascending."""
    found: list[int] = []
    pending = [(0, len(a))]
    while pending:
        start, end = pending.pop()
        if a[start:end] == b[start:end]:
            continue
        if end - start == WIDTH:
            found.append(start // WIDTH)
            continue
        middle = (start + end) // (2 * WIDTH) * WIDTH
        pending += ((middle, end), (start, middle))
    return found


def find(ids: bytes, sought: bytes, start: int = 0) -> int:
    """The number of the first object from `start` on whose identity is `sought`, or -1.

    Searches for the low bytes only: the others are alike in most addresses, which makes a search much slower.
    """
    low, at = sought[:_LOW_BYTES], start * WIDTH
    while (at := ids.find(low, at)) >= 0:
        if at % WIDTH == 0 and ids[at : at + WIDTH] == sought:
            return at // WIDTH
        at += 1
    return -1


def positions(ids: bytes, objects: Iterable[Any]) -> list[int]:
    """The numbers at which any of `objects` stands, ascending."""
    found: list[int] = []
    for each in objects:
        sought = raw([each])
        at = find(ids, sought)
        while at >= 0:
            found.append(at)
            at = find(ids, sought, at + 1)
    return sorted(found)
