"""What a server may lose or refuse to answer: failovers, replicas, kills, forks."""

from __future__ import annotations

import itertools
import os
import threading
from dataclasses import replace

import pytest
from redis import Redis

from perdure import clock
from perdure.errors import (
    ConflictError,
    ProcessForkedError,
    StoreFailedError,
)
from perdure.stores import Batch, Lease, open_store
from perdure.testing.conformance.tools import Log, together
from tests.redis.tools import PATIENCE_S, eventually, filled
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer

SOON_MS = 200


def test_a_failover_that_lost_writes_is_noticed_and_nothing_is_written_over(redis_server, url, admin) -> None:
    with RedisServer() as replica, Proxy(redis_server.host, redis_server.port) as way:
        second = Redis(host=replica.host, port=replica.port)
        second.replicaof(redis_server.host, redis_server.port)
        with open_store(redis_server.url("place", port=way.port)) as store:
            logs = [Log(store, name) for name in ("ahead", "level", "unheld")]
            for log in logs:
                log.append(b"1")
            store.release(logs[2].lease)
            eventually(lambda: second.hget("{place}:session:unheld", "owner") == b"")
            second.replicaof("NO", "ONE")
            for log in logs[:2]:
                log.append(b"acknowledged, and lost")
            (lost,) = logs[2].next(b"acknowledged, and lost")
            store.append("unheld", Batch((lost,)), epoch=None, head=1)
            way._server = (replica.host, replica.port)
            redis_server.kill()
            with pytest.raises(ConflictError, match="ends at 1"):
                logs[0].append(b"3")
            with open_store(replica.url("place")) as other:
                for name in ("level", "unheld"):
                    mine = replace(other.read_at(name, [1])[0], seq=2, body=b"another's", chain=b"c" * 32)
                    other.append(name, Batch((mine,)), epoch=1 if name == "level" else None, head=1)
            with pytest.raises(ConflictError, match="another one than was written here"):
                logs[1].append(b"3")
            with pytest.raises(ConflictError, match="another one than was written here"):
                store.append("unheld", Batch((replace(lost, seq=3),)), epoch=None, head=2)
            assert [record.body for record in store.read("level")] == [b"1", b"another's"]
        second.close()
    redis_server.start()


def test_an_acknowledgement_waits_for_replicas_and_nothing_is_told_before(redis_server, url, admin) -> None:
    with open_store(f"{url}&wait_replicas=1") as store:
        proof = store._link.proof  # type: ignore[attr-defined]
        assert proof == ("WAIT", 1, 2500)
        store._link.proof = (*proof[:2], 50)  # type: ignore[attr-defined]
        with pytest.raises(StoreFailedError, match="not yet on as many replicas"):
            store.create("s", owner="me")
        for look in (lambda: store.head("s"), store.heads, lambda: store.lease("s")):
            with pytest.raises(StoreFailedError, match="not yet on as many replicas"):
                look()
        with RedisServer() as replica, Redis(host=replica.host, port=replica.port) as second:
            second.replicaof(redis_server.host, redis_server.port)
            eventually(lambda: admin.wait(1, 100) == 1)
            store._link.proof = proof  # type: ignore[attr-defined]
            assert store.lease("s") == Lease("s", 1, "me", 0)
            log = Log(store, "t")
            log.append(b"1")
            with open_store(replica.url("place")) as reader:
                assert list(reader.read("t")) == log.records
                assert any("replica" in problem for problem in reader.health(deep=False).settings)


def test_an_append_that_is_not_on_replicas_is_not_acknowledged(redis_server, url, store) -> None:
    with open_store(f"{url}&wait_replicas=1") as waiting:
        link = waiting._link  # type: ignore[attr-defined]
        link.proof, proof = None, (*link.proof[:2], 50)
        log = Log(waiting)
        link.proof = proof
        with pytest.raises(StoreFailedError, match="not yet on as many replicas"):
            log.append(b"1")
        assert store.head("s").seq == 1
        for look in (lambda: waiting.head("s"), lambda: log.append(b"2")):
            with pytest.raises(StoreFailedError, match="not yet on as many replicas"):
                look()
        assert store.head("s").seq == 1


def test_a_replica_is_read_and_takes_no_writes(redis_server, url, store, admin, monkeypatch) -> None:
    filled(store)
    with RedisServer() as replica, Redis(host=replica.host, port=replica.port) as second:
        second.replicaof(redis_server.host, redis_server.port)
        eventually(lambda: second.exists("{place}:session:s") == 1)
        with open_store(replica.url("place")) as reader:
            assert len(list(reader.read("s"))) == 6
            leaps = itertools.count(60.0, 60.0)
            monkeypatch.setattr(clock, "monotonic_s", lambda: next(leaps))  # patience is over at the second try
            with pytest.raises(StoreFailedError, match="replica"):
                reader.send("s", b"x")


def test_of_threads_whose_server_is_killed_each_goes_on(redis_server, url, store) -> None:
    killed = threading.Event()

    def write(number: int) -> Log | None:
        if number == 4:
            redis_server.kill()
            redis_server.start()
            killed.set()
            return None
        log = Log(store, f"s{number}")
        while not killed.is_set() or len(log.records) < 20:
            log.append(b"%d" % len(log.records))
        return log

    for log in together(5, write):
        if log is not None:
            assert list(store.read(log.session)) == log.records


def test_whoever_watches_is_told_again_after_the_server_was_gone(redis_server, store) -> None:
    log = Log(store)
    with store.watch("s") as watch:
        log.append(b"1")
        assert watch.wait(PATIENCE_S)
        redis_server.kill()
        redis_server.start()
        assert watch.wait(PATIENCE_S)
        log.append(b"2")
        assert watch.wait(PATIENCE_S)


def test_a_forked_child_is_refused_and_its_parent_goes_on(store) -> None:
    log = Log(store)
    log.append(b"1")
    child = os.fork()
    if not child:
        try:
            store.head("s")
        except ProcessForkedError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    log.append(b"2")
    assert list(store.read("s")) == log.records
