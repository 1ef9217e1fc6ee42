"""Case 33: appends within one instant of the clock are no conflict; numbers decide, not times."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.log import GENESIS, chained
from perdure.stores import Batch, Point, open_store


@pytest.mark.parametrize("url", ["{}/agents.db", "memory:"])
def test_a_hundred_appends_at_one_time_all_pass(tmp_path: Path, url: str) -> None:
    chain = GENESIS
    with open_store(url.format(tmp_path)) as store:
        store.create("s", owner="me")
        for seq in range(1, 101):
            record = chained(chain, session="s", seq=seq, epoch=1, kind="note", time_us=1_700_000_000_000_000, body=b"")
            store.append("s", Batch((record,), points=(Point(seq, seq - 1, 1, None, 0),)), epoch=1, head=seq - 1)
            chain = record.chain
        assert (store.head("s").seq, store.head("s").chain) == (100, chain)
        assert [point.seq for point in store.points("s")] == [*range(1, 101)]
