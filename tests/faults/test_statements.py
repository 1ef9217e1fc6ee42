"""A statement that fails inside of an operation, on each table that it writes to: nothing of the operation is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import psycopg
import pytest

from perdure.errors import StoreFailedError
from perdure.stores import Store, open_store
from tests.faults.conftest import FULL
from tests.faults.operations import OPERATIONS, Operation, picture
from tests.servers.places import POSTGRES, Place

pytestmark = pytest.mark.storm
SHORT = {"create", "open", "open again", "append", "send once", "fork", "amend", "drop chunks"}
CHOSEN = {operation.name for operation in OPERATIONS if operation.writes and (FULL or operation.name in SHORT)}
FAILS = """
CREATE FUNCTION "{schema}".fails() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'it is made to fail here'; END $$
"""


class Spoiler:
    """Makes every change of one table fail."""

    def __init__(self, link: psycopg.Connection, schema: str) -> None:
        self._link, self._schema = link, schema
        link.execute(FAILS.format(schema=schema))

    def tables(self) -> list[str]:
        """The store's tables, partitions apart."""
        found = self._link.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition "
            "AND relnamespace = %s::regnamespace ORDER BY relname",
            [f'"{self._schema}"'],
        )
        return [name for (name,) in found]

    @contextmanager
    def spoiled(self, table: str) -> Iterator[None]:
        place = f'"{self._schema}".{table}'
        self._link.execute(
            f"CREATE TRIGGER spoiled BEFORE INSERT OR UPDATE OR DELETE ON {place} "
            f'FOR EACH STATEMENT EXECUTE FUNCTION "{self._schema}".fails()'
        )
        try:
            yield
        finally:
            self._link.execute(f"DROP TRIGGER spoiled ON {place}")


class Bench:
    """A store, and what makes its statements fail."""

    def __init__(self, store: Store, spoiler: Spoiler) -> None:
        self._store, self._spoiler = store, spoiler
        self._sessions = (f"s{number:05d}" for number in count())

    def spoiling(self, operation: Operation) -> list[str]:
        """The tables without which it fails. Raises `AssertionError` if something was done of it all the same."""
        session = next(self._sessions)
        operation.act(self._store, session, operation.prepare(self._store, session))
        right = picture(self._store, session)
        return [table for table in self._spoiler.tables() if self._fails(operation, table, right)]

    def _fails(self, operation: Operation, table: str, right: str) -> bool:
        session = next(self._sessions)
        log = operation.prepare(self._store, session)
        before = picture(self._store, session)
        error = None
        with self._spoiler.spoiled(table):
            try:
                operation.act(self._store, session, log)
            except StoreFailedError as raised:
                error = raised
        if error is not None:
            assert "made to fail" in str(error)
            assert picture(self._store, session) == before, f"{operation} without {table}"
            operation.act(self._store, session, log)
        assert picture(self._store, session) == right, f"{operation} with {table} again"
        return error is not None


@pytest.mark.parametrize("place", [POSTGRES], indirect=True, ids=repr)
def test_if_a_statement_fails_nothing_is_done(place: Place) -> None:
    url, _, schema = place.url.partition("?schema=")
    with open_store(place.url) as store, psycopg.connect(url, autocommit=True) as link:
        bench = Bench(store, Spoiler(link, schema))
        found = {operation.name: bench.spoiling(operation) for operation in OPERATIONS if operation.name in CHOSEN}
    assert all(found.values()), found
