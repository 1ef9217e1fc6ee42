"""What a store must do to stand in front: copies that begin in the middle, have gaps, and go without a trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import (
    ConflictError,
    FencedError,
    HeldError,
    MissingError,
    SessionError,
    SessionExistsError,
)
from perdure.log import GENESIS, Record, chained
from perdure.stores import Batch, Head, Lease, Point, open_store
from perdure.stores.hot import Copy, HotStore

TAKEN, OTHER = Lease("s", 77, "taken", 5), Lease("s", 78, "", 6)


@pytest.fixture(params=["memory", "sqlite", "redis"])
def hot(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HotStore]:
    urls = {"memory": lambda: f"memory:{tmp_path}", "sqlite": lambda: f"sqlite:///{tmp_path}/hot.db"}
    urls["redis"] = lambda: request.getfixturevalue("redis_server").fresh_url()
    with open_store(urls[request.param]()) as store:
        assert isinstance(store, HotStore)
        yield store


def log(count: int, session: str = "s") -> list[Record]:
    records: list[Record] = []
    for seq in range(1, count + 1):
        chain = records[-1].chain if records else GENESIS
        body = b"body %d" % seq
        records.append(chained(chain, session=session, seq=seq, epoch=5, kind="note", time_us=seq, body=body))
    return records


LOG = log(9)


def head(seq: int, session: str = "s", family: str = "f") -> Head:
    return Head(session, family, seq, LOG[seq - 1].chain if seq else GENESIS, 5, b"summary")


def copied(hot: HotStore, seq: int = 5, lease: Lease = TAKEN) -> None:
    hot.adopt(head(seq), lease)


def append(hot: HotStore, *seqs: int, number: int = 77, **more: Any) -> None:
    hot.append("s", Batch(tuple(LOG[seq - 1] for seq in seqs), **more), epoch=number, head=seqs[0] - 1)


def seqs(hot: HotStore) -> list[int]:
    return [record.seq for record in hot.read("s")]


@pytest.mark.parametrize("seq", [0, 5])
def test_a_copy_begins_where_it_is_told_and_goes_on(hot: HotStore, seq: int) -> None:
    copied(hot, seq)
    assert hot.copy("s") == Copy(TAKEN, Head("s", "f", seq, head(seq).chain, 77, b"summary"))
    assert (seqs(hot), hot.points("s")) == ([], [])
    append(hot, seq + 1, seq + 2, points=(Point(seq + 2, 0, 1, "n", 0),), chunks={b"d" * 32: b"c"}, summary=b"new")
    found = hot.copy("s")
    assert found is not None
    assert (found.head.seq, found.head.chain, found.head.summary) == (seq + 2, LOG[seq + 1].chain, b"new")
    assert (found.epoch, found.is_frozen) == (5, False)
    assert list(hot.read("s")) == LOG[seq : seq + 2]
    assert [point.seq for point in hot.points("s")] == [seq + 2]
    assert hot.chunks("s", [b"d" * 32]) == {b"d" * 32: b"c"}
    with pytest.raises(ConflictError):
        append(hot, seq + 2)


def test_it_takes_appends_by_its_number_until_it_is_handed_on(hot: HotStore) -> None:
    copied(hot)
    with pytest.raises(FencedError):
        append(hot, 6, number=5)
    with pytest.raises(HeldError):
        hot.hand(OTHER, TAKEN)
    hot.hand(TAKEN, Lease("s", 77, "", 5))
    with pytest.raises(FencedError):
        append(hot, 6)
    hot.hand(Lease("s", 77, "", 5), Lease("s", 90, "taken", 6))
    append(hot, 6, number=90)
    found = hot.copy("s")
    assert found is not None
    assert (found.epoch, found.head.seq) == (6, 6)


def test_it_is_filled_and_thinned_in_any_part(hot: HotStore) -> None:
    copied(hot)
    append(hot, 6, 7)
    hot.fill(TAKEN, records=[LOG[1], LOG[4], LOG[5], LOG[7]], chunks={b"a" * 32: b"1", b"b" * 32: b"2"})
    assert list(hot.read("s")) == [LOG[1], LOG[4], LOG[5], LOG[6]]
    assert hot.read_at("s", [2, 7]) == [LOG[1], LOG[6]]
    with pytest.raises(MissingError, match="3"):
        hot.read_at("s", [2, 3])
    assert [record.seq for record in hot.read("s", after=2, upto=6)] == [5, 6]
    hot.fill(TAKEN, chunks={b"a" * 32: b"another"})
    assert hot.chunks("s", [b"a" * 32]) == {b"a" * 32: b"1"}
    hot.thin(TAKEN, below=6, chunks=[b"a" * 32, b"c" * 32])
    assert (seqs(hot), hot.chunk_sizes("s")) == ([6, 7], {b"b" * 32: 1})
    append(hot, 8)
    assert seqs(hot) == [6, 7, 8]
    for change in (lambda: hot.fill(OTHER, records=[LOG[2]]), lambda: hot.thin(OTHER, below=8)):
        with pytest.raises(HeldError):
            change()
    assert seqs(hot) == [6, 7, 8]


def test_it_goes_without_a_trace(hot: HotStore) -> None:
    copied(hot)
    append(hot, 6, chunks={b"d" * 32: b"c"})
    hot.adopt(Head("t", "f", 0, GENESIS, 1, b""), Lease("t", 1, "", 1))
    with pytest.raises(HeldError):
        hot.forget(OTHER, head=6)
    with pytest.raises(ConflictError):
        hot.forget(TAKEN, head=5)
    hot.forget(TAKEN, head=6)
    hot.forget(TAKEN, head=6)
    assert hot.copy("s") is None
    assert hot.chunk_sizes("t") == {b"d" * 32: 1}
    copied(hot, 7)
    assert seqs(hot) == []
    hot.forget(TAKEN, head=7)
    hot.forget(Lease("t", 1, "", 1), head=0)
    hot.wipe()
    copied(hot, 7)
    assert hot.chunk_sizes("s") == {}


def test_all_copies_are_listed_with_what_they_take(hot: HotStore) -> None:
    hot.create("own", owner="me")
    copied(hot)
    hot.adopt(Head("t", "t", 0, GENESIS, 1, b""), Lease("t", 1, "", 1))
    append(hot, 6)
    (first, size), (second, nothing) = hot.copies()
    assert (first.lease.session, second.lease.session) == ("s", "t")
    assert size >= len(LOG[5].body) > nothing == 0


def test_what_is_its_own_is_no_copy(hot: HotStore) -> None:
    own = hot.create("s", owner="me", epoch=5)
    hot.append("s", Batch((LOG[0],)), epoch=5, head=0)
    assert (hot.copy("s"), hot.copies(), hot.copy("never")) == (None, [], None)
    with pytest.raises(SessionExistsError):
        copied(hot)
    for change in (
        lambda: hot.forget(own, head=1),
        lambda: hot.hand(own, OTHER),
        lambda: hot.fill(own, records=[LOG[0]]),
        lambda: hot.thin(own, below=1),
    ):
        with pytest.raises(HeldError):
            change()
    assert (list(hot.read("s")), hot.lease("s")) == ([LOG[0]], own)
    hot.delete("s")
    with pytest.raises(SessionError):
        copied(hot)


def test_nothing_is_changed_for_a_copy_that_is_not_there(hot: HotStore) -> None:
    for change in (
        lambda: hot.hand(TAKEN, OTHER),
        lambda: hot.fill(TAKEN, records=[LOG[0]]),
        lambda: hot.thin(TAKEN, below=1),
    ):
        with pytest.raises(HeldError):
            change()
    assert hot.heads() == []
