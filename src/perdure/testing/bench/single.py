"""One row of a place and its commit: the least that a durable save can cost there, by the same driver.

What one would write by hand, told what has changed: no digest, no lease, no restore point. It is as durable as a save
of the store is: each server is asked for the same promise.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from perdure import clock
from perdure.errors import StoreUrlError
from perdure.stores.address import Address, masked, scheme_of
from perdure.stores.opening import place_in


class SingleRow(Protocol):
    """A table beside a store, made if it is not there; each thread has its own connection to it."""

    def save(self, body: bytes) -> None:
        """One row more; durable on return."""

    def close(self) -> None:
        """Gives the connection back."""

    def remove(self) -> None:
        """Takes the table away."""


class SqliteSingle:
    """A row of a table in a file beside the store's, in WAL mode with `synchronous=FULL`."""

    def __init__(self, url: str, name: str) -> None:
        self._path = Path(place_in(url) if scheme_of(url) else url).with_name(f"{name}.single")
        self._db = sqlite3.connect(self._path, isolation_level=None, timeout=120, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("CREATE TABLE IF NOT EXISTS delta (k INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    def save(self, body: bytes) -> None:
        """One row, one commit."""
        self._db.execute("INSERT INTO delta (body) VALUES (?)", (body,))

    def close(self) -> None:
        """The database takes its WAL in."""
        self._db.close()

    def remove(self) -> None:
        """The file goes, and what a process that was killed left beside it."""
        for path in self._path.parent.glob(f"{self._path.name}*"):
            path.unlink()


class FileSingle:
    """A line appended to a file beside the store's folder, `fdatasync`; each thread has a file of its own."""

    def __init__(self, url: str, name: str) -> None:
        self._path = Path(place_in(url)).with_name(f"{name}.single")
        own = f"{self._path}-{os.getpid()}-{threading.get_ident()}"
        self._file = os.open(own, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def save(self, body: bytes) -> None:
        """One write, one sync."""
        os.write(self._file, body + b"\n")
        os.fdatasync(self._file)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)

    def remove(self) -> None:
        """The files go."""
        for path in self._path.parent.glob(f"{self._path.name}*"):
            path.unlink()


class RedisSingle:
    """An element more in a list, with the server's setting of when that is on its disk."""

    def __init__(self, url: str, name: str) -> None:
        from redis import Redis

        from perdure.stores.redis.target import Target

        self._redis, self._name = Redis(connection_pool=Target.of(Address.of(url), {}).pool()), name

    def save(self, body: bytes) -> None:
        """One command."""
        self._redis.rpush(self._name, body)

    def close(self) -> None:
        """Gives the connections back."""
        self._redis.close()

    def remove(self) -> None:
        """The list goes."""
        self._redis.delete(self._name)


class PostgresSingle:
    """A row of a table in the database of the store, a commit each, by a statement that is prepared."""

    def __init__(self, url: str, name: str) -> None:
        import psycopg
        from psycopg import sql

        from perdure.stores.postgres import options

        address = Address.of(url)
        self._table = sql.Identifier(name)
        self._sql = sql.SQL("INSERT INTO {} (body) VALUES (%s)").format(self._table)
        self._db = psycopg.connect(
            options.read(address).conninfo, autocommit=True, prepare_threshold=1, password=address.password
        )
        with self._db.transaction():
            self._db.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (name,))  # IF NOT EXISTS may race
            made = "CREATE TABLE IF NOT EXISTS {} (k bigserial PRIMARY KEY, body bytea NOT NULL)"
            self._db.execute(sql.SQL(made).format(self._table))

    def save(self, body: bytes) -> None:
        """One row, one commit."""
        self._db.execute(self._sql, (body,))

    def close(self) -> None:
        """Gives the connection back."""
        self._db.close()

    def remove(self) -> None:
        """The table goes."""
        from psycopg import sql

        self._db.execute(sql.SQL("DROP TABLE {}").format(self._table))


class MongoSingle:
    """A document more in a collection of the store's database, with the store's write concern."""

    def __init__(self, url: str, name: str) -> None:
        from perdure.stores.mongo.link import Link

        self._link = Link(Address.of(url), busy_s=10)
        self._rows = self._link.database[name]

    def save(self, body: bytes) -> None:
        """One document, acknowledged by most of the set."""
        self._rows.insert_one({"body": body})

    def close(self) -> None:
        """Gives the connections back."""
        self._link.close()

    def remove(self) -> None:
        """The collection goes."""
        self._rows.drop()


class S3Single:
    """An object more under a prefix of its own, in the bucket of the store."""

    def __init__(self, url: str, name: str) -> None:
        from perdure.stores.s3.place import bucket_at

        self._bucket = bucket_at(replace(Address.of(url), path=name), busy_s=10, timeout_s=30)

    def save(self, body: bytes) -> None:
        """One put."""
        self._bucket.create(clock.new_uuid().hex, body)

    def close(self) -> None:
        """Nothing is held."""

    def remove(self) -> None:
        """The objects go."""
        self._bucket.delete([found.key for found in self._bucket.list("")])


def _of_tiers(url: str, name: str) -> SingleRow:
    """A row of the tier that acknowledges: hot where it is written behind, else cold."""
    address = Address.of(url)
    is_behind = address.option("mode", kind=str, default="through") == "behind"
    return single(address.option("hot" if is_behind else "cold", kind=str, default=""), name)


_OF: Final[dict[str, Callable[[str, str], SingleRow]]] = {
    "sqlite": SqliteSingle,
    "file": FileSingle,
    "redis": RedisSingle,
    "rediss": RedisSingle,
    "postgresql": PostgresSingle,
    "mongodb": MongoSingle,
    "mongodb+srv": MongoSingle,
    "s3": S3Single,
    "tiered": _of_tiers,
}


def single(url: str, name: str) -> SingleRow:
    """A row of this name at the place of a store. Raises `StoreUrlError` for a place that has no such thing."""
    kind = _OF.get(scheme_of(url) or "sqlite")
    if kind is None:
        raise StoreUrlError(f"{masked(url)}: there is no row to compare it with; measured are {', '.join(_OF)}")
    return kind(url, name)
