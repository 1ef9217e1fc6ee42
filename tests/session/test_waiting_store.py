"""Who waits for a session is told by its store, and who takes one over asks it how long the owner has been still."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import perdure
from perdure.errors import HeldError
from perdure.runtime.store import AgentStore
from perdure.session.keeping.lease import Keeper, new_owner, takeable
from perdure.stores import Lease, Store, open_store
from perdure.stores.around import Around
from perdure.testing.broken_watches import Aged

ELSEWHERE = json.dumps({"host": "build-3", "pid": 4711, "boot": "another", "space": "x", "started": "1", "life": "l"})


class Still(Around):
    """A store whose clock says that every lease has been still for so long."""

    def __init__(self, inner: Store, still_s: float | None) -> None:
        super().__init__(inner)
        self._still_s, self.asked = still_s, 0

    def still_s(self, lease: Lease) -> float | None:
        self.asked += 1
        return self._still_s


class Looked(Around):
    """Counts the looks into inboxes and at heads; calls `first` before the second look."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.looks = 0
        self.first: Callable[[], object] = int

    def _look(self) -> None:
        self.looks += 1
        if self.looks == 1:
            threading.Timer(0.3, self.first).start()

    def inbox(self, session: str, *, after: int = 0) -> Any:
        self._look()
        return self.inner.inbox(session, after=after)


@pytest.fixture
def memory() -> Iterator[Store]:
    with open_store("memory:") as found:
        yield found


def held_elsewhere(store: Store, still_s: float | None) -> AgentStore:
    """The same place, with a session that somebody on another machine holds."""
    with AgentStore(store, lease_s=10).session("s") as s:
        s.state["n"] = 1
    store.claim("s", owner=ELSEWHERE, seen=store.lease("s"))
    return AgentStore(Still(store, still_s), lease_s=10)


@pytest.mark.parametrize("still_s", [10.0, 86400.0])
def test_a_session_that_has_been_still_for_its_lease_is_taken_at_once(memory: Store, still_s: float) -> None:
    with held_elsewhere(memory, still_s).session("s") as s:
        assert s.state["n"] == 1


@pytest.mark.parametrize(
    ("still_s", "said"),
    [
        (9.0, r"pid 4711 on build-3 \(epoch 2\), waited 0 s; its lease has not moved for 9\.0 s\. .*after 10 s"),
        (-3600.0, r"its lease has not moved for 0\.0 s"),
        (None, r"waited 0 s\. End that process, or wait longer \(wait_s=11; of run and resume: --wait 11\)"),
    ],
)
def test_one_that_is_not_is_held(memory: Store, still_s: float | None, said: str) -> None:
    with pytest.raises(HeldError, match=said):
        held_elsewhere(memory, still_s).session("s").start()


def test_only_what_is_left_of_a_lease_is_waited_for(memory: Store) -> None:
    found = held_elsewhere(memory, 9.99)
    with found.session("s", wait_s=9) as s:
        assert s.state["n"] == 1


def test_a_free_session_is_not_asked_for(memory: Store) -> None:
    store = Still(memory, None)
    for owner in ("one", "two"):
        if owner == "two":
            lease = next(takeable(store, store.lease("s"), wait_s=0, lease_s=10))
        else:
            lease = store.create("s", owner=owner)
        store.release(lease)
    assert store.asked == 0


def test_a_live_owner_is_not_replaced(memory: Store) -> None:
    store = Aged(memory)
    keeper = Keeper(store, lease_s=2)
    lease = store.create("s", owner=new_owner())
    keeper.keep(lease)
    try:
        with pytest.raises(HeldError, match=r"waited 2\.5 s"):
            next(takeable(store, lease, wait_s=2.5, lease_s=2))
    finally:
        keeper.close()
    assert store.lease("s").counter > 1


def test_who_queues_is_told_when_the_session_is_free(memory: Store) -> None:
    lease = memory.create("s", owner=new_owner())
    threading.Timer(0.01, lambda: memory.release(lease)).start()
    assert next(takeable(memory, lease, wait_s=600, lease_s=600)).owner == ""


def test_who_waits_for_an_item_is_told(memory: Store) -> None:
    store = Looked(memory)
    with AgentStore(store).session("s") as s:
        store.first = lambda: perdure.AgentStore(memory).send("s", "hello")
        store.looks = 0
        assert s.receive(wait_s=60) == "hello"
    assert store.looks <= 4  # polling would take more in this time
