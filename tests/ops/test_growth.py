"""Bytes in every durable store follow the change, by the place's own measure, and fall when what is old goes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import perdure
from perdure.ops import collection
from perdure.stores import Store
from perdure.stores.contract import Batch
from perdure.values import address
from tests.ops.measures import measured
from tests.servers import places
from tests.servers.places import Place

BLOB, IMAGE, CHANGE = 150_000, 5_000_000, 4_000
STEPS = (100, 200, 400)
A_STEP = CHANGE * 3
"""What a step may cost: the change in a row, an index or a line of text of its own, in the widest of the places."""
A_PLACE = 1_500_000
"""What a place takes for itself, before anything is in it and where it rounds up, and the first keyframe."""


@dataclass
class Sizes:
    """The bytes at each number of steps; `fresh` of a place with nothing in it."""

    fresh: int = 0
    grown: list[int] = field(default_factory=list)
    collected: int = 0
    erased: int = 0

    def wrong(self) -> list[str]:
        """What does not follow the change."""
        few, more, most = self.grown
        change = CHANGE * (STEPS[2] - STEPS[0])
        found = {
            "the constant is there more than once": few - self.fresh > BLOB + IMAGE + STEPS[0] * A_STEP + A_PLACE,
            "the second hundred cost too much": more - few > (STEPS[1] - STEPS[0]) * A_STEP,
            "the last two hundred cost too much": most - more > (STEPS[2] - STEPS[1]) * A_STEP,
            "what changed is not there": most - few < change,
            "gc gave nothing back": most - self.collected < change,
            "what is constant is gone": self.collected - self.fresh < BLOB + IMAGE,
            "something of what was erased is left": self.erased - self.fresh > A_PLACE,
        }
        return [what for what, is_so in found.items() if is_so]


def lived(place: Place, *, broken: Callable[[Store], None] = lambda _: None) -> Sizes:
    """One session through its life, measured while nobody has the store open."""
    sizes = Sizes()
    with perdure.open(place.url):
        pass
    sizes.fresh = measured(place)
    done = 0
    for steps in STEPS:
        with perdure.open(place.url) as store:
            broken(store.backend)
            with store.session("s") as s:
                if not done:
                    s.state.update(blob=os.urandom(BLOB), image=os.urandom(IMAGE))
                for _ in range(done, steps):
                    s.state["last"] = os.urandom(CHANGE)
                    s.save()
        done = steps
        sizes.grown.append(measured(place))
    with perdure.open(place.url) as store:
        store.gc(keep_last=2, dry_run=False)
        assert store.verify("s", read_data=True).ok
        assert len(store.state_at("s")["image"]) == IMAGE
    sizes.collected = measured(place)
    with perdure.open(place.url) as store:
        store.erase("s")
    sizes.erased = measured(place)
    return sizes


def test_bytes_follow_the_change_and_fall_when_it_goes(place: Place) -> None:
    sizes = lived(place)
    assert sizes.wrong() == [], sizes


def forgetful(store: Store) -> None:
    """A store that keeps the blob anew with each save."""
    append: Any = store.append

    def wrong(session: str, batch: Batch, **options: Any) -> int:
        frame = os.urandom(BLOB)
        store.put_chunks(session, {address(frame): frame}, epoch=options["epoch"])
        return int(append(session, batch, **options))

    store.append = wrong  # type: ignore[method-assign]


@pytest.mark.parametrize("place", [places.SQLITE], indirect=True, ids=repr)
def test_a_store_that_keeps_the_constant_anew_is_caught(place: Place) -> None:
    assert {"the constant is there more than once", "the second hundred cost too much"} <= {
        *lived(place, broken=forgetful).wrong()
    }


@pytest.mark.parametrize("place", [places.SQLITE], indirect=True, ids=repr)
def test_a_gc_that_gives_nothing_back_is_caught(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "_done", lambda planned, **_: planned.collected())
    monkeypatch.setattr(collection, "_swept", lambda *_, **__: {})
    assert "gc gave nothing back" in lived(place).wrong()


@pytest.mark.parametrize("place", [places.SQLITE], indirect=True, ids=repr)
def test_an_erasure_that_leaves_bytes_is_caught(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perdure.AgentStore, "erase", lambda *_: None)
    assert lived(place).wrong() == ["something of what was erased is left"]
