"""The tables of a PostgreSQL store: made once, and brought to our version, whoever else does so just then.

It knows no sessions. A schema that has something else in it is refused before anything is changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from psycopg import errors

from perdure.errors import StoreUrlError
from perdure.stores import sql
from perdure.stores.postgres import failures
from perdure.stores.postgres.connection import Connection
from perdure.stores.postgres.statements import plain

VERSION: Final = 1
"""The newest version of the tables, which `postgres_schema.sql` makes."""

_LOCK: Final = 0x7065726475726500
_ABSENT: Final = (errors.UndefinedTable, errors.InvalidSchemaName)
_THERE: Final = (
    "SELECT c.relname::text FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid "
    "WHERE n.nspname = %(schema)s"
)
"""What is in the schema; a NULL for an empty one. As the tables say it: what else could tell may remember too long."""

_PARTITIONED: Final = re.compile(r'CREATE TABLE ("\w+"\.\w+) \(.*\) PARTITION BY HASH')


class Schema:
    """The one of this name; `partitions` are made with it, 0 for none.

    `scripts` has `schema` and the migrations `migrate_2` …, each from the version before; other ones only in tests.
    """

    def __init__(
        self,
        name: str,
        *,
        url: str,
        partitions: int = 0,
        version: int = VERSION,
        script: Callable[[str], str] = lambda name: sql.script(f"postgres_{name}"),
    ) -> None:
        self.name, self._url, self._partitions = name, url, partitions
        self._version, self._script = version, script

    def ready(self, connection: Connection) -> None:
        """Returns when the tables are there in our version. Raises `FormatNewerError`, `StoreUrlError`."""
        found = self._found(connection)
        if found is not None and found > self._version:
            raise failures.newer(self._url, found=found, known=self._version)
        if found != self._version:
            self._bring(connection)

    def _found(self, connection: Connection) -> int | None:
        try:
            ((version,),) = connection.rows(plain("SELECT max(version) FROM {s}.versions", self.name))
        except _ABSENT:
            return None
        return 0 if version is None else int(version)

    def _bring(self, connection: Connection) -> None:
        """Makes them, or migrates, in one transaction, behind a lock that all take who do so."""
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            found = connection.rows(_THERE, schema=self.name)
            if any(table == "versions" for (table,) in found):
                self._migrate(connection)
            elif any(table is not None for (table,) in found):
                raise StoreUrlError(
                    f"{self._url}: schema {self.name} has tables of another program; it was left as it is. Name "
                    "another one, as in ?schema=perdure"
                )
            else:
                self._make(connection, is_there=bool(found))

    def _migrate(self, connection: Connection) -> None:
        found = self._found(connection) or 0
        if found > self._version:
            raise failures.newer(self._url, found=found, known=self._version)
        for version in range(found + 1, self._version + 1):
            self._run(connection, f"migrate_{version}", partitions=self._kept_partitions(connection))
            connection.execute(plain("INSERT INTO {s}.versions VALUES (%s)", self.name).encode(), (version,))

    def _make(self, connection: Connection, *, is_there: bool) -> None:
        if not is_there:  # where it is, nobody needs the right to make one
            connection.execute(plain("CREATE SCHEMA {s}", self.name).encode())
        self._run(connection, "schema", partitions=self._partitions)
        connection.execute(plain("INSERT INTO {s}.versions VALUES (%s)", self.name).encode(), (self._version,))
        connection.execute(
            plain("INSERT INTO {s}.store (incarnation, partitions) VALUES (0, %s)", self.name).encode(),
            (self._partitions,),
        )

    def _kept_partitions(self, connection: Connection) -> int:
        ((partitions,),) = connection.rows(plain("SELECT partitions FROM {s}.store", self.name))
        return int(partitions)

    def _run(self, connection: Connection, script: str, *, partitions: int) -> None:
        text = self._script(script)
        for kind, column in (("session", "session"), ("family", "family")):
            text = text.replace(f"{{by {kind}}}", f"PARTITION BY HASH ({column})" if partitions else "")
        for statement in filter(None, map(str.strip, plain(text, self.name).split(";"))):
            connection.execute(statement.encode())
            if made := _PARTITIONED.match(statement):
                for number in range(partitions):
                    part = f"{made[1]}_{number} PARTITION OF {made[1]}"
                    values = f"FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})"
                    connection.execute(f"CREATE TABLE {part} {values}".encode())
