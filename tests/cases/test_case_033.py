"""Case 33: appends within one instant of the clock are no conflict; numbers decide, not times."""

from __future__ import annotations

import pytest

import perdure
from perdure import clock
from perdure.log import GENESIS, chained
from perdure.stores import Batch, Point, open_store
from tests.servers.places import Place

INSTANT_US = 1_700_000_000_000_000


def appended_at_one_time(url: str) -> None:
    chain = GENESIS
    with open_store(url) as store:
        store.create("s", owner="me")
        for seq in range(1, 101):
            record = chained(chain, session="s", seq=seq, epoch=1, kind="note", time_us=INSTANT_US, body=b"")
            store.append("s", Batch((record,), points=(Point(seq, seq - 1, 1, None, 0),)), epoch=1, head=seq - 1)
            chain = record.chain
        assert (store.head("s").seq, store.head("s").chain) == (100, chain)
        assert [point.seq for point in store.points("s")] == [*range(1, 101)]


def test_a_hundred_appends_at_one_time_all_pass(place: Place) -> None:
    appended_at_one_time(place.url)


def test_so_they_do_in_memory() -> None:
    appended_at_one_time("memory:")


def test_an_agent_whose_clock_stands_still_is_saved_and_resumed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now_us", lambda: INSTANT_US)
    for turn in range(3):
        with perdure.open(place.url) as store, store.session("s") as s:
            assert s.state.get("n", 0) == 5 * turn
            for _ in range(5):
                s.state["n"] = s.state.get("n", 0) + 1
                s.save()
