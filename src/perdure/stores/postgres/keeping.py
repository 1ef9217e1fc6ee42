"""What changes a PostgreSQL store in more than one statement: forks, amendments, deletions, envelopes, what is sent.

Each is one transaction. Who makes the first session of a family, or takes the last away, or changes what all of it
share, holds the family's turn: a lock that ends with the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from perdure.errors import SessionErasedError
from perdure.log import Base
from perdure.stores import refusals
from perdure.stores.conditions import check_fork
from perdure.stores.contract import Batch, Change, Lease
from perdure.stores.postgres import failures, rows
from perdure.stores.postgres.arrays import Blobs, Numbers
from perdure.stores.postgres.connection import Connection
from perdure.stores.postgres.rows import Row, digest_of, text
from perdure.stores.postgres.server import Server
from perdure.stores.postgres.statements import Statements
from perdure.stores.postgres.writing import Amend, Fork, spoiled, statement, turn_of

T = TypeVar("T")

_OF_SESSION: Final = ("records", "points", "keyframes", "marks", "inbox", "sent_marks")
_OF_FAMILY: Final = ("chunks", "envelopes")


REPLACED: Final = ("records", "points", "keyframes", "marks", "inbox", "chunks", "sessions")
"""The tables in which an amendment may leave dead rows."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A session that was removed: its row as it was, and the tables that had something of it."""

    row: Row
    tables: frozenset[str]


class Keeper:
    """Changes one store. `channel` is where those listen who wait."""

    def __init__(self, server: Server, sql: Statements, *, channel: str) -> None:
        self._server, self._sql, self._channel = server, sql, channel

    def fork(self, session: str, batch: Batch, *, base: Base, epoch: int) -> None:
        """See `Store.fork`."""

        def fork(connection: Connection) -> None:
            row = self._with_turn(connection, base.session)
            if rows.find(connection, self._sql, session) is not None:
                raise refusals.exists(session)
            check_fork(session, batch, base=base, own_from=row.seam + 1, head=row.seq)
            if not self._write(connection, Fork(session, batch, base, epoch, row.family)):
                raise refusals.exists(session)

        self._transact(fork, point="fork.inside")

    def amend(
        self, session: str, batch: Batch, change: Change, *, seen: Lease, head: int, family: Collection[str]
    ) -> Row:
        """See `Store.amend`."""

        def amend(connection: Connection) -> Row:
            row = self._with_turn(connection, session)
            _check_seen(row, seen, head=head)
            if self._kin(connection, row.family) != set(family):
                raise refusals.joined(session)
            self._write(connection, Amend(session, batch, change, head))
            self._change(connection, session, row, change)
            return row

        return self._transact(amend, point="amend.inside")

    def _change(self, connection: Connection, session: str, row: Row, change: Change) -> None:
        bodies = sorted(change.bodies)
        seqs, contents = Numbers(seq for seq, _ in bodies), Blobs(body for _, body in bodies)
        values: dict[str, Any] = {"number": row.number}
        found = {seq for (seq,) in connection.rows(self._sql["change_bodies"], **values, seqs=seqs, bodies=contents)}
        missing = next((seq for seq in seqs if seq not in found), None)
        if missing is not None:
            raise refusals.missing_record(session, seq=missing)
        connection.rows(self._sql["drop_points"], **values, seqs=Numbers(change.points))
        connection.rows(self._sql["drop_keyframes"], **values, seqs=Numbers(change.keyframes))
        marks, at = Blobs(mark for mark, _ in change.marks), Numbers(seq for _, seq in change.marks)
        connection.rows(self._sql["drop_marks"], **values, marks=marks, seqs=at)

    def drop_chunks(self, digests: Collection[bytes], *, seen: Mapping[Lease, int]) -> Row | None:
        """See `Store.drop_chunks`. The row of one session of the family."""
        if not seen:
            return None

        def drop(connection: Connection) -> Row:
            one = self._with_turn(connection, next(iter(seen)).session)
            family = one.family
            for lease, head in seen.items():
                row = self._there(connection, lease.session, locked=True)
                _check_seen(row, lease, head=head)
                if row.family != family:
                    raise refusals.joined(lease.session)
            if self._kin(connection, family) != {lease.session for lease in seen}:
                raise refusals.joined(next(iter(seen)).session)
            connection.rows(self._sql["drop_chunks"], family=family, digests=Blobs(digests))
            return one

        return self._transact(drop, point="sweep.inside")

    def put_envelope(self, session: str | None, new: bytes, *, seen: bytes | None) -> None:
        """See `Store.put_envelope`."""
        what = session or self._server.url

        def put(connection: Connection) -> None:
            if session is None:
                family = b""
                connection.rows(self._sql["family_turn"], turn=turn_of(family))
                found = connection.rows(self._sql["own_envelope"])
            else:
                family = self._with_turn(connection, session).family
                found = connection.rows(self._sql["envelope"], digest=digest_of(session))
            if (found[0][0] if found else None) != seen:
                raise refusals.other_envelope(what)
            connection.rows(self._sql["put_envelope"], family=family, content=new)

        self._transact(put, point="envelope.inside")

    def begin_incarnation(self, number: int) -> None:
        """See `Store.begin_incarnation`."""
        self._transact(lambda connection: connection.rows(self._sql["begin_incarnation"], number=number))

    def send(self, session: str, content: bytes, *, mark: bytes | None) -> int | None:
        """See `Store.send`."""
        digest = digest_of(session)
        values = {"digest": digest, "content": content, "mark": mark, "channel": self._channel, "bell": digest.hex()}

        def send(connection: Connection) -> int | None:
            found = connection.rows(self._sql["send" if mark is None else "send_marked"], **values)
            if not found:
                self._there(connection, session)
            return found[0][0] if found else None

        return self._transact(send)

    def delete(self, session: str) -> Gone | None:
        """Removes all of a session. None: it was gone already."""

        def delete(connection: Connection) -> Gone | None:
            try:
                row = self._with_turn(connection, session, locked=True)
            except SessionErasedError:
                return None
            forks = [text(name) for (name,) in connection.rows(self._sql["forks"], number=row.number)]
            if forks:
                raise refusals.has_forks(session, forks=forks)
            had = {"sessions"} | {table for table in _OF_SESSION if self._empty(connection, table, number=row.number)}
            connection.rows(self._sql["bury"], number=row.number, channel=self._channel)
            if not self._kin(connection, row.family):
                had |= {table for table in _OF_FAMILY if self._empty(connection, table, family=row.family)}
            return Gone(row, frozenset(had))

        return self._transact(delete, point="erase.inside")

    def _empty(self, connection: Connection, table: str, **values: Any) -> int:
        """How many rows went."""
        return connection.execute(self._sql[f"delete_{table}"].encode(), values).rowcount

    def _transact(self, work: Callable[[Connection], T], *, point: str | None = None) -> T:
        return self._server.transact(work, begin=self._sql["begin"], became=self._sql["became"], point=point)

    def _write(self, connection: Connection, asked: Fork | Amend) -> bool:
        """The batch, within this transaction."""
        text_, values = statement(self._sql, [asked])
        try:
            return bool(connection.rows(text_, **values, channel=self._channel))
        except failures.TAKEN as error:
            raise spoiled(asked) from error

    def _with_turn(self, connection: Connection, session: str, *, locked: bool = True) -> Row:
        """The session's row, locked, while nobody makes or ends a session of its family."""
        family = self._there(connection, session).family
        connection.rows(self._sql["family_turn"], turn=turn_of(family))
        return self._there(connection, session, locked=locked)

    def _there(self, connection: Connection, session: str, *, locked: bool = False) -> Row:
        row = rows.find(connection, self._sql, session, locked=locked)
        if row is None:
            raise refusals.unknown(session, url=self._server.url)
        return row

    def _kin(self, connection: Connection, family: bytes) -> set[str]:
        return {text(name) for (name,) in connection.rows(self._sql["kin"], family=family)}


def _check_seen(row: Row, seen: Lease, *, head: int) -> None:
    if row.lease != seen:
        raise refusals.held(row.lease)
    if row.seq != head:
        raise refusals.conflict(seen.session, head=row.seq, expected=head)
