"""Handles without a lease: of two writers on the same log one is told, nothing is lost, and a holder is respected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import perdure
from perdure.errors import ConflictError, HeldError, SessionCancelledError
from perdure.log import Record
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores import Head, Lease, Store
from perdure.testing.broken import Passing
from perdure.testing.processes import begun


@pytest.fixture
def store(tmp_path: Path):
    with perdure.open(str(tmp_path / "agents.db")) as opened:
        yield opened


def add(store, name: str) -> None:
    """One request behind a load balancer: opens, adds, saves; again if somebody else was faster."""
    while True:
        try:
            with store.session("a", optimistic=True) as s:
                s.state.setdefault("names", []).append(name)
            return
        except (ConflictError, HeldError):
            continue


def add_many(url: str, number: int) -> None:
    with perdure.open(url) as store:
        for n in range(8):
            add(store, f"{number}-{n}")


def test_it_is_made_saved_and_loaded(store) -> None:
    for n in range(3):
        with store.session("a", optimistic=True, labels={"team": "x"}) as s:
            assert s.state.get("n") == (n or None)
            s.state["n"] = n + 1
    info = store.info("a")
    assert (info.status, info.owner, store.backend.lease("a").epoch) == ("idle", "", 1)
    assert store.verify("a", read_data=True).ok


def test_a_clean_close_without_a_change_writes_nothing(store) -> None:
    add(store, "x")
    before = store.backend.head("a").seq
    with store.session("a", optimistic=True) as s:
        assert s.state["names"] == ["x"]
    assert store.backend.head("a").seq == before


def test_of_two_writers_one_is_told_and_stays_told(store) -> None:
    first, second = store.session("a", optimistic=True), store.session("a", optimistic=True)
    second.state["from"] = "second"
    second.save()
    first.state["from"] = "first"
    for use in (first.save, first.save, lambda: first.call(len, "x"), first.end):
        with pytest.raises(ConflictError):
            use()
    first.close()
    second.state["n"] = 1
    second.save()
    second.close()
    assert store.state_at("a") == {"from": "second", "n": 1}


def test_a_holder_is_respected(store) -> None:
    add(store, "x")
    open_before = store.session("a", optimistic=True)
    with store.session("a") as holder:
        holder.state["n"] = 1
        with pytest.raises(HeldError):
            store.session("a", optimistic=True)
        open_before.state["late"] = True
        with pytest.raises((HeldError, ConflictError)):
            open_before.save()
    open_before.close()
    add(store, "y")
    assert store.state_at("a") == {"names": ["x", "y"], "n": 1}


class Between(Passing):
    """Somebody else comes, once, before the read of this number."""

    def __init__(self, right: Store, *, place: int, comes: Callable[[], None]) -> None:
        super().__init__(right)
        self.left, self.comes = place, comes

    def _read(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.comes()

    def head(self, session: str) -> Head:
        self._read()
        return super().head(session)

    def lease(self, session: str) -> Lease:
        self._read()
        return super().lease(session)

    def read(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        self._read()
        return super().read(session, after=after, upto=upto)

    def marks(self, session: str) -> list[tuple[bytes, int]]:
        self._read()
        return super().marks(session)


def holds(store) -> None:
    """A holder that comes and goes; what it called is after its re-entry point."""
    with store.session("a") as s:
        s.state["names"].append("other")
        s.save()
        s.call(len, "called")


def shares(store) -> None:
    add(store, "other")


@pytest.mark.parametrize("rolls_back", [False, True])
@pytest.mark.parametrize("comes", [shares, holds])
def test_whoever_comes_while_it_is_opened_is_seen_whole_or_not_at_all(comes, *, rolls_back: bool) -> None:
    place, came = 0, True
    while came:
        place += 1
        with perdure.open("memory:") as store:
            add(store, "x")
            between = Between(store.backend, place=place, comes=lambda store=store: comes(store))
            try:
                with perdure.AgentStore(between).session("a", optimistic=True) as s:
                    s.rollback(0) if rolls_back else None
                    s.state["names"].append("mine")
            except (ConflictError, HeldError):
                add(store, "mine")
            came = between.left <= 0
            assert sorted(store.state_at("a")["names"]) == ["mine", *(["other"] if came else []), "x"]
            assert store.verify("a", read_data=True).ok
    assert place > 7


def test_processes_lose_nothing(store) -> None:
    workers = [begun(add_many, store.url, n) for n in range(3)]
    [worker.join(60) for worker in workers]
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert sorted(store.state_at("a")["names"]) == sorted(f"{w}-{n}" for w in range(3) for n in range(8))
    assert store.verify("a", read_data=True).ok


def test_keyframes_are_made_without_a_lease(store, monkeypatch) -> None:
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 4)
    for n in range(12):
        add(store, str(n))
    assert store.backend.keyframes("a")
    assert store.verify("a", read_data=True).ok


def test_a_cancelled_one_is_not_opened(store) -> None:
    add(store, "x")
    store.cancel("a")
    with pytest.raises(SessionCancelledError):
        store.session("a", optimistic=True)
