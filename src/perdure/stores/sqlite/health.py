"""How the file itself is: what SQLite finds wrong with it, and how many of its bytes are in use."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from perdure.stores.contract import Health
from perdure.stores.space import free_bytes
from perdure.stores.sqlite import file


def health(db: sqlite3.Connection, path: Path, *, deep: bool) -> Health:
    """See `Store.health`."""
    said = [str(line) for (line,) in db.execute("PRAGMA integrity_check(20)")] if deep else []
    page: int = db.execute("PRAGMA page_size").fetchone()[0]
    pages, unused = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count"))
    return Health(
        problems=tuple(line for line in said if line != "ok"),
        used=pages * page,
        unused=unused * page,
        log=file.log_bytes(path),
        free=free_bytes(path.parent),
    )
