"""How a group's round is done on a SQLite file: one transaction, one commit and one sync for all that it took.

It knows no tables: what is written is a function of a connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias, TypeVar

from perdure.errors import PerdureError, StoreFailedError
from perdure.stores.group import Group, Round, Write
from perdure.stores.sqlite.link import Link

T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], Any]
"""Looks, judges, then writes. A `PerdureError` from it is its verdict, and concerns nobody else."""


class Writers(Group[Work]):
    """Those of one connection. `check_place` raises where what was committed is in no file that others will find."""

    def __init__(self, link: Link, *, check_place: Callable[[], None]) -> None:
        run = partial(_run, link, check_place)
        super().__init__(partial(link.use, run), url=link.url, check=link.check_process)

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """See `Group.write`: what `work` returns."""
        return super().write(work)  # type: ignore[no-any-return]

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """See `Group.submit`."""
        return super().submit(work)


def _run(link: Link, check_place: Callable[[], None], db: sqlite3.Connection, attempt: Round[Work]) -> None:
    """Begins, takes those who wait by then, and commits."""
    is_whole = False
    try:
        link.begin(db)
        for write in attempt.take():
            attempt.trying = write
            if write.begins():
                _do(write, db)
        attempt.trying, is_whole = None, True
        db.execute("COMMIT")
        check_place()
        attempt.is_written = True
    except (sqlite3.Error, StoreFailedError):
        _roll_back(db)
        raise
    except BaseException:
        attempt.is_written = is_whole and not db.in_transaction  # an interrupt may come after the commit
        _roll_back(db)
        raise


def _do(write: Write[Work], db: sqlite3.Connection) -> None:
    changes = db.total_changes
    try:
        write.result, write.error = write.work(db), None
    except PerdureError as verdict:
        if db.total_changes != changes:
            raise  # there is something to be undone
        write.error = verdict


def _roll_back(db: sqlite3.Connection) -> None:
    if db.in_transaction:
        db.execute("ROLLBACK")
