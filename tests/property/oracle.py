"""Whether two values are the same, decided without the code under test: types, contents and order, by plain Python."""

from __future__ import annotations

import dataclasses
import re
import struct
from collections import OrderedDict, defaultdict, deque
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np
import pydantic


def facts(value: Any) -> Any:  # noqa: C901, PLR0911, PLR0912  (one line for each kind, side by side)
    """A nested tuple that is equal for the same values only; it tells 1, True and 1.0 apart, and -0.0 from 0.0."""
    cls = type(value)
    if isinstance(value, np.ndarray):
        flags = value.flags.f_contiguous and not value.flags.c_contiguous, value.flags.writeable
        return cls, repr(value.dtype), value.shape, flags, value.tobytes()
    if isinstance(value, np.generic):
        return cls, repr(value.dtype), value.tobytes()
    if isinstance(value, Enum):
        return cls, id(value)
    if cls is int:
        return cls, hex(value)
    if cls is float:
        return cls, struct.pack(">d", value)
    if cls is complex:
        return cls, facts(value.real), facts(value.imag)
    if cls is Decimal:
        return cls, value.as_tuple()
    if cls in (set, frozenset):
        return cls, sorted(repr(facts(item)) for item in value)
    if isinstance(value, (dict, OrderedDict)):
        factory = value.default_factory if isinstance(value, defaultdict) else None
        return cls, factory, [(facts(key), facts(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return cls, getattr(value, "maxlen", None), [facts(item) for item in value]
    if isinstance(value, pydantic.BaseModel):
        private = facts(value.__pydantic_private__), facts(value.__pydantic_extra__)
        return cls, facts(dict(value)), value.__pydantic_fields_set__, private
    if dataclasses.is_dataclass(value) and cls.__name__ != "Opaque":
        return cls, [(field.name, facts(getattr(value, field.name))) for field in dataclasses.fields(value)]
    if cls is slice:
        return cls, facts(value.start), facts(value.stop), facts(value.step)
    if cls is re.Pattern:
        return cls, value.pattern, value.flags
    if isinstance(value, PurePath):
        return cls, str(value)
    return cls, repr(value), getattr(value, "fold", None), getattr(value, "is_safe", None), _zone(value)


def _zone(value: Any) -> Any:
    zone = getattr(value, "tzinfo", None)
    return None if zone is None else (type(zone), repr(zone))
