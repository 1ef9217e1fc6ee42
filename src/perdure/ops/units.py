"""Ages and sizes as people write them. It must not know what they are of."""

from __future__ import annotations

import re
from typing import Final

SECONDS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
"""The seconds of each unit, the longest first."""

_AGE: Final = re.compile(r"(\d+(?:\.\d+)?) ?(d|h|min|s)")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?B)", re.IGNORECASE)
_SIZES: Final = {"B": 1, "KB": 1000, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def seconds_of(text: str) -> float:
    """The seconds of an age as people write it: `90s`, `15min`, `12h`, `30d`. Raises `ValueError`."""
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no age: write it as 90s, 15min, 12h or 30d")
    return float(found[1]) * next(size for size, unit in SECONDS if unit == found[2])


def size_of(text: str) -> int:
    """The bytes of a size as people write it: `500MB`, `2.5 GB`, in thousands. Raises `ValueError`."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size: write it as 800KB, 500MB or 2.5GB")
    return int(float(found[1]) * _SIZES[found[2].upper()])
