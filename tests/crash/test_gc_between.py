"""House is kept before every life of an agent that is killed everywhere: nothing that it comes to may change.

A retention that drops what a resume needs is caught by the same lives.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

import perdure
from perdure.errors import PerdureError
from perdure.ops import retention
from perdure.session.keeping.keyframer import Keyframer
from perdure.testing import Report, crash, crash_everywhere
from perdure.testing.lives import Life
from tests.crash import outside
from tests.crash.agents import BENCHES, Bench, fans_out_by_steps

FULL = os.environ.get("PERDURE_STORM") == "full"
CHOSEN = ("rolls_back", "asks", "works", "serves", "fans_out")
MORE = ("pays_and_books", "nests", "catches", "grows", "grows_by_steps", "grows_by_hand", "waits", "stumbles")


def lives(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Report:
    """What became of the lives. The records of what is completed are counted in the end, so they are left."""

    def kept_house(opening: Any) -> Any:
        def opened(self: perdure.AgentStore, *args: Any, **more: Any) -> Any:
            for info in self.sessions():
                if info.status != "completed":
                    assert not self.gc(info.id, keep_last=0, dry_run=False).sessions[0].left_alone
                    assert [str(problem) for problem in self.verify(info.id, read_data=True).problems] == []
            return opening(self, *args, **more)

        return opened

    def compared(unharmed: Life, life: Life, *, trial: Any) -> None:
        """All but how many calls are recorded: those that no resume needs may be gone."""
        compare(*(replace(one, ended=replace(one.ended, actions={})) for one in (unharmed, life)), trial=trial)

    compare = crash._compare
    monkeypatch.setattr(crash, "_compare", compared)
    # The bench counts the values in the log to know which comes next.
    monkeypatch.setattr(retention, "DROPPED", retention.DROPPED - {"value"})
    monkeypatch.setattr(perdure.AgentStore, "run", kept_house(perdure.AgentStore.run))
    monkeypatch.setattr(perdure.AgentStore, "session", kept_house(perdure.AgentStore.session))
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", min(bench.every, 3))
    options = {**bench.options, "pairs": 0}
    return crash_everywhere(
        bench.agent, effects=outside.effects, fresh=outside.clear, points=["append.after"], **options
    )


BLOCKS = Bench(fans_out_by_steps)
"""Its calls are killed everywhere by `fans_out`."""


@pytest.mark.parametrize(
    "bench",
    [BLOCKS, *(b for b in BENCHES if b.name in (*CHOSEN, *(MORE if FULL else ())))],
    ids=lambda bench: bench.name,
)
def test_no_life_notices_that_house_was_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lives(bench, monkeypatch).lives > 1


def test_a_retention_that_forgets_what_is_answered_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_answered", lambda *_: iter(()))
    monkeypatch.setattr(retention, "_is_kept", lambda *_, **__: False)
    real = retention.stay

    def careless(facts: Any, snapshots: Any, *, pinned: int) -> retention.Stay:
        found = real(facts, snapshots, pinned=pinned)
        found.records = set(facts.points) | {1, facts.head.seq}
        return found

    monkeypatch.setattr(retention, "stay", careless)
    bench = next(bench for bench in BENCHES if bench.name == "pays_and_books")
    with pytest.raises((AssertionError, PerdureError)):
        lives(bench, monkeypatch)
