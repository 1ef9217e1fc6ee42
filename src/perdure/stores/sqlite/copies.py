"""Copies of sessions that are kept elsewhere, in a SQLite file: rows like those of a session, which may have gaps.

A copy's row says so by having a place where it begins and no base (`rows.Row.is_copy`); a perdure that knows nothing of
copies refuses it as damaged, and does not take it for a session. It knows the rows, and no session of the place itself.
"""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence

from perdure.log import KINDS, Record
from perdure.stores import refusals
from perdure.stores.contract import Head, Lease
from perdure.stores.hot import Copy, HotStore
from perdure.stores.sqlite import rows
from perdure.stores.sqlite.checkpoint import Checkpointer
from perdure.stores.sqlite.commit import Writers
from perdure.stores.sqlite.link import Link
from perdure.stores.sqlite.sessions import Sessions


class SqliteCopies(HotStore):
    """The part of `SqliteStore` that makes it one to stand in front."""

    _sessions: Sessions
    _group: Writers
    _reader: Link
    _checkpointer: Checkpointer

    @abstractmethod
    def _scrub(self, done: str) -> None: ...

    def adopt(self, head: Head, lease: Lease) -> None:
        """See `HotStore.adopt`."""

        def adopt(db: sqlite3.Connection) -> None:
            self._sessions.check_new(db, head.session)
            made = {"id": head.session, "family": rows.family_number(db, head.family), "tick": rows.new_tick(db)}
            end = {"seq": head.seq, "chain": head.chain, "summary": head.summary}
            held = {"epoch": lease.epoch, "owner": rows.blob(lease.owner), "counter": lease.counter}
            db.execute(rows.SQL["adopt"], made | end | held)

        self._group.write(adopt)

    def hand(self, seen: Lease, lease: Lease) -> None:
        """See `HotStore.hand`."""
        self._group.write(lambda db: rows.set_lease(db, _as_seen(db, seen), lease))

    def fill(self, seen: Lease, *, records: Sequence[Record] = (), chunks: Mapping[bytes, bytes] | None = None) -> None:
        """See `HotStore.fill`."""

        def fill(db: sqlite3.Connection) -> None:
            row = _as_seen(db, seen)
            kept = [r for r in records if r.seq <= row.seq]
            db.executemany(
                rows.SQL["fill_record"],
                [(row.number << 32 | r.seq, r.epoch, KINDS[r.kind], r.time_us, r.chain, r.body) for r in kept],
            )
            db.executemany(rows.SQL["fill_chunk"], [(row.family, *chunk) for chunk in (chunks or {}).items()])

        self._group.write(fill)
        self._checkpointer.grown(sum(len(record.body) for record in records) + sum(map(len, (chunks or {}).values())))

    def thin(self, seen: Lease, *, below: int, chunks: Collection[bytes] = ()) -> None:
        """See `HotStore.thin`. The space is free, and `give_back` gives it back."""

        def thin(db: sqlite3.Connection) -> None:
            row = _as_seen(db, seen)
            db.execute(rows.SQL["delete_records"], (row.number << 32, (row.number << 32 | below) - 1))
            db.executemany(rows.SQL["drop_chunk"], [(row.family, digest) for digest in chunks])

        self._group.write(thin)

    def forget(self, seen: Lease, *, head: int) -> None:
        """See `HotStore.forget`. What was there is overwritten with zeros."""

        def forget(db: sqlite3.Connection) -> None:
            if rows.find(db, seen.session) is None:
                return
            row = _as_seen(db, seen)
            if row.seq != head:
                raise refusals.conflict(seen.session, head=row.seq, expected=head)
            rows.remove(db, row)

        self._group.write(forget)

    def wipe(self) -> None:
        """See `HotStore.wipe`. Free pages are zeros; they are given back, and the log is carried over and emptied."""
        self._scrub("forgotten")

    def copy(self, session: str) -> Copy | None:
        """See `HotStore.copy`."""
        with self._reader.transaction("DEFERRED") as db:
            return _copy(db, session)

    def copies(self) -> list[tuple[Copy, int]]:
        """See `HotStore.copies`."""
        with self._reader.transaction("DEFERRED") as db:
            listed = db.execute(rows.SQL["copies"]).fetchall()
            found = [(_copy(db, session), size) for session, size in listed]
        return [(copy, size) for copy, size in found if copy is not None]


def _as_seen(db: sqlite3.Connection, seen: Lease) -> rows.Row:
    row = rows.find(db, seen.session)
    if row is None or not row.is_copy or row.lease != seen:
        raise refusals.held(Lease(seen.session, 0, "", 0) if row is None else row.lease)
    return row


def _copy(db: sqlite3.Connection, session: str) -> Copy | None:
    row = rows.find(db, session)
    head = rows.head(db, session) if row is not None and row.is_copy else None
    return None if row is None or head is None else Copy(row.lease, head)
