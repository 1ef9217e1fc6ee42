"""MongoDB runs the whole suite, plain and sealed; and what only MongoDB can meet."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import bson
import pytest

from perdure.errors import (
    DamageError,
    FormatNewerError,
    LimitError,
    ProcessForkedError,
    StoreFailedError,
    StoreUrlError,
)
from perdure.ops.doctor import doctor
from perdure.stores import Batch, Lease, Point, Store, open_store, watch
from perdure.stores.address import Address
from perdure.stores.mongo import MongoStore, chunks, inbox, open_url, parts
from perdure.stores.mongo.layout import TAIL_BYTES
from perdure.stores.mongo.moving import move
from perdure.testing.conformance import DurableStoreConformance
from perdure.testing.conformance.durability import DurabilityChecks
from perdure.testing.conformance.tools import Log
from tests.servers.mongo import MongoServer
from tests.servers.plugin import running

KEY = bytes(range(32))
FULL = os.environ.get("PERDURE_STORM") == "full"


class OnMongo(DurableStoreConformance):
    """A database for each folder that a check is given. Read by processes that the check starts, too."""

    keys: bytes | None = None

    @pytest.fixture(autouse=True)
    def server(self, mongo_server) -> None:
        self.at = mongo_server.start().url("place")

    def open(self, place: Path) -> Store:
        return open_store(self.url(place), keys=self.keys)

    def bare(self, place: Path) -> Store:
        return open_url(Address.of(self.url(place)))

    def url(self, place: Path) -> str:
        return self.at.replace("place?", hashlib.sha256(str(place).encode()).hexdigest()[:16] + "?")


class TestMongo(OnMongo):
    pass


class TestSealedMongo(OnMongo):
    keys = KEY
    if not FULL:
        test_a_body_of_64_megabytes = None
        test_ten_thousand_records = None


if not FULL:  # a process that it starts takes seconds, and what it shows is shown by the plain store
    for name in vars(DurabilityChecks):
        if "killed" in name or "processes" in name or "elsewhere" in name:
            setattr(TestSealedMongo, name, None)


@pytest.fixture
def url(mongo_server) -> str:
    return mongo_server.start().fresh_url()


@pytest.fixture
def store(url: str) -> Iterator[MongoStore]:
    with open_url(Address.of(url)) as found:
        yield found


# ------------------------------------------------------------------------------------------------------- the documents


def test_a_log_of_any_length_has_a_small_document_and_few_others(store: MongoStore) -> None:
    log = Log(store)
    for n in range(300):
        log.append(os.urandom(500), points=(Point(n + 1, n, 1, None, n),), marks=((b"%d" % n, n + 1),))
        assert len(bson.encode(store._sessions.look("s").doc)) < 2 * TAIL_BYTES
    assert 5 < store._link.records.count_documents({}) == store._link.index.count_documents({}) < 20
    assert list(store.read("s")) == log.records
    assert [record.seq for record in store.read_at("s", [300, 1, 150])] == [300, 1, 150]
    assert (len(store.points("s")), store.find("s", b"7"), len(store.marks("s"))) == (300, [8], 300)


def test_of_two_that_move_entries_the_second_takes_over_what_the_first_wrote(store: MongoStore) -> None:
    log = Log(store)
    for _ in range(4):
        log.append(bytes(3000))
    early = store._sessions.look("s")
    log.append(b"5", marks=((b"m", 5),))
    first, second = move(store._link, early), move(store._link, store._sessions.look("s"))
    assert (first.count, second.count, first.start, second.start) == (4, 4, 4, 4)
    assert (first.tail, [one["q"] for one in second.tail]) == ([], [5])
    log.append(b"6")
    assert (list(store.read("s")), store.find("s", b"m")) == (log.records, [5])


def test_what_has_no_place_in_one_document_is_refused_and_leaves_nothing(store: MongoStore) -> None:
    log = Log(store)
    log.append(b"1")
    with pytest.raises(LimitError, match="16 MB"):
        log.attempt(Batch((), marks=tuple((bytes([n]) * (1 << 20), 1) for n in range(17))))
    log.append(b"2")
    assert (list(store.read("s")), store.marks("s")) == (log.records, [])


def test_a_batch_of_many_bodies_has_its_place(store: MongoStore) -> None:
    log = Log(store)
    log.append(*(os.urandom(5000) for _ in range(1000)))
    assert len(bson.encode(store._sessions.look("s").doc)) < 1 << 18
    assert list(store.read("s")) == log.records


def test_a_long_chunk_is_kept_once_and_repaired(store: MongoStore, monkeypatch) -> None:
    monkeypatch.setattr(parts, "PIECE_BYTES", 1000)
    monkeypatch.setattr(chunks, "PIECE_BYTES", 1000)
    store.create("s", owner="me")
    kept = {b"d" * 32: os.urandom(2500)}
    for _ in range(2):
        store.put_chunks("s", kept, epoch=1)
        assert (store.chunks("s", kept), store._link.parts.count_documents({})) == (kept, 3)
    store._link.parts.delete_one({})
    with pytest.raises(DamageError):
        store.chunks("s", kept)
    store.put_chunks("s", kept, epoch=1)
    assert (store.chunks("s", kept), store._link.parts.count_documents({})) == (kept, 3)


def test_an_inbox_that_is_full_says_so(store: MongoStore, monkeypatch) -> None:
    monkeypatch.setattr(inbox, "COUNT_MAX", 2)
    log = Log(store)
    assert [store.send("s", b"1"), store.send("s", b"2")] == [1, 2]
    with pytest.raises(LimitError, match="2 items"):
        store.send("s", b"3")
    log.append(b"taken", taken=(1,))
    assert store.send("s", b"3") == 3


def test_a_deleted_session_leaves_a_tombstone_and_nothing_else(store: MongoStore) -> None:
    log = Log(store, "kept-name")
    for _ in range(5):
        log.append(os.urandom(5000), os.urandom(50_000), marks=((b"m", 1),), chunks={b"d" * 32: b"chunk"})
        store.send("kept-name", bytes(5000), mark=os.urandom(8))
    store.put_envelope("kept-name", b"keys", seen=None)
    store.delete("kept-name")
    left = [doc for documents in store._place._documents() for doc in documents.find()]
    assert [sorted(doc) for doc in left] == [["_id", "erased", "f"], ["_id", "format"]]
    assert b"kept-name" not in bson.encode({"left": left})


# ------------------------------------------------------------------------------------------------------------ opening


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("mongodb://127.0.0.1", "no database"),
        ("mongodb://127.0.0.1/a.b", "database name"),
        ("mongodb://127.0.0.1/a?busy_s=soon", "busy_s"),
        ("mongodb://127.0.0.1,127.0.0.2/a?directConnection=true", "directConnection"),
    ],
)
def test_a_url_that_names_no_place_is_refused(url: str, what: str) -> None:
    with pytest.raises(StoreUrlError, match=what):
        open_store(url)


def test_a_server_that_is_not_there_is_waited_for_and_named_without_its_password() -> None:
    with pytest.raises(StoreFailedError, match="refused") as refused:
        open_store("mongodb://me:very-secret@127.0.0.1:9/agents?busy_s=0.3")
    assert "very-secret" not in str(refused.value)
    assert "mongodb://me@127.0.0.1:9/agents" in str(refused.value)


def test_a_place_that_a_newer_perdure_made_is_refused(url: str, store: MongoStore) -> None:
    store._link.place.update_one({"_id": "place"}, {"$set": {"format": 99}})
    with pytest.raises(FormatNewerError, match="99"):
        open_store(url)


def test_no_url_makes_an_acknowledgement_mean_less(url: str) -> None:
    with open_url(Address.of(f"{url}&w=0&journal=false&readPreference=nearest&readConcernLevel=local")) as store:
        for documents in (store._link.sessions, store._link.parts, store._link.place):
            assert documents.write_concern.document == {"w": "majority", "j": True, "wtimeout": 10_000}
            assert documents.read_concern.document == {"level": "majority"}
            assert documents.read_preference.mongos_mode == "primary"


def test_a_forked_child_may_not_use_the_store(store: MongoStore) -> None:
    log = Log(store)
    pid = os.fork()
    if not pid:
        try:
            store.head("s")
        except ProcessForkedError:
            store.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    log.append(b"1")
    assert list(store.read("s")) == log.records


def test_a_handle_outlives_its_server(mongo_server) -> None:
    with open_store(mongo_server.start().fresh_url()) as store:
        log = Log(store)
        log.append(b"1")
        mongo_server.kill()
        waiting = threading.Thread(target=log.append, args=(b"2",))
        waiting.start()
        mongo_server.start()
        waiting.join()
        assert [record.body for record in store.read("s")] == [b"1", b"2"]


# ------------------------------------------------------------------------------------------------------------ waiting


def test_a_change_stream_wakes_who_waits(store: MongoStore, url: str, monkeypatch) -> None:
    monkeypatch.setattr(watch.Polling, "left_s", lambda _: 1e9)
    monkeypatch.setattr(watch.Polling, "wait", lambda *_: False)
    Log(store)
    with open_store(url) as other, store.watch("s") as waiting:
        assert waiting.wait(30)  # the stream begins
        assert not waiting.wait(0)
        other.send("s", b"1")
        assert waiting.wait(30)


# -------------------------------------------------------------------------------------------------- a standalone server


class Standalone(MongoServer):
    """Without a replica set: no transactions, no change streams."""

    def command(self) -> list[str]:
        return [*super().command(), "--standalone"]


@pytest.fixture(scope="module")
def standalone() -> Iterator[MongoServer]:
    yield from running(Standalone)


class TestStandaloneMongo(OnMongo):
    @pytest.fixture(autouse=True)
    def server(self, standalone) -> None:
        self.at = standalone.start().url("place")

    def test_doctor_says_what_it_lacks(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            found = doctor(store, deep=True, fix=False)
            assert [(one.kind, one.severity) for one in found.findings] == [("settings", "warning")]
            assert "replica set" in found.findings[0].what
            assert found.ok


if not FULL:  # what differs from a replica set is how one is told of changes
    for name in dir(TestStandaloneMongo):
        if name.startswith("test_") and not any(word in name for word in ("watch", "still", "fork", "doctor")):
            setattr(TestStandaloneMongo, name, None)


def test_a_replica_set_is_well(store: MongoStore) -> None:
    Log(store).append(b"1")
    health = store.health(deep=True)
    assert (health.problems, health.settings) == ((), ())
    assert health.used
    assert store.give_back(bytes_max=1 << 20) == 0
    assert store.still_s(Lease("s", 1, "writer", 0)) is not None
