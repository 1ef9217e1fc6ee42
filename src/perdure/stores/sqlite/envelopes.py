"""The envelopes of a SQLite store: the table that layout 2 has more than layout 1, made when it is first needed.

So a store that is not sealed stays one that every perdure reads. It knows nothing of what is in an envelope.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from perdure.errors import DamageError
from perdure.stores import refusals, sql
from perdure.stores.sqlite import file, rows

OF_THE_STORE: Final = 0
"""The number that stands for the store itself; families count from 1."""


def get(db: sqlite3.Connection, family: int, what: str) -> bytes | None:
    """What is there, None for nothing. Raises `DamageError`, which names `what` it belongs to."""
    if not _has_table(db):
        return None
    found = db.execute(rows.SQL["envelope"], (family,)).fetchone()
    if found is not None and not isinstance(found[0], bytes):
        raise DamageError(f"{what}: its envelope is not what was written")
    return None if found is None else found[0]


def put_first(db: sqlite3.Connection, family: int, content: bytes, what: str) -> None:
    """Keeps this one beside a family that has none. Raises `ConflictError`."""
    if get(db, family, what) is not None:
        raise refusals.other_envelope(what)
    put(db, family, content)


def put(db: sqlite3.Connection, family: int, content: bytes) -> None:
    """Keeps this one, in the place of what is there."""
    if not _has_table(db):
        db.execute(sql.script("sqlite_layout_2"))
        db.execute(f"PRAGMA user_version={file.LAYOUT}")
    db.execute(rows.SQL["put_envelope"], (family, content))


def delete(db: sqlite3.Connection, family: int) -> None:
    """Removes that of a family that has no session any more."""
    if _has_table(db):
        db.execute(rows.SQL["delete_envelope"], {"family": family})


def _has_table(db: sqlite3.Connection) -> bool:
    return bool(db.execute("PRAGMA user_version").fetchone()[0] >= file.LAYOUT)
