"""The incarnation of a SQLite store: a number beside its envelopes, which is there once there was more than one.

So a store that was never taken back stays one that every perdure reads.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from perdure.errors import DamageError
from perdure.stores.sqlite import envelopes

_PLACE: Final = -1
"""The number in the table of envelopes under which it is; families count from 1, and 0 is the store itself."""

_BYTES: Final = 4


def get(db: sqlite3.Connection, url: str) -> int:
    """Which it is; 0 at first."""
    found = envelopes.get(db, _PLACE, url)
    if found is not None and len(found) != _BYTES:
        raise DamageError(f"{url}: its incarnation is not what was written")
    return int.from_bytes(found or b"")


def begin(db: sqlite3.Connection, number: int, url: str) -> None:
    """Makes it this one, if that is above the present one."""
    if number > get(db, url):
        envelopes.put(db, _PLACE, number.to_bytes(_BYTES))
