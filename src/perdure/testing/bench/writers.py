"""The ways to save a step that are compared: two that cost what the disk costs, and perdure's two.

The limits are told the delta and write it as JSON, with nothing around it: no digest, no lease, no restore. perdure is
told nothing. Each `save` returns when the step is durable.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

import perdure
from perdure.testing.bench.plan import SESSION
from perdure.testing.bench.single import single
from perdure.testing.bench.unprotected import give_up_protection
from perdure.testing.bench.workload import Delta, dumps

STORE: Final = "perdure.db"
KEY: Final = bytes(range(32))
"""Of the store with a key."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where a writer writes: files into the folder; what is in a store, into that of this URL, under this name."""

    folder: Path
    store: str | None = None
    session: str = SESSION
    table: str = SESSION

    @property
    def url(self) -> str:
        """The store's; without one a SQLite store in the folder."""
        return self.store or str(self.folder / STORE)


class Writer(Protocol):
    """Saves the steps of one session in a folder of its own."""

    def save(self, delta: Delta) -> None:
        """Makes the step durable."""

    def close(self) -> None:
        """Gives all files back."""


class Append:
    """Limit: the delta appended to a file, `fdatasync`."""

    def __init__(self, where: Where, state: dict[str, Any]) -> None:
        self._file = os.open(where.folder / "deltas.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self.save(state)

    def save(self, delta: Delta) -> None:
        """One write, one sync."""
        os.write(self._file, dumps(delta) + b"\n")
        os.fdatasync(self._file)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


class Row:
    """Limit: the delta as one row of an SQLite table, one commit each, in WAL mode with `synchronous=FULL`."""

    def __init__(self, where: Where, state: dict[str, Any]) -> None:
        self._db = sqlite3.connect(where.folder / "deltas.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("CREATE TABLE delta (k INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        self.save(state)

    def save(self, delta: Delta) -> None:
        """One row, one commit."""
        self._db.execute("INSERT INTO delta (body) VALUES (?)", (dumps(delta),))

    def close(self) -> None:
        """Closes the database, which takes its WAL in."""
        self._db.close()


class Single:
    """Limit: the delta as one row of the store's own server, one commit each."""

    def __init__(self, where: Where, state: dict[str, Any]) -> None:
        self._row = single(where.url, where.table)
        self.save(state)

    def save(self, delta: Delta) -> None:
        """One row, one commit."""
        self._row.save(dumps(delta))

    def close(self) -> None:
        """Gives the connection back."""
        self._row.close()


class Automatic:
    """perdure, which finds by itself what changed in the state."""

    append_only: tuple[str, ...] = ()

    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, where: Where, state: dict[str, Any]) -> None:
        self._store = perdure.open(where.url, **self.options)
        self._session = self._store.session(where.session, append_only=self.append_only)
        self._session.state.update(state)
        self._session.save()

    def save(self, delta: Delta) -> None:  # noqa: ARG002 - not told
        """One save of the handle."""
        self._session.save()

    def close(self) -> None:
        """Closes the session and the store."""
        self._session.close()
        self._store.close()


class Declared(Automatic):
    """perdure, with the list of messages declared as append-only."""

    append_only = ("messages",)


class Protected(Automatic):
    """perdure with a key, which looks for secrets, too."""

    options: ClassVar = {"keys": KEY, "secrets": "mask"}


class Unprotected(Automatic):
    """What perdure would cost without digests, compression and a look for secrets."""

    options: ClassVar = {"secrets": "allow"}

    def __init__(self, where: Where, state: dict[str, Any]) -> None:
        give_up_protection()
        super().__init__(where, state)


WRITERS: Final[dict[str, Callable[[Where, dict[str, Any]], Writer]]] = {
    "append": Append,
    "row": Row,
    "single": Single,
    "automatic": Automatic,
    "declared": Declared,
    "protected": Protected,
    "unprotected": Unprotected,
}
