"""Small ways to make numbers durable, right and wrong: what the bench must tell apart before it is believed.

`save(n)` claims on return that `n` is durable; `newest` is the largest number that is there. Numbers come as a payload
of a few KB, so that more than one block is at stake.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def line(number: int) -> bytes:
    return b"%06d" % number * 1000 + b"\n"


def number_in(content: bytes) -> int:
    """The number of a whole line, 0 for any other content."""
    return int(content[:6]) if content[:6].isdigit() and content == line(int(content[:6])) else 0


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


class Appending:
    """One line after another in a file that is there."""

    def __init__(self, folder: Path, *, syncs: bool) -> None:
        self._file = os.open(folder / "numbers", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._syncs = syncs
        sync_folder(folder)

    def save(self, number: int) -> None:
        if os.write(self._file, line(number)) != len(line(number)):
            raise OSError("not all was written")
        if self._syncs:
            os.fsync(self._file)

    @staticmethod
    def newest(folder: Path) -> int:
        file = folder / "numbers"
        lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
        found = 0
        for expected, content in enumerate(lines, 1):
            if number_in(content) != expected:
                break
            found = expected
        return found


class Insisting(Appending):
    """Syncs again when a sync has failed, and believes the second one."""

    def save(self, number: int) -> None:
        os.write(self._file, line(number))
        try:
            os.fsync(self._file)
        except OSError:
            os.fsync(self._file)


class Renaming:
    """A new file each time, moved into the place of the old one."""

    def __init__(self, folder: Path, *, syncs: bool, syncs_folder: bool) -> None:
        self._folder, self._syncs, self._syncs_folder = folder, syncs, syncs_folder

    def save(self, number: int) -> None:
        draft = self._folder / "draft"
        file = os.open(draft, os.O_WRONLY | os.O_TRUNC | os.O_CREAT)
        os.write(file, line(number))
        if self._syncs:
            os.fsync(file)
        os.close(file)
        draft.rename(self._folder / "number")
        if self._syncs_folder:
            sync_folder(self._folder)

    @staticmethod
    def newest(folder: Path) -> int:
        file = folder / "number"
        return number_in(file.read_bytes()) if file.exists() else 0


class Inserting:
    """A row each in an SQLite file with a write-ahead log."""

    def __init__(self, folder: Path, *, synchronous: str) -> None:
        self._db = sqlite3.connect(folder / "numbers.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("CREATE TABLE number (n INTEGER PRIMARY KEY, content BLOB NOT NULL)")
        self._db.execute(f"PRAGMA synchronous = {synchronous}")
        sync_folder(folder)

    def save(self, number: int) -> None:
        self._db.execute("INSERT INTO number VALUES (?, ?)", (number, line(number)))

    @staticmethod
    def newest(folder: Path) -> int:
        with closing(sqlite3.connect(folder / "numbers.db")) as db:
            if not db.execute("SELECT 1 FROM sqlite_master").fetchone():
                return 0
            rows = db.execute("SELECT n, content FROM number ORDER BY n").fetchall()
        assert [number_in(content) for _, content in rows] == list(range(1, len(rows) + 1))
        return len(rows)


RIGHT: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "append, fsync": (Appending, {"syncs": True}),
    "fsync, rename, fsync of the folder": (Renaming, {"syncs": True, "syncs_folder": True}),
    "SQLite FULL": (Inserting, {"synchronous": "FULL"}),
}

WRONG: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "append": (Appending, {"syncs": False}),
    "append, fsync, fsync again": (Insisting, {"syncs": True}),
    "rename": (Renaming, {"syncs": False, "syncs_folder": False}),
    "fsync, rename": (Renaming, {"syncs": True, "syncs_folder": False}),
    "SQLite NORMAL": (Inserting, {"synchronous": "NORMAL"}),
}
