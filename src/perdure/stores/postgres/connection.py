"""A connection to a PostgreSQL server that gives up waiting after a while, speaks our lists, and asks in few steps.

A statement is put as the server takes it once, and prepared once it was asked often enough. It knows no tables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, Format, TransactionStatus

from perdure.stores.postgres import arrays

if TYPE_CHECKING:
    from perdure.stores.postgres.server import Server

T = TypeVar("T")

_PREPARED_AFTER: Final = 2
"""A statement that was asked so often is prepared, where the connection is to the server itself."""

_PREPARED_COUNT_MAX: Final = 100
"""So many statements of a connection are prepared; the server keeps the plan of each."""

_BACKEND: Final = "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_VALUE: Final = re.compile(r"%\((\w+)\)s")

_Asked: TypeAlias = tuple[bytes, tuple[int, ...]]
"""A statement as the server takes it, and the types of its values."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """One to the server that it is made for; outside of any transaction each statement is one."""

    server: Server
    patience_s: float | None = None
    backend: tuple[Any, ...] | None = None
    """The process that serves it, and when that began; None behind a pooler."""

    @classmethod
    def connect(cls, conninfo: str = "", *, server: Server, **more: Any) -> Self:  # type: ignore[override]
        """Connects to this server, with the password as it is now."""
        more |= {name: value for name, value in server.kept_alive.items() if f"{name}=" not in conninfo}
        if (password := server.address.password) is not None:
            more["password"] = password
        try:
            connection = super().connect(conninfo, fallback_application_name="perdure", **more)
        except psycopg.Error as error:
            server.why = error
            raise
        server.why = None
        try:
            connection._settle(server)  # noqa: SLF001 - of this class
        except BaseException:
            connection.close()
            raise
        return connection

    def _settle(self, server: Server) -> None:
        """What is done with a new connection, before anybody uses it."""
        self.server, self.patience_s = server, server.busy_s
        arrays.teach(self)
        self.prepare_threshold = None  # what the driver prepares it gives up all at once, ours as well
        self._adapting = Transformer(self)
        self._has_plans, self._plan_numbers = False, count()
        self._plans, self._asked_counts = dict[_Asked, bytes](), Counter[_Asked]()
        if not server.is_pooled(self):
            self._has_plans = True
            self.backend = self.rows(_BACKEND)[0]

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """See `psycopg.Connection.wait`: raises when the server keeps silent for longer than our patience."""
        return super().wait(gen, interval=interval, timeout=self.patience_s if timeout is None else timeout)

    def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """What a statement gives; [] for one that gives nothing. `%(name)s` in it stands for a value."""
        text, names, formats = _as_taken(statement)
        with self.lock:
            adapting, wire = self._adapting, self.pgconn
            words = adapting.dump_sequence([*map(values.__getitem__, names)], formats)
            types = adapting.types or ()
            prepared = self._plans.get((text, types)) or self._prepare(text, types)
            if prepared:
                wire.send_query_prepared(prepared, words, adapting.formats, Format.BINARY)
            else:
                wire.send_query_params(text, words, types, adapting.formats, Format.BINARY)
            result = self._result()
            if result.status != ExecStatus.TUPLES_OK:
                return []
            adapting.set_pgresult(result)
            return adapting.load_rows(0, result.ntuples, tuple)

    def _prepare(self, text: bytes, types: tuple[int, ...]) -> bytes | None:
        """Its name, if it was asked often enough."""
        if not self._has_plans or len(self._plans) == _PREPARED_COUNT_MAX:
            return None
        asked = text, types
        self._asked_counts[asked] += 1
        if self._asked_counts[asked] <= _PREPARED_AFTER:
            return None
        name = b"perdure_%d" % next(self._plan_numbers)  # a new one: it may be there though its answer was not heard
        self.pgconn.send_prepare(name, text, types)
        self._result()
        self._plans[asked] = name
        del self._asked_counts[asked]
        return name

    def _result(self) -> Any:
        """What the server answers to what was sent. Raises its errors."""
        results = self.wait(execute(self.pgconn))
        if not results:
            raise psycopg.InternalError("the server has answered nothing")
        result = results[-1]
        if result.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(result, self.info.encoding)
        return result

    def is_idle(self) -> bool:
        """Whether nothing is under way, and no transaction open."""
        return self.pgconn.transaction_status == TransactionStatus.IDLE

    def roll_back(self) -> None:
        """Ends a transaction without its changes; the connection may be gone."""
        if self.pgconn.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            with suppress(psycopg.Error):  # then it is undone by the server
                self.execute("ROLLBACK")


Lend: TypeAlias = Callable[[], AbstractContextManager[Connection]]
"""Gives a connection for a while."""


@lru_cache(maxsize=1024)
def _as_taken(statement: str) -> tuple[bytes, tuple[str, ...], list[PyFormat]]:
    """A statement with its values by number, their names in this order, and as what each is sent."""
    names = dict.fromkeys(_VALUE.findall(statement))
    numbers = {name: f"${number}" for number, name in enumerate(names, 1)}
    text = _VALUE.sub(lambda found: numbers[found[1]], statement)
    return text.encode(), tuple(names), [PyFormat.AUTO] * len(names)
