"""The server, as this process reaches it: connections that are made when needed, and replaced when they are gone.

Whoever asks waits up to `busy_s` for a server that cannot be reached, and does not notice a connection that was dropped
in between. What may be done twice is done again; what became of a transaction whose end is not known is asked of the
server. It knows no tables, and keeps no state in a connection: a pooler may give each transaction to another one.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final, TypeVar

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from perdure import clock, faults
from perdure.errors import PerdureError, ProcessForkedError, StoreFailedError
from perdure.stores import refusals
from perdure.stores.address import Address
from perdure.stores.postgres import arrays, failures
from perdure.stores.postgres.connection import Connection, Lend

T = TypeVar("T")
_PAUSE_S: Final = 0.05
_LOOK_S: Final = 0.005

_DRIVERS_LOGGER: Final = "psycopg.pool"
_END: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %(pid)s AND backend_start::text = %(began)s"
)

logging.getLogger(_DRIVERS_LOGGER).addHandler(logging.NullHandler())  # what it would say comes as errors of ours


class Server:
    """The one at this address; `url` is how it may be shown."""

    def __init__(self, address: Address, *, conninfo: str, busy_s: float, connections: int) -> None:
        self.address, self.url, self.busy_s = address, address.shown, busy_s
        self._conninfo, self._connections = conninfo, connections
        self.kept_alive = {
            "autocommit": True,
            "connect_timeout": max(2, int(busy_s)),
            "tcp_user_timeout": int(busy_s * 1000),
            "keepalives_idle": 15,
            "keepalives_interval": 5,
            "keepalives_count": 3,
        }
        self._pid = os.getpid()
        self._closed = False
        self._left: list[tuple[Any, ...]] = []
        self._over: list[bytes] = []
        """Tokens of transactions whose end was heard: the next one removes them."""
        self.pooled: bool | None = None
        """Whether a pooler stands in between; None before the first connection."""
        self._lock = threading.Lock()
        self.why: psycopg.Error | None = None
        """Why the last connection that failed could not be made."""

    def check(self) -> None:
        """Raises in a process that was forked from the one that opened the store, and when it is closed."""
        if os.getpid() != self._pid:
            raise ProcessForkedError(f"{self.url}: was opened before os.fork(); open it again in this process")
        if self._closed:
            raise refusals.closed(self.url)

    def is_pooled(self, connection: Connection) -> bool:
        """Whether a pooler stands in between: then it is another process than the one that has answered."""
        if self.pooled is None:
            ((pid,),) = connection.rows("SELECT pg_backend_pid()")
            self.pooled = pid != connection.info.backend_pid
        return self.pooled

    def connect(self) -> Connection:
        """A connection of the caller's own."""
        return Connection.connect(self._conninfo, server=self)

    @cached_property
    def _pool(self) -> ConnectionPool[Connection]:
        return ConnectionPool(
            self._conninfo,
            connection_class=Connection,
            kwargs={"server": self},
            min_size=0,
            max_size=self._connections,
            reconnect_timeout=self.busy_s,
            num_workers=1,
            name="perdure",
            open=True,
        )

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """A connection for this thread alone, outside of any transaction."""
        self.check()
        with self._lock:
            pool = self._pool
        try:
            connection = pool.getconn(self.busy_s)
        except PoolTimeout as error:
            raise self._unavailable() from error
        try:
            self.end_left(connection)
            yield connection
        finally:
            if not connection.is_idle():
                self.give_up(connection)
            pool.putconn(connection)

    def give_up(self, connection: Connection) -> None:
        """Ends a connection in the middle of something, of which nothing may be done later any more."""
        connection.close()
        if connection.backend is not None:
            with self._lock:
                self._left.append(connection.backend)

    def end_left(self, connection: Connection) -> None:
        """Ends what still serves connections that were given up: what they wait for would be done after one has looked.

        Returns when it is ended, so that from then on what is there tells what was done.
        """
        end = clock.monotonic_s() + self.busy_s if self._left else 0.0
        while self._left:
            if clock.monotonic_s() > end:
                raise StoreFailedError(
                    f"{self.url}: the server does not end process {self._left[0][0]}, which may still write"
                )
            with self._lock:
                left = list(self._left)
            running = [one for one in left if connection.rows(_END, pid=one[0], began=one[1])]
            with self._lock:
                self._left = [one for one in self._left if one in running or one not in left]
            if running:
                time.sleep(_LOOK_S)

    def _unavailable(self) -> PerdureError:
        """For a connection that could not be had for as long as we wait."""
        if self.why is not None:
            return failures.meaning(self.why, url=self.url, busy_s=self.busy_s)
        return StoreFailedError(f"{self.url}: all of its connections= are in use, for {self.busy_s:g} s now")

    def use(self, work: Callable[[Connection], T], *, lend: Lend | None = None) -> T:
        """What `work` returns, which may be done again: it only reads, or writes the same each time."""
        patience, lend = Patience(self), lend or self.lent
        while True:
            try:
                with lend() as connection:
                    return work(connection)
            except psycopg.Error as error:
                patience.after(error)

    def transact(self, work: Callable[[Connection], T], *, begin: str, became: str, point: str | None = None) -> T:
        """What `work` returns, in one transaction that is durable then; done again if it is undone by what passes.

        `begin` leaves a token in it, and `became` takes the token for itself, unless it was committed.
        """
        patience = Patience(self)
        while True:
            token, over = clock.new_bytes(16), self._over[:]
            sent: tuple[T] | None = None
            try:
                with self.lent() as connection, _undone(connection):
                    connection.execute("BEGIN")
                    connection.rows(begin, busy=f"{int(self.busy_s * 1000)}ms", token=token, over=arrays.Blobs(over))
                    result = work(connection)
                    if point is not None:
                        faults.reach(point)
                    sent = (result,)
                    connection.execute("COMMIT")
                    self._over = [*(one for one in self._over if one not in over), token]
                    return result
            except psycopg.Error as error:
                if sent and self._is_committed(token, became):
                    return sent[0]
                patience.after(error)

    def _is_committed(self, token: bytes, became: str) -> bool:
        """What became of a transaction whose end was not heard: it is decided by now."""
        ((is_undone,),) = self.use(lambda connection: connection.rows(became, token=token))
        return not is_undone

    def close(self) -> None:
        """Gives every connection up."""
        if os.getpid() != self._pid:
            return
        self._closed = True
        with self._lock:
            if "_pool" in self.__dict__:
                self._pool.close()


class Patience:
    """How long is waited for a server that cannot be reached, over all tries of one operation."""

    def __init__(self, server: Server) -> None:
        self._server, self._end = server, 0.0
        self._tries = 0

    def after(self, error: psycopg.Error) -> None:
        """Returns when it is time to try again, or raises what the error means to us."""
        server = self._server
        self._end = self._end or clock.monotonic_s() + server.busy_s
        is_wrong_host = server.pooled is None and "failed to resolve host" in str(error)
        if is_wrong_host or not failures.is_passing(error) or clock.monotonic_s() > self._end:
            raise failures.meaning(error, url=server.url, busy_s=server.busy_s) from error
        server.check()
        self._tries += 1
        if self._tries > 1:  # at first it is only a connection that was dropped while nobody looked
            time.sleep(_PAUSE_S * (0.5 + clock.new_random()))


@contextmanager
def _undone(connection: Connection) -> Iterator[None]:
    """Whatever is not committed at the end is undone."""
    try:
        yield
    except BaseException:
        connection.roll_back()
        raise
