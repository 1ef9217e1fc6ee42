"""The rows of a store as somebody changes them who can write its files: no check of ours is asked.

What a store derives from its rows (the framing of a file's batches) is made anew, as such a person would.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from perdure.log import KIND_NAMES, KINDS, Record
from perdure.stores.file import commit as commits
from perdure.stores.file import hint, lines
from perdure.stores.file.names import folder_name


class Rows(Protocol):
    """The records of a store that nobody has open."""

    def read(self, session: str) -> list[Record]:
        """All records of a session, in the order of their numbers."""

    def write(self, session: str, records: list[Record]) -> None:
        """These records in the place of those that are there."""


class SqliteRows:
    """The tables of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, session: str) -> list[Record]:
        with closing(sqlite3.connect(self.path)) as db:
            base = self._base(db, session)
            found = db.execute(
                "SELECT key, epoch, kind, time_us, body, chain FROM records WHERE key BETWEEN ? AND ? ORDER BY key",
                (base, base | 0xFFFFFFFF),
            )
            return [
                Record(session, key & 0xFFFFFFFF, epoch, KIND_NAMES[kind], time_us, body, chain)
                for key, epoch, kind, time_us, body, chain in found
            ]

    def write(self, session: str, records: list[Record]) -> None:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            base = self._base(db, session)
            db.execute("BEGIN")
            db.execute("DELETE FROM records WHERE key BETWEEN ? AND ?", (base, base | 0xFFFFFFFF))
            db.executemany(
                "INSERT INTO records (key, epoch, kind, time_us, body, chain) VALUES (?, ?, ?, ?, ?, ?)",
                [(base | r.seq, r.epoch, KINDS[r.kind], r.time_us, r.body, r.chain) for r in records],
            )
            db.execute("COMMIT")

    @staticmethod
    def _base(db: sqlite3.Connection, session: str) -> int:
        number: int = db.execute("SELECT number FROM sessions WHERE id = ?", (session,)).fetchone()[0]
        return number << 32


class FileRows:
    """The lines of a session's folder, one segment; digests over lines are made anew, as anybody can."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, session: str) -> list[Record]:
        return [record for record in self._records(session) if record is not None]

    def _records(self, session: str) -> Iterator[Record | None]:
        for line in self._segment(session).read_bytes().splitlines():
            if line.startswith(lines.RECORD):
                yield lines.read_record(line, session, seq=lines.seq_of(line, 0))

    def write(self, session: str, records: list[Record]) -> None:
        path = self._segment(session)
        before = path.read_bytes().splitlines()
        header = lines.read_header(before[0], place=str(path))
        found = [commits.read_commit(line, session) for line in before if line.startswith(lines.COMMIT)]
        told = [commit for commit in found if commit is not None]
        assert header is not None
        text = b"".join(map(lines.record_line, records))
        points = tuple(point for commit in told for point in commit.rows.points)
        marks = tuple(mark for commit in told for mark in commit.rows.marks)
        end = replace(told[-1], seq=records[-1].seq, chain=records[-1].chain, rows=commits.Rows(points, (), marks))
        commit = commits.closing(end, text)
        content = lines.header_line(header) + text + commits.commit_line(commit, session)
        path.write_bytes(content)
        (path.parent / hint.HINT).write_bytes(hint.hint_line(header, end=len(content), commit=commit))

    def _segment(self, session: str) -> Path:
        (path,) = (self.path / "sessions" / folder_name(session)).glob("*.ndjson")
        return path
