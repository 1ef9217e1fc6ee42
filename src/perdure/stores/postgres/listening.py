"""How those who wait hear of other processes: one connection that listens, made when somebody waits for the first time.

What is told is that something came to a session, by the digest of its id. Who writes tells it only of sessions that
somebody said he waits for; what is sent is told always. Through a pooler nobody can listen: then one looks.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import psycopg

from perdure import clock
from perdure.errors import PerdureError
from perdure.stores.postgres.connection import Connection
from perdure.stores.postgres.rows import digest_of
from perdure.stores.postgres.server import Server
from perdure.stores.postgres.statements import Statements
from perdure.stores.watch import Bells, Watch

_AGAIN_S: Final = 1.0
"""After the connection was lost: until then nobody is told, and everybody looks once it is there again."""

_SAID_EVERY_S: Final = 45.0
"""That somebody waits is remembered by the store for a minute at least."""


class Listener:
    """That of one store."""

    def __init__(self, server: Server, sql: Statements, *, channel: str) -> None:
        self._server, self._sql, self._channel = server, sql, channel
        self._bells = Bells()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._ended = threading.Event()
        self._listening = threading.Event()

    def watch(self, session: str) -> Watch:
        """See `Store.watch`."""
        bell = self._bells.watch(session, polled=self._server.pooled is True)
        return bell if self._server.pooled is True else _Told(bell, session, tell=self._say, begin=self._begin)

    def end(self) -> None:
        """Listens no more."""
        self._ended.set()
        with self._lock:
            if self._connection is not None:
                _interrupt(self._connection)
        if self._thread is not None:
            self._thread.join()

    def _begin(self) -> None:
        """Returns when it listens, or cannot."""
        with self._lock:
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._serve, name="perdure-listens", daemon=True)
                self._thread.start()
        self._listening.wait(_AGAIN_S)

    def _say(self, session: str) -> None:
        """Makes who writes to the session tell of it."""
        self._server.use(lambda connection: connection.rows(self._sql["watch"], digest=digest_of(session)))

    def _serve(self) -> None:
        while not self._ended.is_set():
            with suppress(psycopg.Error, PerdureError):  # whoever waits looks by himself now and then
                self._listen()
            self._listening.clear()
            self._bells.ring_all()
            self._ended.wait(_AGAIN_S)

    def _listen(self) -> None:
        with self._server.connect() as connection:
            connection.patience_s = None
            connection.execute(f"LISTEN {self._channel}".encode())
            with self._lock:
                self._connection = connection
            try:
                self._listening.set()
                self._bells.ring_all()
                for notice in connection.notifies() if not self._ended.is_set() else ():
                    self._ring(notice.payload)
            finally:
                with self._lock:
                    self._connection = None

    def _ring(self, digest: str) -> None:
        for session in self._bells.sessions():
            if digest_of(session).hex() == digest:
                self._bells.ring(session)


class _Told(Watch):
    """A bell that others are asked to ring."""

    def __init__(self, bell: Watch, session: str, *, tell: Callable[[str], None], begin: Callable[[], None]) -> None:
        self._bell, self._session, self._say, self._begin = bell, session, tell, begin
        self._said_s = 0.0

    def __enter__(self) -> Self:
        """See `Watch`."""
        self._bell.__enter__()
        self._begin()
        self._say_again()
        return self

    def wait(self, timeout_s: float) -> bool:
        """See `Watch.wait`."""
        end = clock.monotonic_s() + timeout_s
        while True:
            left_s = max(0.0, end - clock.monotonic_s())
            if self._bell.wait(min(left_s, _SAID_EVERY_S)):
                return True
            if left_s <= _SAID_EVERY_S:
                return False
            self._say_again()

    def _say_again(self) -> None:
        if not self._said_s or clock.monotonic_s() > self._said_s + _SAID_EVERY_S:
            self._said_s = clock.monotonic_s()
            with suppress(PerdureError):  # who looks hears of it
                self._say(self._session)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """See `Watch`."""
        self._bell.__exit__(kind, error, where)


def _interrupt(connection: Connection) -> None:
    """Ends the waiting of another thread on this connection."""
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
