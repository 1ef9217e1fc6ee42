"""What is read from a PostgreSQL store: one statement each, so that what belongs together is of one moment.

Nothing is held between two statements: a long log is read in pages, each found by the number where the last one ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from perdure.errors import DamageError
from perdure.log import Record
from perdure.stores import refusals
from perdure.stores.contract import Head, Item, Lease, Point
from perdure.stores.postgres import rows
from perdure.stores.postgres.arrays import Blobs, Numbers
from perdure.stores.postgres.connection import Connection
from perdure.stores.postgres.rows import SEQ_MAX, Row, blob, digest_of, text
from perdure.stores.postgres.server import Server
from perdure.stores.postgres.statements import Statements

_READ_BYTES: Final = 4 << 20
"""Bodies read from the server at a time; one that is longer comes alone."""


class Reader:
    """Reads one store."""

    def __init__(self, server: Server, sql: Statements) -> None:
        self._server, self._sql = server, sql

    def row(self, session: str) -> Row:
        """Its row. Raises `SessionUnknownError`, `SessionErasedError`."""
        found = self._server.use(lambda connection: rows.find(connection, self._sql, session))
        if found is None:
            raise refusals.unknown(session, url=self._server.url)
        return found

    def still_s(self, lease: Lease) -> float | None:
        """How long the lease is this one."""
        values = {"digest": digest_of(lease.session), "epoch": lease.epoch, "counter": lease.counter}
        found = self._any("still", **values, owner=blob(lease.owner))
        return float(found[0][0]) if found else None

    def incarnation(self) -> int:
        """That of the store."""
        ((number,),) = self._any("incarnation")
        return int(number)

    def head(self, session: str) -> Head:
        """See `Store.head`."""
        return rows.head_of(session, self._of(session, "head"))

    def heads(self, prefix: str) -> list[Head]:
        """See `Store.heads`."""

        def read(connection: Connection) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
            found = connection.rows(self._sql["heads"], prefix=blob(prefix))
            is_any_fork = any(base is not None for *_, base, _ in found)
            return found, connection.rows(self._sql["bases"]) if is_any_fork else []

        found, ups = self._server.use(read)
        return list(rows.heads_of(found, {number: (text(name), *more) for number, name, *more in ups if name}))

    def records(self, session: str, *, after: int, upto: int | None) -> Iterator[Record]:
        """See `Store.read`. The first page is read at once, the others when they are asked for."""
        page, end = self._page(session, after, upto)
        return self._pages(session, page, end)

    def _pages(self, session: str, page: list[Record], end: int) -> Iterator[Record]:
        while page:
            yield from page
            after, page = page[-1].seq, []
            if after < end:
                page, _ = self._page(session, after, end)

    def _page(self, session: str, after: int, upto: int | None) -> tuple[list[Record], int]:
        """Some of the next records, at least one; and where the reading ends."""
        until = SEQ_MAX if upto is None else upto
        found = self._of(session, "page", after=after, until=until, bytes=_READ_BYTES)
        return [rows.record_of(row) for row in found if row[2] is not None], min(found[0][0], until)

    def records_at(self, session: str, seqs: Iterable[int]) -> list[Record]:
        """See `Store.read_at`."""
        asked = list(seqs)
        there = [seq for seq in dict.fromkeys(asked) if 0 < seq <= SEQ_MAX]
        found = {row[2]: row for row in self._of(session, "records_at", seqs=Numbers(there))}
        missing = next((seq for seq in asked if seq not in found), None)
        if missing is not None:
            raise refusals.missing_record(session, seq=missing)
        return [rows.record_of(found[seq]) for seq in asked]

    def points(self, session: str) -> list[Point]:
        """See `Store.points`."""
        found = {
            seq: Point(seq, parent, flags, None if name is None else text(name), time_us)
            for _, seq, parent, flags, name, time_us in self._of(session, "points")
            if seq is not None
        }
        return [found[seq] for seq in sorted(found)]

    def keyframes(self, session: str) -> list[tuple[int, int]]:
        """See `Store.keyframes`."""
        return sorted({seq: record for _, seq, record in self._of(session, "keyframes") if seq is not None}.items())

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        """See `Store.marks`."""
        return list(dict.fromkeys((mark, seq) for _, mark, seq in self._of(session, "marks") if seq is not None))

    def marked(self, session: str, mark: bytes) -> list[int]:
        """See `Store.find`."""
        return sorted({seq for _, seq in self._of(session, "marked", mark=mark) if seq is not None})

    def inbox(self, session: str, *, after: int) -> list[Item]:
        """See `Store.inbox`."""
        return [Item(*row) for row in self._of(session, "inbox", after=after) if row[0] is not None]

    def chunks(self, session: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `Store.chunks`."""
        asked = list(digests)
        found = dict(self._of(session, "chunks", digests=Blobs(asked)))
        missing = next((digest for digest in asked if digest not in found), None)
        if missing is not None:
            raise refusals.missing_chunk(session, digest=missing)
        return {digest: found[digest] for digest in asked}

    def chunk_sizes(self, session: str) -> dict[bytes, int]:
        """See `Store.chunk_sizes`."""
        return {digest: size for digest, size in self._of(session, "chunk_sizes") if digest is not None}

    def envelope(self, session: str | None) -> bytes | None:
        """See `Store.envelope`."""
        found = self._any("own_envelope") if session is None else self._of(session, "envelope")
        return found[0][0] if found else None

    def _any(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        return self._server.use(lambda connection: connection.rows(self._sql[statement], **values))

    def _of(self, session: str, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a session, one at least: of nothing but what it has not."""
        digest = digest_of(session)

        def read(connection: Connection) -> list[tuple[Any, ...]]:
            found = connection.rows(self._sql[statement], digest=digest, **values)
            if not found:
                if rows.find(connection, self._sql, session) is None:
                    raise refusals.unknown(session, url=self._server.url)
                raise DamageError(f"{session}: its row is there, and is not found again")
            return found

        return self._server.use(read)
