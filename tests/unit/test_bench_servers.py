"""What the benchmark measures on servers: a single row on each, and that a save is one round trip to each."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.testing.bench import cost, places
from perdure.testing.bench.plan import QUICK, Plan
from perdure.testing.bench.single import single
from tests.servers import places as kinds
from tests.servers.places import Place

on_servers = pytest.mark.parametrize("place", kinds.SERVERS, ids=repr, indirect=True)


def test_a_single_row_is_kept_and_taken_away(place: Place) -> None:
    name = places.new_name()
    one, other = single(place.url, name), single(place.url, name)
    for row in (one, other, one):
        row.save(b"body")
    other.close()
    one.remove()
    one.close()


@on_servers
def test_a_save_is_one_round_trip(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "TIMES", 1)
    monkeypatch.setattr(cost, "SAVES", 9)
    found = cost.cost(Plan(tmp_path, QUICK, None, place.url, places.new_name()))
    assert set(found) == {row.key for row in cost.ROWS}
    assert found["cost.save.trips"] == 1
    assert found["cost.call.trips"] == 2
    assert found["cost.restore.trips"] < 15
