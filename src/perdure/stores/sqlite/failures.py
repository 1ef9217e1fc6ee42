"""What SQLite's errors mean to us: busy, failed, damaged, too big. No `sqlite3.Error` leaves the store."""

from __future__ import annotations

import sqlite3
from typing import Final

from perdure.errors import DamageError, LimitError, PerdureError, StoreFailedError

_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR)
"""A constraint cannot fail while head and rows agree, nor a statement be wrong while the schema is ours."""

_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

_WORDS_BY_NAME: Final = {
    "SQLITE_READONLY_DIRECTORY": "its folder may not be written here: it can be read only while a writer has it open",
    "SQLITE_IOERR_SHMSIZE": "the memory that its processes share has no room in its folder; is the disk full?",
}

_WORDS: Final = {
    sqlite3.SQLITE_FULL: "the disk is full; make space and go on",
    sqlite3.SQLITE_READONLY: "it is read-only here: reading works, writing does not",
    sqlite3.SQLITE_CANTOPEN: "a file of it cannot be opened or made; is its folder there, writable, and not full?",
    sqlite3.SQLITE_PERM: "the rights to it are missing",
    sqlite3.SQLITE_IOERR: "the disk reports an error",
    sqlite3.SQLITE_NOMEM: "out of memory",
    sqlite3.SQLITE_PROTOCOL: "its locks do not work here; is it on a network file system?",
}


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's primary result code, 0 if Python made the error itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process was in the way."""
    return primary_code(error) in _BUSY


def is_harmless(error: sqlite3.Error | OverflowError | UnicodeDecodeError) -> bool:
    """Whether the connection is as good as before: another process was in the way, or a value was too big."""
    return isinstance(error, OverflowError | sqlite3.DataError) or (isinstance(error, sqlite3.Error) and is_busy(error))


def meaning(error: sqlite3.Error | OverflowError | UnicodeDecodeError, *, url: str, busy_s: float) -> PerdureError:
    """The error to raise instead."""
    if isinstance(error, OverflowError | sqlite3.DataError):
        return LimitError(f"{url}: a body or a chunk is longer than SQLite can store ({error}); nothing was written")
    if isinstance(error, UnicodeDecodeError):  # SQLite's own message quotes what it found in the file
        return DamageError(f"{url}: names in the file are not what was written; keep it and restore from a copy")
    code = primary_code(error)
    if code in _BUSY:
        return StoreFailedError(
            f"{url}: other processes kept it locked for {busy_s:g} s; nothing was written, try again"
        )
    if code in _DAMAGED:
        return DamageError(f"{url}: {error}; nothing was written, keep the file and restore from a copy")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    words = _WORDS_BY_NAME.get(name) or _WORDS.get(code) or str(error)
    return StoreFailedError(f"{url}: {words} ({name})")
