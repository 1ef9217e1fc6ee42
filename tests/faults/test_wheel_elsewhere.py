"""A person takes the wheel of a session that another machine runs, through nothing but the store.

The owner's process has another boot id than ours, so that nobody here can tell whether it lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import perdure
from tests.faults.owner import Owner
from tests.servers import places
from tests.servers.places import Place

WITHIN_S = 60.0


@pytest.fixture
def both(place: Place, tmp_path: Path) -> Iterator[tuple[Owner, perdure.AgentStore]]:
    with Owner(place.url, tmp_path / "world.txt", elsewhere=True) as owner, perdure.open(place.url) as store:
        yield owner, store


def once(found: Callable[[], object]) -> None:
    """Waits until that is so."""
    end = time.monotonic() + WITHIN_S
    while not found():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_at_work(store: perdure.AgentStore, session: str) -> bool:
    return any(info.id == session and info.actions for info in store.sessions())


@pytest.mark.parametrize("place", [places.SQLITE, places.POSTGRES], ids=repr, indirect=True)
def test_it_is_saved_sent_back_asked_and_goes_on(both: tuple[Owner, perdure.AgentStore]) -> None:
    owner, store = both
    owner.tell("attend", "s")
    once(lambda: is_at_work(store, "s"))
    assert store.save("s", reason="to see", by="ann")
    once(lambda: store.detail("s").inspections)
    assert store.rollback("s", "start", reason="in circles", by="bob", strategy="ask").asked
    assert owner.hear() == ["waiting", None]
    store.answer("s", "go", "yes", by="cyd")
    assert owner.do("attend", "s") == ["completed", "yes"]
    told = [(one.what, one.by, one.why) for one in store.detail("s").interventions]
    assert told == [
        ("save", "ann", "to see"),
        ("rollback", "bob", "in circles"),
        ("rollback", "bob", "in circles"),
        ("answer", "cyd", ""),
    ]


@pytest.mark.parametrize("place", [places.SQLITE, places.POSTGRES], ids=repr, indirect=True)
def test_it_is_paused_and_then_ended(both: tuple[Owner, perdure.AgentStore]) -> None:
    owner, store = both
    owner.tell("attend", "p")
    once(lambda: is_at_work(store, "p"))
    store.pause("p", reason="deploy", by="ann")
    assert owner.hear() == ["paused", None]
    owner.tell("attend", "p")
    once(lambda: store.info("p").status == "running")
    store.cancel("p", reason="enough", by="bob")
    assert owner.hear() == ["cancelled", None]
    told = [(one.what, one.by, one.why) for one in store.detail("p").interventions]
    assert told == [("pause", "ann", "deploy"), ("cancel", "bob", "enough")]
    assert store.verify("p", read_data=True).ok
