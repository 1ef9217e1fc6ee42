"""How a PostgreSQL store asks: alone with plain values, together with lists, which comes to the same.

A connection prepares what it asks often, and none of that is lost with a transaction or with an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from perdure.stores import Batch, Point
from perdure.stores.address import Address
from perdure.stores.postgres import PostgresStore, open_url
from perdure.stores.postgres.connection import Connection
from perdure.stores.postgres.writing import Append
from perdure.testing.conformance.tools import records_after

KNOWN = b"another record than is there...."


@pytest.fixture
def store(postgres_server) -> Iterator[PostgresStore]:
    with open_url(Address.of(postgres_server.start().fresh_url())) as store:
        yield store


@pytest.fixture
def connection(store: PostgresStore) -> Iterator[Connection]:
    with store._server.connect() as connection:
        yield connection


def leave(store: PostgresStore, session: str) -> None:
    """The session stays as it is."""


def released(store: PostgresStore, session: str) -> None:
    store.release(store.lease(session))


MORE_POINTS = (Point(2, 1, 1, None, 6), Point(3, 2, 1, "name", 7))
ALL = Batch(
    (), MORE_POINTS, keyframes=((3, 3),), marks=((b"m", 3),), chunks={b"d" * 32: b"1", b"e" * 32: b"2"}, taken=(1,)
)
WAYS: dict[str, tuple[int, Batch, dict[str, Any], Callable[[PostgresStore, str], None]]] = {
    "one record": (1, Batch((), summary=b"summary"), {}, leave),
    "two records": (2, Batch(()), {}, leave),
    "a point": (1, Batch((), (Point(3, 2, 1, None, 7),)), {}, leave),
    "a named point": (1, Batch((), (Point(3, 2, 1, "\ud800\0", 7),)), {}, leave),
    "a point of an older record": (1, Batch((), (Point(1, 0, 3, "one", 7),)), {}, leave),
    "two points of one record": (1, Batch((), (Point(3, 2, 1, "old", 7), Point(3, 2, 2, "new", 8))), {}, leave),
    "all there is": (1, ALL, {}, leave),
    "all there is with two records": (2, ALL, {}, leave),
    "no records": (0, Batch((), marks=((b"m", 2),), taken=(1,)), {}, leave),
    "nothing to take": (1, Batch((), taken=(2,)), {}, leave),
    "another epoch": (1, Batch(()), {"epoch": 9}, leave),
    "no epoch while it is held": (1, Batch(()), {"epoch": None}, leave),
    "no epoch": (1, Batch(()), {"epoch": None}, released),
    "nobody holds it": (1, Batch(()), {}, released),
    "another end": (1, Batch(()), {"at": 1}, leave),
    "another record there": (1, Batch(()), {"known": KNOWN}, leave),
    "nothing known": (1, Batch(()), {"known": b""}, leave),
    "an incarnation that is over": (1, Batch(()), {"written": 1}, leave),
}
"""How many records are appended to two that are there, with what else, on which condition, and what was done before."""


def appends(store: PostgresStore, session: str, way: str) -> Append:
    """One of the appends that a test does alone and with others."""
    count, batch, odd, begin = WAYS[way]
    epoch = store.create(session, owner="me").epoch
    first = tuple(replace(one, epoch=epoch) for one in records_after([], session, (b"1", b"2"), kind="note"))
    store.append(session, Batch(first), epoch=epoch, head=0)
    store.send(session, b"item")
    begin(store, session)
    asked = {"epoch": epoch, "at": 2, "known": first[-1].chain, "written": epoch} | odd
    written = asked.pop("written")
    new = records_after(first, session, (b"3", b"4")[:count], kind="note")
    return Append(session, replace(batch, records=tuple(replace(one, epoch=written) for one in new)), **asked)


def there(store: PostgresStore, session: str) -> tuple[Any, ...]:
    """All that is told of a session, without its name."""
    head, records = store.head(session), list(store.read(session))
    chunks = [(digest, store.chunks(session, [digest])) for digest in store.chunk_sizes(session)]
    told = (store.points(session), store.keyframes(session), store.marks(session), store.inbox(session))
    return (head.seq, head.summary, head.chain == records[-1].chain, head.epoch), chunks, told


def test_what_is_appended_alone_and_together_comes_to_the_same(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    before = Connection.rows
    monkeypatch.setattr(Connection, "rows", lambda *a, **k: (sent.append(a[1]), before(*a, **k))[1])
    delivery = store._writers._delivery
    store.begin_incarnation(1)
    for way in WAYS:
        alone, first, second = (appends(store, f"{name}{way}", way) for name in "afs")
        outcomes: dict[str, Any] = {}

        def tell(asked: Append, outcome: Any, outcomes: dict[str, Any] = outcomes) -> None:
            outcomes[asked.session] = outcome

        sent.clear()
        delivery.all([alone], tell)
        delivery.all([first, second], tell)
        assert ["a_digest" in statement for statement in sent if "WITH head" in statement][:2] == [False, True], way
        said = [(type(told), str(told).replace(session, "")) for session, told in outcomes.items()]
        assert said[0] == said[1] == said[2], way
        assert there(store, alone.session) == there(store, first.session) == there(store, second.session), way
        for asked in (alone, first, second):
            new = () if isinstance(outcomes[asked.session], Exception) else asked.batch.records
            assert tuple(store.read(asked.session, after=2)) == tuple(new), way


def test_what_is_asked_often_is_prepared_once(connection: Connection) -> None:
    prepared = "SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT $1::int8 + 1'"
    for value in range(6):
        assert connection.rows("SELECT %(a)s::int8 + 1", a=value) == [(value + 1,)]
        assert connection.rows(prepared) == [(int(value >= 2),)]


def test_what_is_prepared_outlives_a_transaction_that_failed(connection: Connection) -> None:
    for value in range(8):
        connection.execute("BEGIN")
        assert connection.rows("SELECT 2 * %(a)s::int8", a=value) == [(2 * value,)]
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.rows("SELECT 1 / %(a)s::int8", a=0)
        connection.roll_back()
        assert connection.is_idle()
    assert connection.rows("SELECT count(*) FROM pg_prepared_statements")[0][0] >= 2


def test_a_statement_whose_preparing_was_not_heard_of_is_prepared_anew(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Connection._result
    for value in range(2):
        connection.rows("SELECT 3 * %(a)s::int8", a=value)

    def interrupted(self: Connection) -> None:
        before(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(Connection, "_result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        connection.rows("SELECT 3 * %(a)s::int8", a=2)
    monkeypatch.setattr(Connection, "_result", before)
    assert [connection.rows("SELECT 3 * %(a)s::int8", a=value) for value in (3, 4)] == [[(9,)], [(12,)]]


def test_a_value_of_another_type_is_another_statement(connection: Connection) -> None:
    for _ in range(4):
        for value in (b"bytes", None):
            assert connection.rows("SELECT %(a)s::bytea", a=value) == [(value,)]


def test_so_many_are_prepared_and_the_others_are_asked_all_the_same(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.stores.postgres.connection._PREPARED_COUNT_MAX", 2)
    for _ in range(4):
        for number in range(5):
            assert connection.rows(f"SELECT {number} + %(a)s::int8", a=1) == [(number + 1,)]
    assert connection.rows("SELECT count(*) FROM pg_prepared_statements") == [(2,)]
