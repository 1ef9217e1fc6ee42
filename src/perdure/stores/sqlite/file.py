"""The file of a SQLite store: what it must look like, how it is made once, and how a connection to it is opened.

It knows no sessions. A file that is not ours is refused before anything could change it.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from perdure import clock, syncing
from perdure.errors import FormatNewerError, StoreFailedError, StoreUrlError
from perdure.stores import sql
from perdure.stores.sqlite.descriptor import Descriptor
from perdure.stores.sqlite.failures import is_busy

APPLICATION_ID: Final = 0x70657264
"""Marks a SQLite file as a store of ours ("perd")."""

LAYOUT: Final = 2
"""The newest version of the tables that is read; that of a file is kept in it as `user_version`."""

FIRST_LAYOUT: Final = 1
"""What a file is made with: layout 2 begins with its first envelope."""

_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_VERSION_AT, _APPLICATION_AT = 60, 68
_PAUSE_S: Final = 0.005
_MAKING: Final = ("auto_vacuum=INCREMENTAL", "synchronous=FULL")
_SYNCING: Final = () if syncing.FULL is None else ("fullfsync=ON", "checkpoint_fullfsync=ON")


def check_file(descriptor: Descriptor) -> bool:
    """Whether the file is a store of ours; False if there is none yet. Changes nothing.

    Raises `StoreUrlError` for any other file, `FormatNewerError` for a newer layout.
    """
    path = descriptor.path
    if path.is_dir():
        raise StoreUrlError(f"{path}: is a folder, not a SQLite store")
    header = descriptor.begins_with(_HEADER_BYTES)
    if not header:
        return False
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise StoreUrlError(f"{path}: is not a SQLite file; it was left as it is")
    # The header may lag behind the write-ahead log, and says nothing of us while another process makes the store.
    version, application = (int.from_bytes(header[place : place + 4]) for place in (_VERSION_AT, _APPLICATION_AT))
    if application != APPLICATION_ID and (application, version) != (0, 0):
        raise _foreign(path)
    _check_version(path, version)
    return application == APPLICATION_ID


def _foreign(path: Path) -> StoreUrlError:
    return StoreUrlError(f"{path}: belongs to another program; it was left as it is")


def _check_version(path: Path, version: int) -> None:
    if version > LAYOUT:
        raise FormatNewerError(f"{path}: has layout {version}, this perdure reads up to {LAYOUT}; nothing was changed")


def connect_writer(path: Path, *, busy_s: float, settings: tuple[str, ...]) -> sqlite3.Connection:
    """A connection in autocommit mode, with these pragmas, to a store that is there."""
    if _is_read_only(path):
        raise StoreFailedError(f"{path}: its file system is read-only here; reading works, writing does not")
    db = _connection(path, "mode=rw", busy_s=busy_s, settings=settings)
    try:
        db.execute("SELECT tick FROM store").fetchone()  # now the log is there
        _sync_folder(path)  # its name: SQLite syncs the folder, too, but takes no notice when that fails
    except BaseException:
        db.close()
        raise
    return db


def connect_reader(descriptor: Descriptor, *, busy_s: float, settings: tuple[str, ...]) -> sqlite3.Connection:
    """A connection to read from, to a store that is ours; it is made first if there is none.

    Where the file system is read-only it is read without locks, which is right as nobody can change it.
    """
    path = descriptor.path
    try:
        if not check_file(descriptor):
            make(path, busy_s=busy_s)
    except (StoreUrlError, StoreFailedError, sqlite3.Error):
        descriptor.leave_open()  # it may be a file of another program, which may have it open in this process
        raise
    db = _connection(path, "mode=rw", busy_s=busy_s, settings=settings)
    try:
        if not _is_logged(db):
            make(path, busy_s=busy_s)
    except sqlite3.OperationalError:
        db.close()
        if not _is_frozen(path):
            raise
        db = _connection(path, "mode=ro&immutable=1", busy_s=busy_s, settings=settings)
    descriptor.hold()
    _check_layout(db, path)
    return db


def make(path: Path, *, busy_s: float) -> None:
    """Makes the tables exactly once, whoever else does so at the same moment, and switches to the write-ahead log.

    Killed or failing anywhere it leaves a file without tables or a whole store, and is done again. The name is durable
    before the tables are.
    """
    with closing(_connection(path, "mode=rwc", busy_s=busy_s, settings=_MAKING)) as db:
        _sync_folder(path)
        _patiently(lambda: _make_tables(db, path), busy_s=busy_s)
        _patiently(lambda: db.execute("PRAGMA journal_mode=WAL").fetchall(), busy_s=busy_s)


def _check_layout(db: sqlite3.Connection, path: Path) -> None:
    """Raises unless the tables are there, ours, and of a layout that is known."""
    application, version = _identity(db)
    if application != APPLICATION_ID:
        raise _foreign(path)
    _check_version(path, version)
    db.execute("SELECT tick FROM store").fetchone()


def _is_logged(db: sqlite3.Connection) -> bool:
    """Whether the write-ahead log is on; it is not if the process that made the store was killed before that."""
    return bool(db.execute("PRAGMA journal_mode").fetchone()[0] == "wal")


def log_bytes(path: Path) -> int:
    """How long the write-ahead log is."""
    log = path.with_name(path.name + "-wal")
    return log.stat().st_size if log.exists() else 0


def _is_frozen(path: Path) -> bool:
    """Whether nobody can change the file and all of it is in this one file."""
    log = path.with_name(path.name + "-wal")
    return _is_read_only(path) and not (log.exists() and log.stat().st_size)


def _is_read_only(path: Path) -> bool:
    """Whether nobody on this machine can write there: not a matter of rights, but of the file system."""
    if not hasattr(os, "statvfs"):
        return False
    try:
        return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
    except OSError:  # it is not there: who opens the file says so
        return False


def _connection(path: Path, mode: str, *, busy_s: float, settings: tuple[str, ...]) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?{mode}",
        uri=True,
        timeout=busy_s,
        isolation_level=None,
        check_same_thread=False,
    )
    # Damage can make a text of a blob, and then sqlite3 could not hand out the row at all: this way its types tell.
    db.text_factory = _text
    try:
        db.executescript("".join(f"PRAGMA {setting};" for setting in (*_SYNCING, *settings)))
    except BaseException:
        db.close()
        raise
    return db


def _text(stored: bytes) -> str:
    return stored.decode(errors="surrogateescape")


def _patiently(attempt: Callable[[], object], *, busy_s: float) -> None:
    """Tries again while others are at it: SQLite's own busy timeout does not cover the switch to the log."""
    end = clock.monotonic_s() + busy_s
    while True:
        try:
            attempt()
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or clock.monotonic_s() > end:
                raise
        time.sleep(_PAUSE_S * (1 + clock.new_random()))


def _make_tables(db: sqlite3.Connection, path: Path) -> None:
    """The tables and the marks of the file in one transaction, unless they are there."""
    db.execute("BEGIN IMMEDIATE")
    try:
        if _identity(db) == (0, 0):
            _refuse_foreign(db, path)
            for statement in sql.script("sqlite_schema").split(";\n"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id={APPLICATION_ID}")
            db.execute(f"PRAGMA user_version={FIRST_LAYOUT}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _refuse_foreign(db: sqlite3.Connection, path: Path) -> None:
    if db.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise _foreign(path)


def _identity(db: sqlite3.Connection) -> tuple[int, int]:
    """(application id, version of the layout)."""
    return db.execute("PRAGMA application_id").fetchone()[0], db.execute("PRAGMA user_version").fetchone()[0]


def _sync_folder(path: Path) -> None:
    """Makes the file's name durable: without it a power cut may leave a folder in which the file is not."""
    try:
        syncing.sync_folder(path.parent)
    except OSError as error:
        raise StoreFailedError(f"{path}: its folder cannot be synced: {error.strerror}") from error
