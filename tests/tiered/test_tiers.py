"""Two tiers by themselves: who acknowledges, who is asked for what, what leaves hot, what is said of what is lost."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure
from perdure import clock
from perdure.errors import (
    ClosedError,
    FencedError,
    KeyNeededError,
    ProcessForkedError,
    StoreFailedError,
    StoreUrlError,
)
from perdure.log import GENESIS, verified
from perdure.stores import Batch, Change, open_store
from perdure.stores.tiered import TieredStore, through
from perdure.testing.conformance.tools import records_after
from tests.crash.process import Child, Talk
from tests.tiered.bench import Owner, Place, bodies, tiered


@pytest.fixture
def hot(request: pytest.FixtureRequest) -> Iterator[Place]:
    place = Place(f"{request.node.name}-hot")
    yield place
    place.lose_everything()


@pytest.fixture
def cold(request: pytest.FixtureRequest) -> Iterator[Place]:
    place = Place(f"{request.node.name}-cold")
    yield place
    place.lose_everything()


def again(place: Place) -> Place:
    """Another handle of it, as another process has."""
    return Place(place.url.removeprefix("memory:"))


def written(store: TieredStore, count: int, *, session: str = "s", size: int = 10) -> Owner:
    owner = Owner(store, session).open()
    for number in range(count):
        owner.save(b"%d " % number + b"x" * size)
    return owner


def written_on(owner: Owner, count: int) -> None:
    for number in range(count):
        owner.save(b"further %d" % number)


def closed(store: TieredStore, owner: Owner) -> None:
    assert owner.lease is not None
    store.release(owner.lease)


# ----------------------------------------------------------------------------------------------- who acknowledges


def test_behind_it_is_hot_that_acknowledges(hot: Place, cold: Place) -> None:
    with tiered(hot, cold) as store:
        owner = written(store, 1)
        asked = cold.asked["append"]
        for number in range(20):
            owner.save(b"more %d" % number)
        assert (cold.asked["append"], cold.asked["submit"]) == (asked, 0)
        assert len(bodies(cold)) == 2
        assert bodies(store) == bodies(tiered(again(hot), again(cold))) == owner.acknowledged
        assert [point.seq for point in store.points("s")] == [*range(1, 23)]
        assert (store.head("s").seq, store.heads()[0].seq) == (22, 22)
    assert bodies(again(cold)) == owner.acknowledged


def test_through_it_is_cold_and_hot_is_told_after_it(hot: Place, cold: Place) -> None:
    with tiered(hot, cold, mode="through", copy_s=0.0) as store:
        hot.is_away = True
        owner = written(store, 5)
        assert bodies(again(cold)) == owner.acknowledged
        assert hot.copies is not None
        hot.is_away = False
        store._front._until_s = 0.0
        owner.save(b"when it is back")
    with open_store(hot.url) as near:
        assert near.head("s").chain == again(cold).head("s").chain


def test_what_others_of_the_same_epoch_write_between_is_left_to_them(hot: Place, cold: Place) -> None:
    with tiered(hot, cold, mode="through", copy_s=60.0) as store:
        owner = written(store, 1)
        store._writes.flush(store._writes.lines.of("s"))
        assert hot.head("s").seq == len(owner.acknowledged)
        for number in range(4):
            log = list(cold.read("s"))
            batch = Batch(records_after(log, "s", (b"%d" % number,), kind="note"))
            (cold if number % 2 else store).append("s", batch, epoch=1, head=len(log))
    assert bodies(again(cold)) == [*owner.acknowledged, b"0", b"1", b"2", b"3"]
    with tiered(again(hot), again(cold), mode="through") as store:
        assert bodies(store) == bodies(again(cold))


def test_a_copy_is_written_soon_and_many_saves_together(hot: Place, cold: Place) -> None:
    with tiered(hot, cold, copy_s=0.0) as store:
        owner = written(store, 40)
        with store.watch("s") as watch:
            while bodies(cold) != owner.acknowledged:
                watch.wait(5)
        assert cold.asked["submit"] <= 40


@pytest.mark.parametrize("most", [{"behind_s": 0.0}, {"behind_bytes": 100}])
def test_when_too_much_waits_the_writer_writes_to_cold_itself(hot: Place, cold: Place, most: dict[str, float]) -> None:
    with tiered(hot, cold, **most) as store:
        owner = written(store, 10)
        assert store._writes.waiting <= 200
        assert len(bodies(cold)) >= 10
        cold.is_away = True
        with pytest.raises(StoreFailedError, match="away"):
            written_on(owner, 3)
        cold.is_away = False
        assert bodies(store) == owner.acknowledged


def test_cold_away_for_a_while_is_noticed_by_nobody_within_the_window(hot: Place, cold: Place) -> None:
    with tiered(hot, cold) as store:
        owner = written(store, 2)
        cold.is_away = True
        for number in range(10):
            owner.save(b"meanwhile %d" % number)
        cold.is_away = False
        closed(store, owner)
        assert bodies(cold) == owner.acknowledged


def test_hot_away_for_a_while_is_noticed_by_no_owner(hot: Place, cold: Place) -> None:
    with tiered(hot, cold) as store:
        owner = written(store, 4)
        hot.is_away = True
        for number in range(5):
            owner.save(b"through cold %d" % number)
            assert bodies(cold) == owner.acknowledged
        assert bodies(store) == owner.acknowledged
        hot.is_away, store._front._until_s = False, 0.0
        owner.save(b"hot is taken again")
        asked = cold.asked["append"]
        owner.save(b"and acknowledges")
        assert cold.asked["append"] == asked


def test_nobody_opens_a_session_without_hot_but_through(hot: Place, cold: Place) -> None:
    with tiered(hot, cold) as store:
        owner = written(store, 4)
        away = again(hot)
        away.is_away = True
        with tiered(away, again(cold)) as other:
            with pytest.raises(StoreFailedError, match="mode=through"):
                other.claim("s", owner="other", seen=other.lease("s"))
            with pytest.raises(StoreFailedError):
                other.delete("s")
            assert other.lease("s").owner == "owner"
        with tiered(away, again(cold), mode="through") as other:
            other.claim("s", owner="other", seen=other.lease("s"))
        with pytest.raises(FencedError):
            closed(store, owner)


def test_what_is_lost_and_what_is_left_out_is_said(hot: Place, cold: Place, caplog: pytest.LogCaptureFixture) -> None:
    first = tiered(hot, cold)
    written(first, 3)
    first._writes.copier.end()
    branch = hot.dump()
    hot.lose_everything()
    with tiered(again(hot), again(cold)) as store:
        other = written(store, 2)
        assert "hot has no copy" in store.health(deep=False).problems[0]
        closed(store, other)
    hot.load(branch)
    with caplog.at_level(logging.ERROR), tiered(again(hot), again(cold)) as store:
        Owner(store).open()
        (said,) = store.health(deep=False).problems
        assert "another branch: record 4 of epoch 1" in said
        assert said in caplog.text
        assert hot.copy("s") is None
        assert bodies(store)[2:4] == [b"owned by owner", b"0 xxxxxxxxxx"]


def test_closing_says_what_could_not_be_written(hot: Place, cold: Place) -> None:
    store = tiered(hot, cold)
    owner = written(store, 3)
    cold.is_away = True
    with pytest.raises(StoreFailedError, match="away"):
        store.close()
    store.close()
    with pytest.raises(ClosedError):
        store.head("s")
    with tiered(again(hot), again(cold)) as other:
        assert bodies(other) == owner.acknowledged


# ----------------------------------------------------------------------------------------------- where reads come from


def test_what_hot_has_not_is_read_from_cold_in_parts_and_is_in_hot_then(hot: Place, cold: Place) -> None:
    with tiered(again(hot), again(cold)) as store:
        closed(store, written(store, 60, size=100))
    hot.lose_everything()
    with tiered(hot, cold, mode="through") as store:
        found = [record.seq for record in store.read("s", after=40, upto=45)]
        assert found == [41, 42, 43, 44, 45]
        assert (cold.asked["read"], hot.asked["adopt"]) == (1, 1)
        assert [record.seq for record in hot.read("s")] == found
        assert [record.seq for record in store.read("s", after=42, upto=45)] == [43, 44, 45]
        assert cold.asked["read"] == 1
        assert [record.seq for record in store.read("s", after=42, upto=50)] == [*range(43, 51)]
        assert cold.asked["read"] == 2
        assert [record.seq for record in store.read_at("s", [44, 50])] == [44, 50]
        assert cold.asked["read_at"] == 0
        assert len(list(verified(store.read("s"), session="s", after=0, previous=GENESIS))) == 61
        asked = cold.asked.copy()
        assert len(bodies(store)) == 61
        assert cold.asked - asked == {"head": 1}


def test_a_session_that_hot_has_is_restored_without_a_record_of_cold(hot: Place, cold: Place) -> None:
    with tiered(again(hot), again(cold)) as store:
        closed(store, written(store, 60))
    with tiered(hot, cold) as store:
        assert len(bodies(store)) == 61
        assert cold.asked["read"] + cold.asked["read_at"] == 0


def test_chunks_are_read_once(hot: Place, cold: Place) -> None:
    with tiered(again(hot), again(cold)) as store:
        owner = written(store, 3)
        store.put_chunks("s", {b"a" * 32: b"one", b"b" * 32: b"two"}, epoch=1)
        closed(store, owner)
        store._tiers.hot.thin(hot.copy("s").lease, below=1, chunks=[b"a" * 32])
    with tiered(hot, cold) as store:
        for _ in range(2):
            assert store.chunks("s", [b"a" * 32, b"b" * 32]) == {b"a" * 32: b"one", b"b" * 32: b"two"}
        assert cold.asked["chunks"] == 1


def test_a_copy_that_is_damaged_does_not_matter(hot: Place, cold: Place) -> None:
    with tiered(again(hot), again(cold)) as store:
        closed(store, written(store, 10))
    del hot._place.sessions["s"].records[5]
    with tiered(hot, cold) as store:
        assert len(list(verified(store.read("s"), session="s", after=0, previous=GENESIS))) == 11
        assert 5 in hot._place.sessions["s"].records


# ----------------------------------------------------------------------------------------------- what leaves hot


def test_what_is_old_leaves_hot_and_is_read_from_cold(hot: Place, cold: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(clock, "monotonic_s", lambda: now[0])
    with tiered(hot, cold, hot_age_s=60.0) as store:
        old, young = written(store, 3, session="old"), written(store, 3, session="young")
        closed(store, old)
        assert store.evict().copies == 0
        now[0] = 40.0
        young.save(b"again")
        assert store.evict().copies == 0
        now[0] = 70.0
        assert store.evict().copies == 1
        assert [copy.lease.session for copy, _ in hot.copies()] == ["young"]
        young.save(b"in cold, as what waited was old")
        young.save(b"in hot alone")
        assert store.evict().copies == 0
        now[0] = 1000.0
        assert store.evict().copies == 0, "cold has not all of it"
        assert len(bodies(store, "old")) == 4
        young.save(b"and again")
        assert bodies(store, "young") == young.acknowledged


def test_when_it_takes_too_much_the_oldest_leave_then_parts_of_what_is_written(hot: Place, cold: Place) -> None:
    with tiered(hot, cold, hot_bytes=20_000) as store:
        for name in ("a", "b", "c"):
            closed(store, written(store, 10, session=name, size=1000))
        owner = written(store, 30, session="d", size=1000)
        store.put_chunks("d", {b"c" * 32: b"chunk" * 1000}, epoch=1)
        store._writes.finish("d")
        owner.save(b"cold has not this")
        done = store.evict()
        assert (done.copies, done.thinned) == (3, 1)
        assert [record.seq for record in hot.read("d")] == [31, 32]
        assert hot.chunk_sizes("d") == {}
        assert store.chunks("d", [b"c" * 32]) == {b"c" * 32: b"chunk" * 1000}
        assert bodies(store, "d") == owner.acknowledged
        owner.save(b"and it goes on")
    assert bodies(again(cold), "d") == owner.acknowledged


def test_a_sqlite_file_before_another_store_stays_small(tmp_path: Path) -> None:
    near, far = tmp_path / "near.db", tmp_path / "far.db"
    with open_store("tiered:", hot=near, cold=far, mode="behind", hot_bytes=50_000) as store:
        owner = Owner(store).open()
        sizes = []
        for _ in range(3):
            for number in range(50):
                owner.save(b"%d" % number + os.urandom(4000))
            store._writes.finish("s")
            store.evict()
            sizes.append(store._hot.health(deep=False).used)
        assert bodies(store) == owner.acknowledged
        store.evict()
    assert max(sizes) < 600_000 < far.stat().st_size, sizes
    assert near.stat().st_size < 200_000


def test_a_process_looks_by_itself(hot: Place, cold: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(through, "BEAT_S", 0.01)
    with tiered(hot, cold, mode="through", copy_s=0.0, hot_age_s=0.0) as store:
        closed(store, written(store, 3))
        while not hot.asked["forget"]:
            hot.told.wait(0.2)
        assert hot.copies() == []


# ----------------------------------------------------------------------------------------------- nothing stays


def test_what_is_erased_or_purged_is_in_neither(tmp_path: Path) -> None:
    secret = b"canary-" + os.urandom(8).hex().encode()

    def found() -> list[str]:
        return [path.name for path in tmp_path.iterdir() if secret in path.read_bytes()]

    with open_store("tiered:", hot=tmp_path / "near.db", cold=tmp_path / "far.db", mode="behind") as store:
        for session in ("s", "t"):
            owner = Owner(store, session).open()
            for number in range(5):
                owner.save(b"%d" % number + secret * 50, chunks={bytes([number]) * 32: secret * 9000})
            closed(store, owner)
        assert len(found()) >= 2
        store.delete("s")
        lease, digests = store.lease("t"), [*store.chunk_sizes("t")]
        dropped = Change(bodies=tuple((seq, b"") for seq in range(2, 7)))
        store.amend("t", Batch((), summary=b"none"), dropped, seen=lease, head=6, family=["t"])
        store.drop_chunks(digests, seen={lease: 6})
        store.purge("t")
        assert found() == []
        assert [head.session for head in store.heads()] == ["t"]


@pytest.mark.parametrize("mode", ["behind", "through"])
@pytest.mark.parametrize("by", ["the same store", "another process"])
def test_what_waits_for_the_other_tier_brings_back_nothing_that_was_amended(
    hot: Place, cold: Place, mode: str, by: str
) -> None:
    with tiered(hot, cold, mode=mode) as store:
        closed(store, written(store, 3))
        other = store if by == "the same store" else tiered(again(hot), again(cold), mode=mode)
        seen = other.lease("s")
        other.amend("s", Batch(()), Change(bodies=((3, b"short"),)), seen=seen, head=4, family=["s"])
    with tiered(again(hot), again(cold), mode=mode) as store:
        assert bodies(store)[2] == b"short"


# ----------------------------------------------------------------------------------------------- how it is opened


def test_stores_or_urls_may_be_given(tmp_path: Path) -> None:
    with perdure.open("tiered:", hot="memory:", cold=tmp_path / "cold.db") as store:
        assert store.url.startswith("tiered://?hot=memory:&cold=sqlite:///")
    with open_store("tiered:", hot=Place("near"), cold=Place("far"), mode="behind", hot_bytes=5) as given:
        assert given.url == "tiered://?hot=memory:near&cold=memory:far&mode=behind&hot_bytes=5"
        assert not given.durable
        with open_store(given.url) as same:
            assert same.url == given.url
    with open_store("memory:", keys=bytes(32)) as sealed, pytest.raises(StoreUrlError, match="give the keys to tiered"):
        open_store("tiered:", hot="memory:", cold=sealed)
    with pytest.raises(StoreUrlError, match="cannot keep copies"):
        open_store("tiered:", hot=f"file:{tmp_path / 'files'}", cold="memory:")


def test_keys_are_around_both(tmp_path: Path) -> None:
    url = f"tiered:?hot=sqlite%3A{tmp_path}/near.db&cold=sqlite%3A{tmp_path}/far.db&mode=behind"
    with perdure.open(url, keys=bytes(32)) as store, store.session("s") as s:
        s.state["told"] = "a-word-that-must-not-be-found"
    with pytest.raises(KeyNeededError):
        perdure.open(url)
    with perdure.open(url, keys=bytes(32)) as store:
        assert store.state_at("s")["told"] == "a-word-that-must-not-be-found"
    assert not [path for path in tmp_path.iterdir() if b"a-word-that-must" in path.read_bytes()]


def test_a_forked_process_has_neither(hot: Place, cold: Place) -> None:
    def child(talk: Talk) -> None:
        try:
            owner.save(b"from the child")
        except ProcessForkedError:
            talk.say("refused")

    with tiered(hot, cold) as store:
        owner = written(store, 3)
        with Child(child) as forked:
            assert forked.hear() == "refused"
        owner.save(b"the parent goes on")
        assert bodies(store) == owner.acknowledged
