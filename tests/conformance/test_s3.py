"""An S3-compatible server runs the whole suite, plain and sealed; and what only an object store can meet."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import clock
from perdure.errors import (
    ConflictError,
    FencedError,
    ProcessForkedError,
    SessionErasedError,
    StoreFailedError,
    StoreUrlError,
)
from perdure.log import GENESIS, Base, verified
from perdure.stores import Batch, Change, Point, Store, open_store
from perdure.stores.address import Address
from perdure.stores.s3 import S3Store, merging, names, open_url, writing
from perdure.stores.s3.trial import check_conditions
from perdure.testing.conformance import DurableStoreConformance
from perdure.testing.conformance.durability import DurabilityChecks
from perdure.testing.conformance.tools import Log, outcome, records_after
from tests.conformance.buckets import DeafToMatch, DeafToNone, bucket_of, deaf, on

KEY = bytes(range(32))
FULL = os.environ.get("PERDURE_STORM") == "full"


class OnS3(DurableStoreConformance):
    """Places are told apart by the folder that the check was given. Read by processes that the check starts, too."""

    keys: bytes | None = None

    @pytest.fixture(autouse=True)
    def server(self, s3_server) -> None:
        self.at = s3_server.url("")

    def open(self, place: Path) -> Store:
        return open_store(self.url(place), keys=self.keys)

    def bare(self, place: Path) -> Store:
        return open_url(Address.of(self.url(place)))

    def url(self, place: Path) -> str:
        name = hashlib.sha256(str(place).encode()).hexdigest()[:16]
        return self.at.replace("/?", f"/{name}?")


class TestS3(OnS3):
    if not FULL:  # a second for each look, as the server's clock has no smaller ones
        test_a_lease_that_moved_is_young_again = None


class TestSealedS3(OnS3):
    keys = KEY
    if not FULL:
        test_a_body_of_64_megabytes = None
        test_ten_thousand_records = None
        test_a_lease_that_moved_is_young_again = None


if not FULL:  # a process that it starts takes seconds, and what it shows is shown by the plain store
    for name in vars(DurabilityChecks):
        if "killed" in name or "processes" in name or "elsewhere" in name:
            setattr(TestSealedS3, name, None)


# ------------------------------------------------------------------------------------------------ the server


@pytest.fixture
def url(s3_server: Any) -> str:
    return str(s3_server.fresh_url())


@pytest.mark.parametrize(("kind", "said"), [(DeafToNone, "If-None-Match"), (DeafToMatch, "If-Match")])
def test_a_server_that_ignores_conditions_is_refused(url: str, kind: type, said: str) -> None:
    bucket = deaf(kind, url)
    with pytest.raises(StoreUrlError, match=said):
        S3Store(bucket)
    assert list(bucket.list("")) == []


def test_it_is_told_when_a_server_has_come_to_ignore_them(url: str) -> None:
    open_store(url).close()
    with S3Store(deaf(DeafToMatch, url)) as store, pytest.raises(StoreUrlError, match="If-Match"):
        store.health(deep=True)


def test_on_such_a_server_two_writers_would_both_win(url: str) -> None:
    """What the trial is for, and that the suite would notice."""
    with on(bucket_of(url)) as right, S3Store(deaf(DeafToMatch, url)) as one, S3Store(deaf(DeafToMatch, url)) as other:
        log = Log(right)
        both = [lambda store=store: store.append("s", Batch(log.next(b"1")), epoch=1, head=0) for store in (one, other)]
        [store.head("s") for store in (one, other)]
        assert [outcome(append) for append in both] == [None, None]
        Log(right, "t")
    with on(bucket_of(url)) as one, on(bucket_of(url)) as other:
        log = Log(one, "u")
        other.head("u")
        both = [lambda store=store: store.append("u", Batch(log.next(b"1")), epoch=1, head=0) for store in (one, other)]
        assert [outcome(append) for append in both] == [None, ConflictError]


def test_the_trial_leaves_nothing(url: str) -> None:
    bucket = bucket_of(url)
    check_conditions(bucket)
    assert list(bucket.list("")) == []


def test_a_prefix_with_other_things_is_left_alone(url: str) -> None:
    bucket = bucket_of(url)
    bucket.put("photo.jpg", b"1")
    with pytest.raises(StoreUrlError, match=r"photo\.jpg"):
        open_store(url)
    bucket.put(names.MARK, b"{}")
    with pytest.raises(StoreUrlError, match=names.MARK):
        open_store(url)


@pytest.mark.parametrize("wrong", ["s3:///prefix", "s3://bucket/p?regio=x", "s3://bucket/p?virtual_hosted=maybe"])
def test_a_wrong_url_is_told(wrong: str) -> None:
    with pytest.raises(StoreUrlError):
        open_store(wrong)


def test_a_server_that_is_not_there_is_told_in_time() -> None:
    before = clock.monotonic_s()
    with pytest.raises(StoreFailedError, match="places"):
        open_store("s3://places/x?endpoint=http://127.0.0.1:1&busy_s=0.2")
    assert clock.monotonic_s() - before < 20


def test_a_secret_is_not_shown(s3_server: Any) -> None:
    url = s3_server.fresh_url()
    given = url.replace("s3://", "s3://perdure:for-tests-alone@")
    with open_store(given) as store:
        assert "for-tests" not in store.url
        assert store.heads() == []
    with pytest.raises(StoreFailedError) as told:
        open_store(url.replace("s3://", "s3://perdure:not-the-secret@"))
    assert "not-the-secret" not in str(told.value)


def test_a_child_is_told_that_the_driver_does_not_live_in_it(url: str) -> None:
    with open_store(url) as store:
        Log(store)
        reading, writing_end = os.pipe()
        child = os.fork()
        if not child:
            told = [outcome(lambda: store.head("s")), outcome(lambda: open_url(Address.of(url)))]
            os.write(writing_end, str(told == [ProcessForkedError] * 2).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 100) == b"True"
        assert store.head("s").seq == 0
        os.close(reading)
        os.close(writing_end)


# ------------------------------------------------------------------------------------------------ requests


def requests(store: S3Store, work: Callable[[], object]) -> dict[str, int]:
    store.bucket.requests.clear()
    work()
    return dict(store.bucket.requests)


def test_requests_are_as_the_docs_say(url: str) -> None:
    """The table of docs/stores.md."""
    bucket = bucket_of(url)
    on(bucket).close()
    bucket.requests.clear()
    with on(bucket) as store, on(bucket_of(url)) as other:
        assert dict(bucket.requests) == {"get": 1}
        first = records_after([], "s", (b"1",), kind="opened")
        assert requests(store, lambda: store.open("s", Batch(first), owner="me", seen=None)) == {"get": 3, "put": 2}
        log = Log.__new__(Log)
        log.store, log.session, log.records, log.lease = store, "s", [*first], store.lease("s")
        assert requests(store, lambda: log.append(b"2", points=(Point(2, 0, 1, None, 1),))) == {"put": 1}
        assert requests(store, lambda: log.append(b"3", chunks={b"c" * 32: b"1", b"d" * 32: b"2"})) == {"put": 3}
        assert requests(store, lambda: store.renew(log.lease)) == {"put": 1}
        other.send("s", b"from elsewhere")
        assert requests(store, lambda: log.append(b"4")) == {"put": 2, "get": 1}
        for read in (store.head, store.lease, store.inbox, store.points, lambda s: list(store.read(s))):
            assert requests(store, lambda read=read: read("s")) == {"get": 1}
        assert requests(store, lambda: store.chunks("s", [b"c" * 32, b"d" * 32])) == {"get": 3}
        log.lease = store.lease("s")
        assert requests(store, lambda: store.release(log.lease)) == {"put": 1}
        seen = store.lease("s")
        assert requests(store, lambda: store.claim("s", owner="next", seen=seen)) == {"get": 1, "put": 1}
        fork = Batch(records_after(log.records[:2], "f", (b"x",), kind="opened"))
        assert requests(store, lambda: store.fork("f", fork, base=Base("s", 2), epoch=1)) == {"get": 1, "put": 3}
        assert requests(store, store.heads) == {"list": 1, "get": 2}
        assert requests(store, lambda: store.delete("f")) == {"put": 2, "get": 4, "list": 1, "delete": 1}


def test_a_long_log_costs_a_handful(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fiftieth of the real sizes, so that 1,000 saves are as 1,000 of 3 KB."""
    monkeypatch.setattr(writing, "TAIL_BYTES", 64 * 1024 // 50)
    monkeypatch.setattr(merging, "LEVEL_BYTES", tuple(size // 50 for size in merging.LEVEL_BYTES))
    with on(bucket_of(url)) as store:
        log = Log(store)
        told = requests(store, lambda: [log.append(b"%060d" % n, marks=((b"m", n + 1),)) for n in range(1000)])
        while store._merging.merge("s"):
            pass
        assert told["put"] <= 1250
        assert told.get("get", 0) <= 400
    with on(bucket_of(url)) as store:
        assert requests(store, lambda: store.head("s")) == {"get": 1}
        assert requests(store, lambda: store.marks("s"))["get"] <= 24
        assert requests(store, lambda: store.read_at("s", range(900, 1001)))["get"] <= 4
        assert list(verified(store.read("s"), session="s", after=0, previous=GENESIS)) == log.records


def test_a_session_is_kept_with_a_bounded_number_of_requests(url: str) -> None:
    """As a user has it: opened, saved ten times, closed."""
    with perdure.open(url) as store:
        inner: Any = store.backend

        def life() -> None:
            with store.session("chat") as s:
                for n in range(10):
                    s.state["n"] = n
                    s.save()

        told = requests(inner, life)
        assert told["put"] <= 15
        assert sum(told.values()) <= 40


# ------------------------------------------------------------------------------------------------ what is kept


def every_byte(store: S3Store) -> bytes:
    return b"".join(store.bucket.read(one.key) or b"" for one in store.bucket.list(""))


def test_no_byte_stays_of_what_is_replaced_taken_or_erased(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "TAIL_BYTES", 500)
    with on(bucket_of(url)) as store:
        log = Log(store, "secret-id")
        log.append(b"secret-body" * 99, b"2", points=(Point(1, 0, 1, "secret-name", 1),), marks=((b"secret-mark", 1),))
        store.send("secret-id", b"secret-item" * 999)
        log.append(b"3", taken=(1,))
        assert b"secret-item" not in every_byte(store)
        store.release(log.lease)
        change = Change(bodies=((1, b"x"),), points=(1,), marks=((b"secret-mark", 1),))
        seen = store.lease("secret-id")
        batch = Batch(log.next(b"amended", kind="amended"))
        store.amend("secret-id", batch, change, seen=seen, head=3, family=["secret-id"])
        store.purge("secret-id")
        left = every_byte(store)
        assert [one for one in (b"secret-body", b"secret-name", b"secret-mark") if one in left] == []
        store.delete("secret-id")
        assert b"secret" not in every_byte(store)
        assert not any("secret" in one.key for one in store.bucket.list(""))
        assert outcome(lambda: store.renew(seen)) == SessionErasedError


def test_no_byte_stays_of_a_name_that_was_replaced_and_purged(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "TAIL_BYTES", 500)
    with on(bucket_of(url)) as store:
        log = Log(store)
        log.append(b"1" * 600, points=(Point(1, 0, 1, "secret-name", 1),))
        log.append(b"2" * 600, points=(Point(1, 0, 1, "other", 1), Point(2, 1, 1, "two", 1)))
        before = log.content()
        store.purge("s")
        assert b"secret-name" not in every_byte(store)
        assert log.content() == before


def test_the_server_may_be_named_by_the_environment(url: str, s3_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    with open_store(url.partition("?")[0]) as store:
        assert store.heads() == []


def test_listings_are_in_order_also_for_a_clock_that_is_behind(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with on(bucket_of(url)) as one, on(bucket_of(url)) as other:
        Log(one, "a").append(b"1")
        monkeypatch.setattr(clock, "now_us", lambda: 7)
        assert [head.session for head in other.heads()] == ["a"]
        Log(other, "b").append(b"1")
        assert [head.session for head in one.heads()] == ["b", "a"]


def test_a_lease_that_was_renewed_is_young_again(url: str) -> None:
    with on(bucket_of(url)) as store:
        lease = store.create("s", owner="me")
        renewed = store.renew(lease)
        assert store.still_s(lease) is None
        assert (store.still_s(renewed) or 0.0) < 60


def test_a_stale_handle_never_overwrites(url: str) -> None:
    with on(bucket_of(url)) as one, on(bucket_of(url)) as other:
        log = Log(one)
        mine = [one.head("s"), other.head("s")]
        newer = other.claim("s", owner="other", seen=log.lease)
        assert mine[0] == mine[1]
        with pytest.raises(FencedError):
            log.append(b"late")
        with pytest.raises(FencedError):
            one.renew(log.lease)
        assert other.lease("s") == newer
