"""Arrays and scalars of numpy, as two classes under reserved tags. numpy is looked up among the loaded modules only.

Stored with dtype (byte order, fields), shape, order (C or Fortran) and whether it is writeable. A view that is neither
C nor Fortran contiguous comes back as a C contiguous array. Dtypes with objects or with
bytes between their fields are refused.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Final

from perdure.errors import TagError
from perdure.values.path import Refusal
from perdure.values.shapes import Upcast

ARRAY_TAG: Final = "numpy.ndarray"
SCALAR_TAG: Final = "numpy.scalar"
RESERVED: Final = (ARRAY_TAG, SCALAR_TAG)


def tag_of(cls: type) -> str | None:
    """The reserved tag for values whose exact type is `cls`, if it is one of numpy's."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not cls.__module__.startswith("numpy"):
        return None
    if cls is numpy.ndarray:
        return ARRAY_TAG
    return SCALAR_TAG if issubclass(cls, numpy.generic) and cls is not numpy.object_ else None


def is_immutable(cls: type) -> bool:
    """Whether `cls` is a scalar of numpy; those with fields can change."""
    return tag_of(cls) == SCALAR_TAG and not issubclass(cls, sys.modules["numpy"].void)


def shape_named(tag: str) -> ArrayShape | ScalarShape | None:
    """What rebuilds values under a reserved tag; None while numpy is not loaded."""
    if tag not in RESERVED or "numpy" not in sys.modules:
        return None
    return ArrayShape() if tag == ARRAY_TAG else ScalarShape()


def _describe(dtype: Any) -> Any:
    """A dtype as str, or as a list of its fields. Raises Refusal if that does not give the same dtype again."""
    refusal = Refusal(f"an array of dtype {dtype} cannot be stored exactly")
    if dtype.hasobject or dtype.metadata:
        raise refusal
    described = _lists(sys.modules["numpy"].lib.format.dtype_to_descr(dtype))
    try:
        again = _dtype(described)
    except (ValueError, TypeError) as error:
        raise refusal from error
    if not _is_same(again, dtype) or _is_padded(described):
        raise refusal
    return described


def _is_same(one: Any, other: Any) -> bool:
    return bool(one == other) and one.type is other.type and one.isalignedstruct == other.isalignedstruct


def _is_padded(described: Any) -> bool:
    """Whether there are bytes between fields: numpy leaves them to chance in a copy."""
    return isinstance(described, list) and any(field[0] == "" or _is_padded(field[1]) for field in described)


def _dtype(described: Any) -> Any:
    numpy = sys.modules["numpy"]
    dtype = numpy.lib.format.descr_to_dtype(_tuples(described))
    if dtype.hasobject:
        raise TagError("a stored array of objects")
    return dtype


def _lists(described: Any) -> Any:
    return [_lists(item) for item in described] if isinstance(described, (list, tuple)) else described


def _tuples(described: Any) -> Any:
    """Fields are tuples in a list; in them the title with its name and the shape of a subarray are tuples."""
    if not isinstance(described, list):
        return described
    return [tuple(tuple(part) if _is_flat(part) else _tuples(part) for part in field) for field in described]


def _is_flat(part: Any) -> bool:
    return isinstance(part, list) and not any(isinstance(item, list) for item in part)


class ArrayShape:
    """A numpy.ndarray: dtype, shape, order, writeable, items."""

    def take(self, value: Any) -> list[Any]:
        """Dtype, shape, order, writeable, items. Raises Refusal."""
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        head = [_describe(value.dtype), list(value.shape), order, bool(value.flags.writeable)]
        return [*head, value.tobytes(order)]

    def build(self, body: Any, _upcast: Upcast) -> Any:
        """The array, with memory of its own."""
        numpy = sys.modules["numpy"]
        described, shape, order, writeable, data = body
        dtype = _dtype(described)
        if any(type(n) is not int or n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != len(data):
            raise TagError("a stored array whose items do not fill its shape")
        value = numpy.ndarray(tuple(shape), dtype, bytearray(data), order=order)
        value = value.copy(order)
        value.flags.writeable = writeable
        return value


class ScalarShape:
    """A scalar of numpy: dtype and bytes; str and bytes whole, since numpy cuts zeros off their ends."""

    def take(self, value: Any) -> list[Any]:
        """Dtype and bytes. Raises Refusal."""
        numpy = sys.modules["numpy"]
        if isinstance(value, numpy.str_):
            return ["U", "".join(value)]
        if isinstance(value, numpy.bytes_):
            return ["S", bytes(value)]
        return [_describe(value.dtype), value.tobytes()]

    def build(self, body: Any, _upcast: Upcast) -> Any:
        """The scalar."""
        numpy = sys.modules["numpy"]
        described, data = body
        if described in ("U", "S"):
            return numpy.str_(data) if described == "U" else numpy.bytes_(data)
        dtype = _dtype(described)
        if dtype.itemsize != len(data):
            raise TagError("a stored scalar whose bytes do not fill its dtype")
        return numpy.ndarray((), dtype, bytearray(data)).copy()[()]
