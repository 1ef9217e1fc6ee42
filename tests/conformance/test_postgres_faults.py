"""Between us and a PostgreSQL server: connections that end, messages that are lost, a server that is killed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql

from perdure.errors import ProcessForkedError, StoreFailedError
from perdure.log import GENESIS, Base, verified
from perdure.stores import Batch, Change, Lease, Point, Store, open_store
from perdure.stores.address import Address
from perdure.stores.postgres import open_url
from perdure.stores.postgres.arrays import Blobs
from perdure.testing.conformance.tools import Log, records_after
from tests.servers.proxy import AFTER, BEFORE, Proxy
from tests.servers.server import fresh_name

FULL = os.environ.get("PERDURE_STORM") == "full"


@pytest.fixture
def server(postgres_server):
    return postgres_server.start()


# ------------------------------------------------------------------------------------------------- lost messages


def everything(store: Store) -> Iterator[Any]:
    """Each operation once, and what it comes to."""
    first = records_after([], "s", (b"1", b"2"), kind="note")
    opened = Batch(first, points=(Point(2, 0, 3, "p", 0),), chunks={b"d" * 32: b"c"})
    held = store.open("s", opened, owner="a", seen=None)
    yield held
    yield store.send("s", b"one"), store.send("s", b"two", mark=b"m"), store.send("s", b"again", mark=b"m")
    log = list(first)
    for body, taken in ((b"3", (1,)), (b"4", ())):
        more = records_after(log, "s", (body,), kind="note")
        yield store.append("s", Batch(more, taken=taken, marks=((b"k", len(log) + 1),)), epoch=1, head=len(log))
        log += more
    yield store.append("s", Batch((), summary=b"sum", taken=(2,)), epoch=1, head=4)
    last = records_after(log, "s", (b"5",), kind="note")
    yield store.submit("s", Batch(last), epoch=1, head=4).result()
    store.put_chunks("s", {b"e" * 32: b"more"}, epoch=1)
    yield store.renew(held.lease).counter > 0
    store.release(held.lease)
    seen = store.lease("s")
    yield (seen.epoch, seen.owner)
    store.amend("s", Batch(()), Change(((1, b"short"),)), seen=seen, head=5, family=["s"])
    branch = records_after([*log, *last][:3], "f", (b"of a fork",), kind="opened")
    yield store.fork("f", Batch(branch), base=Base("s", 3), epoch=1)
    yield store.claim("f", owner="b", seen=Lease("f", 1, "", 0))
    yield store.create("t", owner="c")
    store.put_envelope("t", b"envelope", seen=None)
    store.begin_incarnation(1)
    yield store.claim("t", owner="d", seen=store.lease("t")).epoch
    store.delete("f")
    yield [head.session for head in store.heads()], store.inbox("s"), store.points("s"), store.find("s", b"k")
    yield list(store.read("s")), store.head("s"), store.chunks("s", [b"d" * 32, b"e" * 32]), store.incarnation()


def by_way_of(proxy: Proxy, server: Any) -> str:
    return server.url(fresh_name(), port=proxy.port) + "&rewrite_mb=0"


@pytest.mark.storm
@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_whatever_is_lost_all_is_done_once(server, when: str) -> None:
    with Proxy(server.host, server.port) as proxy:
        with open_store(by_way_of(proxy, server)) as store:
            proxy.requests = 0
            expected = list(everything(store))
            count = proxy.requests
        for number in range(1, count, 1 if FULL else 13):
            with open_store(by_way_of(proxy, server)) as store:
                proxy.arm(number, when)
                assert list(everything(store)) == expected, f"{when} request {number} of {count}"
                assert proxy.fired


def test_what_only_takes_tells_of_the_newest_item_also_when_its_reply_was_lost(server) -> None:
    with Proxy(server.host, server.port) as proxy, open_store(by_way_of(proxy, server)) as store:
        log = Log(store)
        log.append(b"1")
        for item in (b"one", b"two"):
            store.send("s", item)
        proxy.arm(1, AFTER)
        assert store.append("s", Batch((), taken=(1,)), epoch=1, head=1) == 2
        assert proxy.fired
        assert [item.number for item in store.inbox("s")] == [2]


# ------------------------------------------------------------------------------------------------- connections that end


class Progress:
    """Counts what is done, and lets one wait until more is, or somebody has failed."""

    def __init__(self) -> None:
        self.done, self._failed, self._more = 0, list[BaseException](), threading.Condition()

    def step(self) -> None:
        with self._more:
            self.done += 1
            self._more.notify_all()

    def ended(self, work: Future[None]) -> None:
        """Called by a future that is done."""
        if (error := work.exception()) is not None:
            with self._more:
                self._failed.append(error)
                self._more.notify_all()

    def wait(self, count: int) -> None:
        """Until so many are done. Raises what somebody has failed of."""
        with self._more:
            assert self._more.wait_for(lambda: self.done >= count or self._failed, 60)
            if self._failed:
                raise self._failed[0]


def writers(pool: Executor, store: Store, progress: Progress) -> list[Future[None]]:
    """Four of them, each with a session."""
    writing = [pool.submit(write, store, f"s{n}", 40, progress) for n in range(4)]
    for one in writing:
        one.add_done_callback(progress.ended)
    return writing


def write(store: Store, session: str, count: int, progress: Progress) -> None:
    log = Log(store, session)
    for n in range(count):
        log.append(b"%d" % n, points=(Point(n + 1, n, 1, None, 0),))
        if n % 5 == 0:
            assert store.send(session, b"%d" % n) == n // 5 + 1
        progress.step()


def check(store: Store, session: str, count: int) -> None:
    records = list(verified(store.read(session), session=session, after=0, previous=GENESIS))
    assert [record.body for record in records] == [b"%d" % n for n in range(count)]
    assert len(store.points(session)) == count
    assert len(store.inbox(session)) == (count + 4) // 5


END_ALL = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND datname = current_database()"
)


def test_connections_that_the_server_ends_are_replaced(server) -> None:
    progress = Progress()
    with open_store(server.fresh_url()) as store, ThreadPoolExecutor(4) as pool:
        writing = writers(pool, store, progress)
        for count in range(5, 145, 7):
            progress.wait(count)
            server.sql(END_ALL)
        for n, written in enumerate(writing):
            written.result(60)
            check(store, f"s{n}", 40)


def test_a_server_that_is_killed_and_started_again_loses_nothing(server) -> None:
    progress = Progress()
    with open_store(server.fresh_url() + "&busy_s=60") as store, ThreadPoolExecutor(4) as pool:
        writing = writers(pool, store, progress)
        for count in (10, 90):
            progress.wait(count)
            server.kill()
            server.start()
        for n, written in enumerate(writing):
            written.result(60)
            check(store, f"s{n}", 40)


def test_a_server_that_is_away_is_reported_and_found_again(server) -> None:
    with open_store(server.fresh_url() + "&busy_s=0.5") as store:
        log = Log(store)
        log.append(b"1")
        server.kill()
        for use in (lambda: log.append(b"2"), lambda: store.head("s"), lambda: store.send("s", b"1")):
            with pytest.raises(StoreFailedError, match="cannot be reached"):
                use()
        server.start()
        assert store.head("s").seq == 1
        log.append(b"2")
        assert list(store.read("s")) == log.records


def test_a_server_that_stands_still_is_reported(server) -> None:
    with open_store(server.fresh_url() + "&busy_s=0.5") as store:
        log = Log(store)
        server.pause()
        try:
            with pytest.raises(StoreFailedError):
                log.append(b"1")
        finally:
            server.go_on()
        seq = store.head("s").seq
        if not seq:
            log.append(b"1")
        assert [record.body for record in store.read("s")] == [b"1"]


def test_a_lock_that_another_keeps_is_waited_for_so_long(server) -> None:
    url = server.fresh_url()
    with open_store(url + "&busy_s=0.5") as store, psycopg.connect(url.partition("?")[0]) as other:
        log = Log(store)
        Log(store, "t").append(b"1")
        schema = url.rpartition("=")[2]
        other.execute(sql.SQL("UPDATE {}.sessions SET seq = seq WHERE id = 's'").format(sql.Identifier(schema)))
        with pytest.raises(StoreFailedError):
            log.append(b"1")
        assert store.head("t").seq == 1
        other.rollback()
        seq = store.head("s").seq
        if not seq:
            log.append(b"1")
        assert [record.body for record in store.read("s")] == [b"1"]


def test_a_forked_child_leaves_the_connections_alone(server) -> None:
    with open_store(server.fresh_url()) as store:
        log = Log(store)
        log.append(b"1")
        with store.watch("s"):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    for use in (lambda: store.head("s"), lambda: log.append(b"2"), lambda: store.send("s", b"1")):
                        with pytest.raises(ProcessForkedError):
                            use()
                    store.close()
                    with open_store(store.url) as own:
                        own.send("s", b"child")
                    status = 0
                finally:
                    os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        log.append(b"2")
        assert ([item.content for item in store.inbox("s")], store.head("s").seq) == ([b"child"], 2)


def test_what_became_of_a_transaction_is_decided_once(server) -> None:
    with open_url(Address.of(server.fresh_url())) as store:
        Log(store)
        place = store._server
        for is_committed in (True, False):
            with place.lent() as connection:
                connection.execute("BEGIN")
                connection.rows(store._sql["begin"], busy="1s", token=b"t%d" % is_committed, over=Blobs())
                connection.execute("COMMIT" if is_committed else "ROLLBACK")
            for _ in range(2):
                assert place._is_committed(b"t%d" % is_committed, store._sql["became"]) is is_committed
        with pytest.raises(psycopg.errors.UniqueViolation), place.lent() as connection:
            connection.rows(store._sql["begin"], busy="1s", token=b"t0", over=Blobs())
