"""Case 41: of saves in the same second, or with a clock set back, the latest is the one with the highest number."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.log import GENESIS, chained
from perdure.stores import Batch, Point, open_store
from tests.servers.places import Place

SAVES, SAVES_THERE = 1_000, 60
"""On a disk or in memory, and on a server."""

steps = pytest.mark.parametrize("step_us", [0, -1_000_000], ids=["frozen", "set back"])


def saved_in_turn(url: str, *, step_us: int, saves: int) -> None:
    """Two sessions are saved in turn; who opens the place afterwards finds the last of each."""
    chains = {"a": GENESIS, "b": GENESIS}
    with open_store(url) as store:
        for session in chains:
            store.create(session, owner="me")
        for seq in range(1, saves // 2 + 1):
            for session, chain in chains.items():
                time_us = 1_700_000_000_000_000 + step_us * seq
                record = chained(chain, session=session, seq=seq, epoch=1, kind="saved", time_us=time_us, body=b"")
                point = Point(seq, seq - 1, 3, None, time_us)
                store.append(session, Batch((record,), points=(point,)), epoch=1, head=seq - 1)
                chains[session] = record.chain
    with open_store(url) as store:
        for session, chain in chains.items():
            assert (store.head(session).seq, store.head(session).chain) == (saves // 2, chain)
            assert store.points(session)[-1].seq == saves // 2
        assert [head.session for head in store.heads()] == ["b", "a"]


@steps
def test_the_latest_is_the_last_saved(place: Place, step_us: int) -> None:
    saved_in_turn(place.url, step_us=step_us, saves=SAVES_THERE if place.server else SAVES)


@steps
def test_so_it_is_in_memory(tmp_path: Path, step_us: int) -> None:
    saved_in_turn(f"memory:{tmp_path}", step_us=step_us, saves=SAVES)
