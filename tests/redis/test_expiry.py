"""A session expires as one, and not before what goes on from it."""

from __future__ import annotations

from functools import partial

import pytest

import perdure
from perdure.errors import ConflictError, SessionUnknownError
from perdure.stores import Batch, Point, open_store
from perdure.testing.conformance.forks import fork, source
from perdure.testing.conformance.tools import Log
from tests.redis.tools import eventually, is_gone

SOON_MS = 200


def test_a_session_expires_as_one_and_its_id_is_free(url, admin) -> None:
    with open_store(f"{url}&ttl_s={SOON_MS / 1000}") as store:
        for round_ in range(2):
            log = Log(store)
            log.append(b"1", b"2", points=(Point(2, 1, 1, "p", 0),), marks=((b"m", 1),), keyframes=((1, 2),))
            store.put_chunks("s", {b"d" * 32: b"c"}, epoch=1)
            store.put_envelope("s", b"envelope", seen=None)
            store.send("s", b"item", mark=b"m")
            own = admin.keys("*:s")
            assert len(own) == 10
            assert len({admin.pexpiretime(key) for key in own}) == 1
            eventually(lambda: is_gone(store, "s"))
            late = partial(log.append, b"3")
            for use in (late, lambda: store.head("s"), lambda: list(store.read("s")), lambda: store.send("s", b"x")):
                with pytest.raises(SessionUnknownError):
                    use()
            assert store.heads() == []
            assert admin.keys("*:s") == []
            assert not admin.exists("{place}:erased"), round_
        Log(store, "other")
        assert admin.zrange("{place}:sessions", 0, -1) == [b"other"]


def test_every_reader_sees_all_of_a_session_or_that_it_is_gone(url) -> None:
    with open_store(f"{url}&ttl_s={SOON_MS / 1000}") as store:
        Log(store).append(*[b"%d" % n for n in range(50)], points=tuple(Point(n, 0, 1, None, 0) for n in range(1, 51)))
        sizes = set()
        while not is_gone(store, "s"):
            for read in (lambda: len(list(store.read("s"))), lambda: len(store.points("s"))):
                try:
                    sizes.add(read())
                except SessionUnknownError:
                    break
        assert sizes == {50}


def test_writing_and_renewing_keep_a_session(url, admin) -> None:
    with open_store(f"{url}&ttl_s=100") as store:
        log = Log(store)
        for keep in (
            lambda: log.append(b"1"),
            lambda: store.send("s", b"x"),
            lambda: store.renew(log.lease),
            lambda: store.renew_all([log.lease]),
            lambda: store.put_chunks("s", {b"d" * 32: b"c"}, epoch=1),
        ):
            for key in admin.keys("*:s"):
                admin.pexpire(key, 50_000)
            admin.hset("{place}:session:s", "expires", admin.pexpiretime("{place}:session:s"))
            admin.hset("{place}:family:s", "expires", admin.pexpiretime("{place}:session:s"))
            keep()
            left = {admin.pttl(key) for key in admin.keys("*:s")}
            assert 99_000 < min(left) <= max(left) <= 101_000, left


def test_what_others_go_on_from_lasts_as_long_as_they_do(url, admin) -> None:
    with open_store(f"{url}&ttl_s=50") as short, open_store(f"{url}&ttl_s=500") as long:
        log = source(short)
        short.put_chunks("s", {b"d" * 32: b"c"}, epoch=1)
        made = fork(log, "f", 3)
        made.store = long
        made.append(b"5")
        lasts = {key: admin.pttl(key) for key in admin.keys("*:[sf]")}
        assert min(lasts.values()) > 490_000, lasts
        log.append(b"6")
        assert admin.pttl("{place}:session:s") > 490_000
        leaf = fork(made, "leaf", 5)
        with open_store(f"{url}&ttl_s=0") as ever:
            leaf.store = ever
            leaf.append(b"7")
        assert {admin.pttl(key) for key in admin.keys("*:[sf]") + admin.keys("*:leaf")} == {-1}
        log.append(b"7")
        assert admin.pttl("{place}:records:s") == -1
        long.delete("leaf")
        assert admin.pttl("{place}:chunks:s") == -1
        made.append(b"6")
        assert 490_000 < admin.pttl("{place}:records:f") <= 505_000


def test_a_store_without_a_time_to_live_leaves_it_as_it_is(url, store, admin) -> None:
    with open_store(f"{url}&ttl_s=100") as other:
        log, kept = Log(other), Log(store, "kept")
        log.store = store
        log.append(b"1")
        kept.append(b"1")
        assert 90_000 < admin.pttl("{place}:records:s") <= 101_000
        assert admin.pttl("{place}:records:kept") == -1
        kept.store = other
        kept.append(b"2")
        assert 90_000 < admin.pttl("{place}:records:kept") <= 101_000
        assert 90_000 < admin.pttl("{place}:kin:kept") <= 101_000


def test_a_sealed_session_that_expired_comes_again_with_keys_of_its_own(url) -> None:
    key = bytes(range(32))
    with (
        perdure.open(f"{url}&ttl_s={SOON_MS / 1000}", keys=key) as here,
        perdure.open(f"{url}&ttl_s={SOON_MS / 1000}", keys=key) as there,
    ):
        for round_, (first, other) in enumerate([(here, there), (there, here), (here, there)]):
            with first.session("s") as s:
                assert dict(s.state) == {}
                s.state["round"] = round_
            other.send("s", "sent")
            assert [item.content for item in first.backend.inbox("s")] == [
                item.content for item in other.backend.inbox("s")
            ]
            with other.session("s") as s:
                assert s.state["round"] == round_
                s.state["more"] = [round_]
            assert first.state_at("s") == {"round": round_, "more": [round_]}
            eventually(lambda: is_gone(here.backend, "s"))


def test_whoever_wrote_a_session_that_expired_goes_on_with_the_one_that_came_after(url) -> None:
    with open_store(f"{url}&ttl_s={SOON_MS / 1000}") as here, open_store(f"{url}&ttl_s=100") as there:
        old = Log(here)
        old.append(b"1", b"2")
        eventually(lambda: is_gone(here, "s"))
        new = Log(there)
        new.append(b"one", b"two")
        with pytest.raises(ConflictError, match="another one than was written here"):
            old.append(b"3")
        with pytest.raises(ConflictError):
            old.append(b"3")
        there.release(new.lease)
        batch = Batch(new.next(b"three"))
        with pytest.raises(ConflictError):
            here.append("s", batch, epoch=None, head=2)
        here.append("s", batch, epoch=None, head=2)
        new.records += batch.records
        assert list(there.read("s")) == new.records
