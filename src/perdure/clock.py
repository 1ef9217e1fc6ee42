"""All time and randomness come from here, so that tests can set them. Order never comes from a clock."""

from __future__ import annotations

import datetime as dt
import os
import random
import time
import uuid

_random = random.SystemRandom()


def now_us() -> int:
    """Wall time in microseconds since 1970, UTC. For people to read; nothing is ordered by it."""
    return time.time_ns() // 1000


def now_utc() -> dt.datetime:
    """Wall time as an aware datetime, UTC."""
    return dt.datetime.fromtimestamp(now_us() / 1e6, dt.UTC)


def monotonic_s() -> float:
    """Seconds on a clock that never jumps, of this process only."""
    return time.monotonic()


def new_uuid() -> uuid.UUID:
    """A random UUID (version 4)."""
    return uuid.uuid4()


def new_random() -> float:
    """A random number in [0, 1)."""
    return _random.random()


def new_bytes(count: int) -> bytes:
    """So many random bytes, good for keys."""
    return os.urandom(count)
