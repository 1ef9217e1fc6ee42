"""A schema of PostgreSQL as the place of a store: its tables, rights and settings, and what is left when rows go."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from perdure.errors import ConflictError, FormatNewerError, LimitError, StoreFailedError, StoreUrlError
from perdure.log import stub
from perdure.stores import Batch, Change, Point, open_store, sql
from perdure.stores.address import Address
from perdure.stores.postgres import PostgresStore, open_url, writing
from perdure.stores.postgres.connection import Connection
from perdure.stores.postgres.schema import VERSION, Schema
from perdure.stores.postgres.statements import plain
from perdure.testing.conformance.tools import Log, records_after
from tests.bench import bench_postgres
from tests.servers.server import fresh_name

GOLDEN = Path(__file__).parent.parent / "golden" / "postgres"


@pytest.fixture
def server(postgres_server):
    return postgres_server.start()


@pytest.fixture
def admin(server) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.url("x").partition("?")[0], autocommit=True) as connection:
        yield connection


def opened(url: str) -> PostgresStore:
    return open_url(Address.of(url))


# ------------------------------------------------------------------------------------------------- tables


def tables(server: Any, name: str) -> str:
    """All that makes up a schema, as the server's own program tells it."""
    place = ["-h", str(server.folder), "-p", str(server.port), "-U", "perdure", "-d", "perdure"]
    command = [server._program("pg_dump"), *place, "--schema-only", "--no-comments", f"--schema={name}"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [line for line in told.splitlines() if not line.startswith((r"\restrict", r"\unrestrict"))]
    return "\n".join(lines).replace(name, "schema")


def made(url: str, scripts: dict[str, str], *, version: int, partitions: int = 0) -> str:
    """A schema that is brought to this version. Its name."""
    name = url.rpartition("=")[2]
    with opened(url.replace(name, fresh_name())) as store:
        ready = Schema(name, url=url, version=version, script=scripts.__getitem__, partitions=partitions).ready
        store._server.use(ready)
    return name


@pytest.mark.parametrize("partitions", [0, 3])
@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_tables_of_each_version_are_brought_to_what_new_ones_are(server, version: int, partitions: int) -> None:
    old = {"schema": (GOLDEN / f"schema_{version}.sql").read_text()}
    name = made(server.fresh_url(), old, version=version, partitions=partitions)
    opened(server.url(name)).close()
    new = server.fresh_url() + f"&partitions={partitions}"
    opened(new).close()
    assert tables(server, name) == tables(server, new.partition("=")[2].partition("&")[0])


def test_migrations_are_done_in_turn_and_once(server) -> None:
    """With tables that nobody has: those of a version 3, which is two steps away."""
    steps = {
        "schema": sql.script("postgres_schema"),
        "migrate_2": "CREATE TABLE {s}.more (session bigint) {by session}; ALTER TABLE {s}.sessions ADD extra bytea",
        "migrate_3": "ALTER TABLE {s}.more ADD twice bytea; -- and; a comment\nDROP INDEX {s}.sessions_base",
    }
    whole = f"{steps['schema']}; {steps['migrate_2']}; {steps['migrate_3']}"
    name = made(server.fresh_url(), steps, version=1, partitions=2)
    for _ in range(2):
        made(server.url(name), steps, version=3)
    new = made(server.fresh_url(), {"schema": whole}, version=3, partitions=2)
    assert tables(server, name) == tables(server, new)
    with pytest.raises(FormatNewerError, match="version 3"):
        opened(server.url(name))


def test_a_migration_that_fails_leaves_the_tables_as_they_were(server) -> None:
    steps = {"schema": sql.script("postgres_schema"), "migrate_2": "CREATE TABLE {s}.more (a int); SELECT 1 / 0"}
    name = made(server.fresh_url(), steps, version=1)
    before = tables(server, name)
    with pytest.raises(StoreFailedError):
        made(server.url(name), steps, version=2)
    assert tables(server, name) == before
    opened(server.url(name)).close()


def test_a_schema_of_another_program_is_refused_and_left_alone(server, admin) -> None:
    url = server.fresh_url()
    name = url.rpartition("=")[2]
    admin.execute(f"CREATE SCHEMA {name}")
    admin.execute(f"CREATE TABLE {name}.sessions (a int)")
    before = tables(server, name)
    with pytest.raises(StoreUrlError, match="another program"):
        open_store(url)
    assert tables(server, name) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("?schema=Bad", "schema=Bad"),
        ("?schema=pg_x", "schema=pg_x"),
        ("?partitions=-1", "partitions="),
        ("?connections=0", "connections="),
        ("?busy_s=0", "busy_s="),
        ("?wat=1", "no option wat"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(options: str, said: str) -> None:
    with pytest.raises(StoreUrlError, match=said):
        open_store(f"postgresql://me:secret@localhost/db{options}")


def test_no_password_is_told(server) -> None:
    url = server.fresh_url().replace("perdure@", "nobody:hidden-canary@")
    with pytest.raises(StoreFailedError, match="does not let this user in") as told:
        open_store(url)
    assert "hidden-canary" not in str(told.value)


# ------------------------------------------------------------------------------------------------- rights, settings


def test_a_role_needs_no_more_than_the_tables(server, admin) -> None:
    url, role = server.fresh_url(), fresh_name()
    name = url.rpartition("=")[2]
    admin.execute(f"CREATE ROLE {role} LOGIN")
    with pytest.raises(StoreFailedError, match="rights"):
        open_store(url.replace("perdure@", f"{role}@"))
    opened(url).close()
    admin.execute(f"GRANT USAGE ON SCHEMA {name} TO {role}")
    admin.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {name} TO {role}")
    admin.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {name} TO {role}")
    with open_store(url.replace("perdure@", f"{role}@")) as store:
        log = Log(store)
        log.append(b"1", points=(Point(1, 0, 1, None, 0),), chunks={b"d" * 32: b"c"})
        store.send("s", b"1")
        assert list(store.read("s")) == log.records


SEE = """
CREATE TABLE {s}.seen (setting text);

CREATE FUNCTION {s}.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO {s}.seen VALUES (current_setting('synchronous_commit')); RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER see AFTER INSERT OR UPDATE ON {s}.sessions
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {s}.see()
"""
"""Notes with what setting each transaction is committed."""


def test_it_is_durable_where_others_need_not_be(server, admin) -> None:
    url, role = server.fresh_url(), fresh_name()
    name = url.rpartition("=")[2]
    admin.execute(f"CREATE ROLE {role} LOGIN SUPERUSER")
    admin.execute(f"ALTER ROLE {role} SET synchronous_commit = off")
    with open_store(url.replace("perdure@", f"{role}@")) as store:
        for statement in SEE.split(";\n\n"):
            admin.execute(plain(statement, name).encode())
        log = Log(store)
        log.append(b"1")
        store.send("s", b"1")
        log.lease = store.claim("s", owner="me", seen=store.lease("s"))
        store.release(log.lease)
        store.amend("s", Batch(()), Change(), seen=store.lease("s"), head=1, family=["s"])
        store.delete("s")
    settings = [setting for (setting,) in admin.execute(plain("SELECT setting FROM {s}.seen", name).encode())]
    assert settings == ["on"] * 7


def test_a_server_that_does_not_sync_is_a_problem(server, admin, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(server.fresh_url()) as store:
        assert store.health(deep=True).problems == ()
        monkeypatch.setitem(store._sql._named, "settings", "SELECT 'fsync', 'off'")
        assert "fsync is off on the server" in store.health(deep=False).settings[0]
        assert store.health(deep=True).problems == ()


def test_a_server_that_is_read_only_is_read_and_says_so(server, admin) -> None:
    url, role = server.fresh_url(), fresh_name()
    with open_store(url) as store:
        log = Log(store)
        log.append(b"1")
    admin.execute(f"CREATE ROLE {role} LOGIN SUPERUSER")
    admin.execute(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    with open_store(url.replace("perdure@", f"{role}@") + "&busy_s=0.2") as store:
        assert list(store.read("s")) == log.records
        assert "read-only" in store.health(deep=False).settings[0]
        log.store = store
        with pytest.raises(StoreFailedError, match="read-only"):
            log.append(b"2")


def test_a_tail_that_is_missing_is_a_problem(server, admin) -> None:
    url = server.fresh_url()
    with open_store(url) as store:
        Log(store).append(b"1", b"2")
        admin.execute(plain("DELETE FROM {s}.records WHERE seq = 2", url.rpartition("=")[2]).encode())
        assert store.health(deep=False).problems == ()
        assert store.health(deep=True).problems == ("s: its head says 2, its last record is 1",)


def test_a_writer_finds_out_that_the_place_was_taken_back(server, admin) -> None:
    """As by a failover to a standby that has not all: the log is shorter, and somebody may have gone on from there."""
    url = server.fresh_url()
    with open_store(url) as store, open_store(url) as other:
        log = Log(store)
        log.append(b"1")
        log.append(b"2")
        older = "UPDATE {s}.sessions SET seq = 1, chain = (SELECT chain FROM {s}.records WHERE seq = 1)"
        for statement in (older, "DELETE FROM {s}.records WHERE seq = 2"):
            admin.execute(plain(statement, url.rpartition("=")[2]).encode())
        with pytest.raises(ConflictError, match="ends at 1"):
            log.append(b"3")
        other.append("s", Batch(records_after(log.records[:1], "s", (b"another 2",), kind="note")), epoch=1, head=1)
        for write in (store.append, lambda *a, **k: store.submit(*a, **k).result()):
            with pytest.raises(ConflictError, match="record 2 is not the one"):
                write("s", Batch(log.next(b"3")), epoch=1, head=2)
        assert [record.body for record in store.read("s")] == [b"1", b"another 2"]
        known = list(store.read("s"))
        held = store.open(
            "s", Batch(records_after(known, "s", (b"3",), kind="note")), owner="me", seen=store.lease("s")
        )
        known = list(store.read("s"))
        store.append("s", Batch(records_after(known, "s", (b"4",), kind="note")), epoch=held.lease.epoch, head=3)


# ------------------------------------------------------------------------------------------------- round trips, sizes


def test_a_save_is_one_statement(server, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    for name in ("execute", "rows"):
        before = getattr(Connection, name)
        noted = lambda *a, before=before, **k: (sent.append(str(a[1])), before(*a, **k))[1]  # noqa: E731
        monkeypatch.setattr(Connection, name, noted)
    with opened(server.fresh_url()) as store:
        log = Log(store)
        log.append(b"1", chunks={b"d" * 32: b"c"})
        store.send("s", b"1")
        sent.clear()
        log.append(b"2", b"3", points=(Point(3, 0, 1, "n", 0),), marks=((b"m", 2),), keyframes=((3, 3),), taken=(1,))
        assert len(sent) == 1
        sent.clear()
        log.append(b"4", points=(Point(4, 3, 1, None, 0),))
        assert len(sent) == 1
        sent.clear()
        log.lease = store.open("s", Batch(log.next(b"5")), owner="me", seen=store.lease("s")).lease
        store.release(log.lease)
        assert len(sent) == 3
        sent.clear()
        assert len(store.points("s")) == len(store.find("s", b"m")) + 1 == 2
        assert len(list(store.read("s"))) == 5
        assert len(sent) == 3


def test_what_is_too_long_for_a_message_is_refused(server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "BATCH_BYTES_MAX", 1000)
    with opened(server.fresh_url()) as store:
        log = Log(store)
        with pytest.raises(LimitError, match="1,000"):
            log.append(bytes(1001))
        log.append(bytes(1000))


# ------------------------------------------------------------------------------------------------- what is left


CANARY = b"no byte of this may stay "


def found(server: Any) -> list[str]:
    """The files of the server's tables in which it stands. Its write-ahead log is not ours to clean."""
    assert server.sql("CHECKPOINT") is not None
    files = [path for path in (server.folder / "data").rglob("*") if path.is_file() and "pg_wal" not in path.parts]
    held = []
    for path in files:
        with contextlib.suppress(FileNotFoundError):  # the server removes some of its files at any time
            held += [str(path)] if CANARY in path.read_bytes() else []
    return held


@pytest.mark.parametrize("options", ["", "&partitions=2"])
def test_no_byte_stays_of_a_session_that_was_deleted(server, options: str) -> None:
    with open_store(server.fresh_url() + options) as store:
        for session in ("gone", "kept"):
            log = Log(store, session)
            mine = CANARY if session == "gone" else b"kept"
            for n in range(40):
                points = (Point(n + 1, n, 1, mine.decode(), 0),)
                log.append(mine + bytes(100 * n), points=points, marks=((mine, n + 1),), summary=mine + b"summary")
            store.put_chunks(session, {b"d" * 32: mine + bytes(9000)}, epoch=1)
            store.send(session, mine, mark=mine)
            store.put_envelope(session, mine, seen=None)
        assert store.health(deep=False).problems == ()
        assert len(found(server)) > 5
        store.delete("gone")
        assert found(server) == []
        assert list(store.read("kept")) == log.records


def test_no_byte_stays_of_what_was_replaced_once_it_is_purged(server) -> None:
    with open_store(server.fresh_url()) as store:
        log = Log(store)
        log.append(*[CANARY + bytes(100 * n) for n in range(40)], points=(Point(1, 0, 1, CANARY.decode(), 0),))
        store.release(log.lease)
        change = Change(tuple((record.seq, stub(record.body)) for record in log.records), points=(1,))
        store.amend("s", Batch(()), change, seen=store.lease("s"), head=40, family=["s"])
        store.purge("s")
        assert found(server) == []


def test_who_still_sees_what_was_deleted_is_named(server, admin) -> None:
    with open_store(server.fresh_url() + "&busy_s=0.3") as store:
        Log(store).append(CANARY)
        admin.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        admin.execute("SELECT 1")
        with pytest.raises(StoreFailedError, match=f"process {admin.info.backend_pid}\\) still sees its rows"):
            store.delete("s")
        assert store.heads() == []
        admin.execute("COMMIT")
        store.delete("s")
        assert found(server) == []


def test_a_large_table_is_not_written_anew(server, admin) -> None:
    url = server.fresh_url()
    file = f"SELECT pg_relation_filenode('{url.rpartition('=')[2]}.records')"
    with open_store(url + "&rewrite_mb=0") as store:
        Log(store).append(b"1")
        before = admin.execute(file).fetchone()
        store.delete("s")
        assert admin.execute(file).fetchone() == before
    with open_store(url) as store:
        Log(store, "t").append(b"1")
        store.delete("t")
        assert admin.execute(file).fetchone() != before


# ------------------------------------------------------------------------------------------------- many sessions


def test_with_many_sessions_no_table_is_read_from_end_to_end(server, admin) -> None:
    """A small form of the bench that docs/stores.md has the figures of."""
    read = "SELECT sum(seq_tup_read)::int FROM pg_stat_all_tables WHERE schemaname = %s AND relname <> 'store'"
    for partitions in (0, 4):
        with bench_postgres.filled(server.url("x").partition("?")[0], count=2000, partitions=partitions) as store:

            def rows_read(store: PostgresStore = store) -> Any:
                for lend in (store._server.lent, store._writers.own):
                    with lend() as connection:
                        connection.rows("SELECT pg_stat_force_next_flush()")
                return admin.execute(read, (store._sql.schema,)).fetchone()

            before = rows_read()
            store.open("new", Batch(records_after([], "new", (b"1",), kind="note")), owner="me", seen=None)
            log = list(store.read("s7"))
            store.append("s7", Batch((replace(log[0], seq=11),), (Point(11, 0, 1, None, 0),)), epoch=1, head=10)
            for look in (store.head, store.points, store.keyframes, store.marks, store.inbox, store.chunk_sizes):
                look("s7")
            assert (store.find("s7", b"m"), store.read_at("s7", [3])[0].seq) == ([], 3)
            assert rows_read() == before
            store.heads()
            assert rows_read() != before
