"""Agents in a sealed store are killed at each named instant, and come to what they come to unharmed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import perdure
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores import Store, open_store
from perdure.testing import crash_everywhere
from tests.crash import outside
from tests.crash.agents import BENCHES, Bench

KEY = bytes(range(32))
FULL = os.environ.get("PERDURE_STORM") == "full"
CHOSEN = [bench for bench in BENCHES if FULL or bench.name in ("saves_before_use", "grows_by_hand")]
POINTS = None if FULL else ("append.inside", "append.after", "keyframe.chunks")
URLS = ("agents.db", "file:{}/agents") if FULL else ("agents.db",)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("bench", CHOSEN, ids=[bench.name for bench in CHOSEN])
def test_killed_anywhere_it_goes_on(bench: Bench, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", bench.every)

    def store(folder: Path) -> Store:
        return open_store(url.format(folder) if ":" in url else folder / url, keys=KEY)

    options = {"effects": outside.effects, "fresh": outside.clear, **bench.options, "store": store}
    report = crash_everywhere(bench.agent, **{**options, "points": POINTS})
    assert sum(report.killed.values()) > 2


def test_killed_while_a_family_is_founded_it_is_founded_again(tmp_path: Path) -> None:
    with perdure.open(str(tmp_path / "agents.db"), keys=KEY) as opened:
        inner = opened.backend.inner  # type: ignore[attr-defined]
        lease = inner.create("s", owner="dead", epoch=1)  # and died before its keys were there
        inner.release(lease)
        assert inner.envelope("s") is None
        with opened.session("s") as s:
            s.state["n"] = 1
        assert opened.state_at("s") == {"n": 1}
        assert inner.envelope("s") is not None
