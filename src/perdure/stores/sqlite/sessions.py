"""The sessions of a file as the contract's conditions look at them: whether one is there, new, held, as it was seen.

Only looks, in the caller's transaction; what is refused is refused here.
"""

from __future__ import annotations

import sqlite3

from perdure.errors import SessionError
from perdure.stores import refusals
from perdure.stores.contract import Head, Lease
from perdure.stores.sqlite import rows
from perdure.stores.sqlite.rows import Row, Segment


class Sessions:
    """Those of the store with this URL."""

    def __init__(self, url: str) -> None:
        self._url = url

    def row(self, db: sqlite3.Connection, session: str) -> Row:
        """The row of a session that is there."""
        row = rows.find(db, session)
        if row is None:
            raise self.absent(db, session)
        return row

    def head(self, db: sqlite3.Connection, session: str) -> Head:
        """Where the log of a session that is there ends."""
        found = rows.head(db, session)
        if found is None:
            raise self.absent(db, session)
        return found

    def segments(self, db: sqlite3.Connection, session: str) -> list[Segment]:
        """The runs that its log is made of."""
        return rows.segments(db, session, self.row(db, session))

    def held(self, db: sqlite3.Connection, session: str, *, epoch: int | None) -> Row:
        """Its row, if it is held in this epoch, or without one by nobody."""
        row = self.row(db, session)
        if epoch is None:
            if row.lease.owner:
                raise refusals.held_by(row.lease)
            return row
        if row.lease.epoch != epoch or not row.lease.owner:
            raise refusals.fenced(row.lease, epoch=epoch)
        return row

    def as_seen(self, db: sqlite3.Connection, seen: Lease, *, head: int) -> Row:
        """Its row, if its lease is still this one and its log ends there."""
        row = self.row(db, seen.session)
        if row.lease != seen:
            raise refusals.held(row.lease)
        if row.seq != head:
            raise refusals.conflict(seen.session, head=row.seq, expected=head)
        return row

    @staticmethod
    def check_new(db: sqlite3.Connection, session: str) -> None:
        """Raises unless the id was never used."""
        if rows.is_erased(db, session):
            raise refusals.erased(session)
        if db.execute(rows.SQL["session"], (session,)).fetchone():
            raise refusals.exists(session)

    def absent(self, db: sqlite3.Connection, session: str) -> SessionError:
        """For a session that is not there."""
        if rows.is_erased(db, session):
            return refusals.erased(session)
        return refusals.unknown(session, url=self._url)


def same_holder(newest: Lease, lease: Lease) -> bool:
    """Whether who holds the newest one is who holds this one."""
    return bool(lease.owner) and (newest.epoch, newest.owner) == (lease.epoch, lease.owner)
