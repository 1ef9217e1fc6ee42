"""Which values are exactly the same: same type, value and order all the way down, which `==` does not say.

1, True and 1.0 differ here, as do 0.0 and -0.0, Decimal 1.0 and 1.00, and dicts in another order. What is not a plain
container or leaf is compared by its encoding.
"""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import ipaddress
import pathlib
import re
import struct
import uuid
import zoneinfo
from enum import Enum
from typing import Any, Final

from perdure.values import arrays, messagepack, registry
from perdure.values.opaque import Opaque
from perdure.values.secret import Secret

CONTAINERS: Final[frozenset[type]] = frozenset({dict, list, tuple})
"""Exact types whose children are compared one by one; everything else that can be stored is a leaf."""

IMMUTABLE: Final[frozenset[type]] = frozenset(
    {
        *(type(None), bool, int, float, complex, str, bytes, range, type(Ellipsis)),
        *(decimal.Decimal, fractions.Fraction, uuid.UUID, re.Pattern, Opaque, Secret),
        *(dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone, zoneinfo.ZoneInfo),
        *(pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath),
        *(ipaddress.IPv4Address, ipaddress.IPv4Network, ipaddress.IPv4Interface),
        *(ipaddress.IPv6Address, ipaddress.IPv6Network, ipaddress.IPv6Interface),
    }
)
"""Exact types of leaves that cannot change in place: the same object is the same value for ever."""

_EQUAL_IS_SAME: Final = frozenset({type(None), bool, int, str, bytes})


def is_immutable(cls: type) -> bool:
    """Whether instances of exactly `cls` cannot change in place: `IMMUTABLE`, registered enums, scalars of numpy."""
    if cls in IMMUTABLE:
        return True
    if cls in CONTAINERS:
        return False
    if arrays.is_immutable(cls):
        return True
    return issubclass(cls, Enum) and registry.entry_of(cls) is not None


def same(a: Any, b: Any) -> bool:
    """Whether `a` and `b` are the same value exactly: whether their encodings are equal.

    Plain containers and leaves are compared without encoding them. Raises UnstorableError if it meets values that are
    not the same object and cannot be stored. Must not be given a value that contains itself.
    """
    kind = type(a)
    if kind in _EQUAL_IS_SAME:
        return kind is type(b) and a == b
    if kind not in CONTAINERS:
        return a is b or (kind is type(b) and _same_leaf(a, b, kind))
    pending = [(a, b)]
    while pending:
        one, other = pending.pop()
        if one is other:
            continue
        cls = type(one)
        if cls is not type(other):
            return False
        if cls in CONTAINERS:
            if not _open(one, other, cls, pending):
                return False
        elif not _same_leaf(one, other, cls):
            return False
    return True


def _open(one: Any, other: Any, cls: type, pending: list[tuple[Any, Any]]) -> bool:
    if len(one) != len(other):
        return False
    if cls is dict:
        pending.extend(zip(one.values(), other.values(), strict=True))
        pending.extend(zip(one, other, strict=True))
    else:
        pending.extend(zip(one, other, strict=True))
    return True


def _same_leaf(one: Any, other: Any, cls: type) -> bool:
    if cls in _EQUAL_IS_SAME:
        return bool(one == other)
    if cls is float:
        return struct.pack("<d", one) == struct.pack("<d", other)
    return messagepack.encode(one, at="$") == messagepack.encode(other, at="$")
