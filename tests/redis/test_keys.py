"""Keys: whose they are, what is another's, and scripts that are gone; memory that is full."""

from __future__ import annotations

import logging

import pytest
from redis.crc import key_slot

from perdure.errors import (
    DamageError,
    LimitError,
    PerdureError,
    StoreFailedError,
)
from perdure.log import Base
from perdure.stores import Batch, Change, Point, open_store
from perdure.testing.conformance.tools import Log, records_after
from tests.redis.tools import contents, filled, settings

SOON_MS = 200


def test_all_keys_of_a_place_are_in_one_slot_and_tell_whose_they_are(store, admin) -> None:
    filled(store, "a{b}c")
    store.put_envelope(None, b"envelope", seen=None)
    store.begin_incarnation(1)
    keys = admin.keys()
    assert {key_slot(key) for key in keys} == {key_slot(b"{place}")}
    assert all(key.startswith(b"{place}:") for key in keys)


def test_places_on_one_database_are_apart(redis_server, admin) -> None:
    with open_store(redis_server.url("a")) as one, open_store(redis_server.url("a:b")) as two:
        Log(one, "s").append(b"1")
        assert two.heads() == []
        Log(two, "s").append(b"2")
        assert [record.body for record in one.read("s")] == [b"1"]


KINDS = ("session", "records", "points", "keyframes", "marks", "inbox", "sent", "chunks", "kin", "family", "forks")


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_of_another_type_is_damage_and_nothing_is_written(store, admin, kind) -> None:
    log, other = filled(store), filled(store, "other")
    key = f"{{place}}:{kind}:s"
    assert admin.exists(key)
    admin.set(key, "somebody else's")
    before = contents(admin)
    batch = Batch(
        log.next(b"7"),
        points=(Point(7, 6, 1, None, 7),),
        marks=((b"m", 7),),
        keyframes=((7, 7),),
        taken=(1,),
        chunks={b"e" * 32: b"new"},
    )
    first = Batch(records_after(log.records, "late", (b"x",), kind="opened"))
    change = Change(bodies=((1, b""),), chunks={b"e" * 32: b"new"})
    refused = 0
    for work in (
        lambda: store.append("s", batch, epoch=1, head=6),
        lambda: store.send("s", b"more", mark=b"other"),
        lambda: store.put_chunks("s", {b"e" * 32: b"new"}, epoch=1),
        lambda: store.fork("late", first, base=Base("s", 6), epoch=1),
        lambda: store.amend("s", Batch(log.next(b"7")), change, seen=log.lease, head=6, family=["s", "s fork"]),
        lambda: store.delete("s"),
    ):
        try:
            work()
        except (PerdureError, ValueError) as error:
            refused += isinstance(error, DamageError)
            assert contents(admin) == before
        else:
            before = contents(admin)  # it does not touch that key
    assert refused
    other.append(b"7")
    assert list(store.read("other")) == other.records


def test_a_damaged_number_is_found_before_anything_is_written(store, admin) -> None:
    log = filled(store)
    for field in ("counter", "sent", "seq", "epoch", "seam", "tick"):
        there = admin.hget("{place}:session:s", field)
        admin.hset("{place}:session:s", field, "many")
        before = contents(admin)
        for work in (
            lambda: log.append(b"7"),
            lambda: store.send("s", b"x"),
            lambda: store.renew(log.lease),
            lambda: store.delete("s"),
        ):
            with pytest.raises(DamageError, match="session:s"):
                work()
        assert contents(admin) == before
        admin.hset("{place}:session:s", field, there) if there else admin.hdel("{place}:session:s", field)
    log.append(b"7")


def test_scripts_that_the_server_has_forgotten_are_loaded_again(store, admin) -> None:
    logs = [Log(store, f"s{n}") for n in range(4)]
    for n in range(5):
        admin.script_flush()
        told = [store.submit(log.session, Batch(log.next(b"%d" % n)), epoch=1, head=n) for log in logs]
        for log, future in zip(logs, told, strict=True):
            future.result()
            log.records += log.next(b"%d" % n)
        admin.script_flush()
        assert [store.head(log.session).seq for log in logs] == [n + 1] * 4


def test_full_memory_refuses_whole_operations_and_lets_room_be_made(store, admin) -> None:
    log, gone = filled(store), filled(store, "gone")
    with settings(admin, maxmemory=1):
        before = contents(admin)
        for work in (
            lambda: log.append(b"7", points=(Point(7, 6, 1, None, 7),), chunks={b"e" * 32: b"x"}, taken=(1,)),
            lambda: store.send("s", b"x", mark=b"m2"),
            lambda: store.create("new", owner="me"),
            lambda: store.put_chunks("s", {b"e" * 32: b"x"}, epoch=1),
        ):
            with pytest.raises(StoreFailedError, match="memory is full"):
                work()
        assert contents(admin) == before
        log.lease = store.renew(log.lease)
        store.drop_chunks([b"d" * 32], seen={store.lease(name): store.head(name).seq for name in ("gone", "gone fork")})
        store.delete("gone fork")
        store.delete("gone")
        assert store.read_at("s", [1])[0].body == b"1"
    log.append(b"7")
    assert list(store.read("s")) == log.records
    del gone


def test_what_fits_when_it_begins_is_written_whole_whatever_it_takes(store, admin) -> None:
    log = Log(store)
    with settings(admin, maxmemory=admin.info("memory")["used_memory"] + 200_000):
        big = Batch(
            log.next(*[bytes(100_000)] * 40),
            points=(Point(40, 0, 1, None, 0),),
            marks=((b"m", 40),),
            summary=b"s",
        )
        try:
            store.append("s", big, epoch=1, head=0)
        except StoreFailedError:
            whole = 0
        else:
            whole = 40
        assert (store.head("s").seq, len(store.points("s")), len(store.find("s", b"m"))) == (
            whole,
            whole and 1,
            whole and 1,
        )
        assert len(list(store.read("s"))) == whole


def test_a_policy_that_throws_away_is_told_and_what_it_threw_away_is_not_written_over(url, admin, caplog) -> None:
    lossy = settings(admin, maxmemory_policy="allkeys-lru")
    with lossy, caplog.at_level(logging.WARNING), open_store(url) as store:
        told = store.health(deep=False).problems
        log = filled(store)
        admin.delete("{place}:records:s")
        before = contents(admin)
        with pytest.raises(DamageError, match="last record, 6, is not there"):
            log.append(b"7")
    assert "allkeys-lru" in caplog.text
    assert any("noeviction" in problem for problem in told)
    assert contents(admin) == before


def test_a_body_that_is_too_long_for_the_server_is_a_limit(url, admin) -> None:
    with settings(admin, proto_max_bulk_len=1 << 20), open_store(url) as store:
        log = Log(store)
        with pytest.raises(LimitError, match="proto-max-bulk-len"):
            log.append(bytes(2 << 20))
        log.append(b"1")
