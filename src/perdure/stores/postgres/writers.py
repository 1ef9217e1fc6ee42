"""The appends of one process: those that come together are one statement, with one commit and a verdict each.

They have a connection of their own, which is replaced when it is gone. It knows no tables.
"""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any

from perdure.stores.group import Group, Round, Write
from perdure.stores.postgres.connection import Connection
from perdure.stores.postgres.delivery import Delivery
from perdure.stores.postgres.server import Server
from perdure.stores.postgres.statements import Statements
from perdure.stores.postgres.writing import Append, Asked


class Writers(Group[Append]):
    """Those of one store."""

    def __init__(self, server: Server, sql: Statements, *, channel: str) -> None:
        super().__init__(self._deliver, url=server.url, check=server.check)
        self.own = Own(server)
        self._delivery = Delivery(server, sql, lend=self.own, channel=channel)

    def write(self, work: Append) -> int:
        """See `Group.write`: the newest item of the inbox."""
        return super().write(work)  # type: ignore[no-any-return]

    def submit(self, work: Append) -> Future[int]:
        """See `Group.submit`."""
        return super().submit(work)

    def _deliver(self, attempt: Round[Append]) -> None:
        writes = {write.work: write for write in attempt.take() if write.begins()}
        told: set[Asked] = set()

        def tell(asked: Asked, outcome: Any) -> None:
            told.add(asked)
            _tell(writes[asked], outcome)  # type: ignore[index]

        def trying(asked: Asked) -> None:
            attempt.trying = writes[asked]  # type: ignore[index]

        try:
            self._delivery.all(list(writes), tell, trying=trying)
        except Exception:
            raise
        except BaseException:  # an interrupt comes when it is known what is written
            self._delivery.all([asked for asked in writes if asked not in told], tell)
            attempt.is_written = True
            raise
        attempt.trying, attempt.is_written = None, True


class Own(AbstractContextManager[Connection]):
    """The connection of those who append, for one at a time: it is given up if it is not as it was before."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Connection | None = None

    def __call__(self) -> Own:
        """See `Lend`."""
        return self

    def __enter__(self) -> Connection:
        self._server.check()
        if self._connection is None:
            self._connection = self._server.connect()
        try:
            self._server.end_left(self._connection)
        except BaseException:
            self._leave()
            raise
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._connection is not None and not self._connection.is_idle():
            connection, self._connection = self._connection, None
            self._server.give_up(connection)

    def drop(self) -> None:
        """Gives the connection up; nobody writes any more."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _tell(write: Write[Append], outcome: Any) -> None:
    write.result, write.error = (None, outcome) if isinstance(outcome, Exception) else (outcome, None)
