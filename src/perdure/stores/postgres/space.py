"""The space that a PostgreSQL store takes: rows that are dead, and bytes that must not be found any more.

A row that was deleted or replaced stays in its page until VACUUM takes it out, and its bytes there until something
else is written over them. Only a table that is written anew has none of them; nobody can use it meanwhile, so that is
done to tables up to a size, and a larger one is left to VACUUM. It must not know what the rows mean.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from psycopg import errors

from perdure import clock
from perdure.errors import StoreFailedError
from perdure.stores.contract import Health
from perdure.stores.postgres.connection import Connection
from perdure.stores.postgres.rows import text
from perdure.stores.postgres.server import Server
from perdure.stores.postgres.statements import Statements

T = TypeVar("T")
_PARTITIONED: Final = ("records", "points", "keyframes", "marks", "chunks")
_PAUSE_S: Final = 0.05
_TURN_S: Final = 0.2
"""So long a table's turn is waited for, as all others wait behind who does."""

_AT_ONCE_BYTES: Final = 16 << 20
"""A table of this size is written anew in the time of a few saves."""

_TOUCHED_BYTES: Final = 8192
"""What is counted for a table of which only this process knows that rows in it are dead."""


class Space:
    """That of one store. Tables of up to `rewritten_bytes` are written anew to have no old byte in them."""

    def __init__(self, server: Server, sql: Statements, *, rewritten_bytes: int) -> None:
        self._server, self._sql, self._rewritten_bytes = server, sql, rewritten_bytes
        self._touched: set[str] = set()
        self._lock = threading.Lock()
        self._waiting: dict[str, int] = {}
        """Tables that this round of giving back has not come to; what the server counts meanwhile is for the next."""

    def touch(self, tables: Iterable[str], *, session: int, family: bytes) -> set[str]:
        """Notes that rows of this session are dead in these tables. The tables, or those partitions of them."""
        found = self._server.use(
            lambda connection: {part for table in tables for part in self._parts(connection, table, session, family)}
        )
        self._touched |= found
        return found

    def everything(self) -> set[str]:
        """All tables."""
        return {name for name, *_ in self._tables()}

    def wipe(self, tables: set[str], *, done: str) -> None:
        """Leaves no byte of dead rows in these tables, but in those that are too large for that.

        `done` is what was done before, for the error when a transaction that still sees the rows does not end.
        """
        sizes = {name: size for name, size, *_ in self._tables()}
        self._calmly(lambda connection: self._wait_for_older(connection, done))
        for name in sorted(tables & sizes.keys()):
            if sizes[name] > self._rewritten_bytes:
                self._vacuum(name)
            elif not self._rewrite(name, patience_s=self._server.busy_s):
                raise self._unfinished(done, f"another transaction holds {name}")
        self._touched -= tables

    def give_back(self, *, bytes_max: int) -> int:
        """See `Store.give_back`: one table at a time, whose rows may be read and written meanwhile."""
        del bytes_max
        sizes = {name: size for name, size, *_ in self._tables()}
        with self._lock:
            if not self._waiting:
                self._server.use(lambda connection: connection.rows(self._sql["forget_commits"]))
                self._waiting = {name: size for name, size in self._dead().items() if size}
            if not self._waiting:
                return 0
            name = max(self._waiting, key=lambda name: self._waiting[name])
            dead = self._waiting.pop(name)
            left = sum(self._waiting.values())
        is_small = sizes[name] <= min(_AT_ONCE_BYTES, self._rewritten_bytes)
        if is_small and (name in self._touched or dead > sizes[name] // 4):
            self._rewrite(name, patience_s=0)
        self._vacuum(name)  # after a rewriting, too: it is what counts the dead rows anew
        self._touched.discard(name)
        return left

    def health(self, *, deep: bool) -> Health:
        """See `Store.health`."""
        settings = dict(self._server.use(lambda connection: connection.rows(self._sql["settings"])))
        wrong = [
            f"{name} is off on the server: what was acknowledged may be lost, or damaged, when its machine fails"
            for name in ("fsync", "full_page_writes")
            if settings.get(name) == "off"
        ]
        if settings.get("default_transaction_read_only") == "on":
            wrong.append("the server is read-only (default_transaction_read_only): nothing can be saved")
        broken = self._server.use(lambda connection: connection.rows(self._sql["broken_tail"])) if deep else ()
        problems = tuple(f"{text(name)}: its head says {at}, its last record is {last}" for name, at, last in broken)
        sizes = [size for _, size, *_ in self._tables()]
        return Health(problems=problems, used=sum(sizes), unused=sum(self._dead().values()), settings=tuple(wrong))

    def _dead(self) -> dict[str, int]:
        """About how many bytes of dead rows there are in each table."""
        return {
            name: max(size * dead // max(1, dead + live), _TOUCHED_BYTES if name in self._touched else 0)
            for name, size, dead, live in self._tables()
        }

    def _tables(self) -> list[tuple[str, int, int, int]]:
        schema = f'"{self._sql.schema}"'
        found = self._server.use(lambda connection: connection.rows(self._sql["tables"], schema=schema))
        return [(name, size, dead, live) for name, size, dead, live in found]

    def _parts(self, connection: Connection, table: str, session: int, family: bytes) -> list[str]:
        if table not in _PARTITIONED:
            return [table]
        key = family if table == "chunks" else session
        found = connection.rows(self._sql["parts"], table=f'"{self._sql.schema}".{table}', key=key)
        return [f"{table}_{number}" for (number,) in found] or [table]

    def _calmly(self, work: Callable[[Connection], T]) -> T:
        """Does what may be done twice, on a connection that may be kept waiting for long."""

        def use(connection: Connection) -> T:
            patience, connection.patience_s = connection.patience_s, None
            try:
                return work(connection)
            finally:
                connection.patience_s = patience

        return self._server.use(use)

    def _wait_for_older(self, connection: Connection, done: str) -> None:
        """Until no transaction is left that began before now, and may see what is dead."""
        end = clock.monotonic_s() + self._server.busy_s
        ((since,),) = connection.rows(self._sql["now"])
        while found := connection.rows(self._sql["older"], since=since):
            if clock.monotonic_s() > end:
                why = f"a transaction that began before (process {found[0][0]}) still sees its rows"
                raise self._unfinished(done, why)
            time.sleep(_PAUSE_S)

    def _vacuum(self, name: str) -> None:
        """Takes dead rows out of a table that all may use meanwhile."""
        statement = f'VACUUM "{self._sql.schema}".{name}'
        self._calmly(lambda connection: connection.rows(statement))

    def _rewrite(self, name: str, *, patience_s: float) -> bool:
        """Writes a table anew, which nobody can use meanwhile. False: it could not be had for so long."""
        end = clock.monotonic_s() + patience_s
        while not self._calmly(partial(self._rewritten, name)):
            if clock.monotonic_s() >= end:
                return False
            time.sleep(_PAUSE_S)
        return True

    def _rewritten(self, name: str, connection: Connection) -> bool:
        is_direct = not self._server.is_pooled(connection)  # else a setting would be that of any connection
        if is_direct:
            connection.rows(f"SET lock_timeout = '{int(_TURN_S * 1000)}ms'")
        try:
            connection.rows(f'VACUUM (FULL) "{self._sql.schema}".{name}')
        except errors.LockNotAvailable:
            return False
        finally:
            if is_direct and not connection.closed:
                connection.rows("RESET lock_timeout")
        return True

    def _unfinished(self, done: str, why: str) -> StoreFailedError:
        return StoreFailedError(f"{self._server.url}: {done}, but {why}, so that bytes of it are left; do it again")
