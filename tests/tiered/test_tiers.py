"""Two tiers by themselves: who acknowledges, who is asked for what, and what leaves hot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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


def test_behind_it_is_hot_that_acknowledges(hot: Place, cold: Place) -> None:
    with tiered(hot, cold) as store:
        owner = Owner(store).open()
        owner.save(b"first")
        written = cold.asked["append"]
        for number in range(20):
            owner.save(b"%d" % number)
        assert (cold.asked["append"], cold.asked["submit"]) == (written, 0)
        assert len(bodies(cold)) == 2
        assert bodies(store) == owner.acknowledged
        assert [point.seq for point in store.points("s")] == [*range(1, 23)]
    assert bodies(Place(cold.url.removeprefix("memory:"))) == owner.acknowledged
