"""`gc` is killed at each instant that it names, and at each of its transactions; done again, it comes to the same."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults, limits, values
from perdure.ops import amending, collection
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores import Batch, Change, open_store
from perdure.testing.broken import Passing
from perdure.testing.lives import forked
from tests.crash import killing
from tests.crash.killing import copy_of

POINTS = ("amend.inside", "sweep.inside")
KEPT = 2


@pytest.fixture(params=["agents.db", "agents"], ids=["sqlite", "file"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with one session, whose collection takes several transactions of both kinds."""
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 8)
    monkeypatch.setattr(limits, "SLICE_RECORDS", 7)
    monkeypatch.setattr(limits, "SLICE_BYTES", 2000)
    found = Path(tmp_path, "here", request.param)
    found.parent.mkdir()
    with perdure.open(url_of(found)) as store, store.session("s") as s:
        s.state["log"] = []
        for _ in range(40):
            s.state["log"].append(os.urandom(100).hex())
            s.state["big"] = os.urandom(1000).hex()
            s.save()
            s._keyframer._join()
    return found


def url_of(path: Path) -> str:
    return str(path) if path.suffix else f"file:{path}"


def states(path: Path) -> dict[int, bytes]:
    """What is there, each state as it is encoded; and all of it is whole."""
    with perdure.open(url_of(path)) as store:
        assert [str(problem) for problem in store.verify("s", read_data=True).problems] == []
        return {point.seq: values.encode(store.state_at("s", point.seq)) for point in store.snapshots("s")}


def collect(path: Path, *, kill: tuple[str, int] | None = None) -> Counter[str]:
    """Collects in a process of its own, which is killed when it comes to this point for the so-manieth time."""

    def work() -> None:
        with perdure.open(url_of(path)) as store:
            store.gc(keep_last=KEPT, dry_run=False)

    return killing.reached(work, kill=kill)


def test_killed_anywhere_it_is_done_again(path: Path, tmp_path: Path) -> None:
    before = states(path)
    whole = copy_of(path, tmp_path / "whole")
    reached = collect(whole)
    after = states(whole)
    assert {point: before[point] for point in after} == after
    assert all(reached[point] > 1 for point in POINTS), reached
    assert {point for point in faults.POINTS if point.startswith(("amend.", "sweep."))} == {*POINTS}
    for kill in ((point, times) for point in POINTS for times in range(1, reached[point] + 1)):
        killed = copy_of(path, tmp_path / "-".join(map(str, kill)))
        collect(killed, kill=kill)
        between = states(killed)
        assert {*after} <= {*between} <= {*before}
        assert {seq: before[seq] for seq in between} == between
        collect(killed)
        assert states(killed) == after
        with perdure.open(url_of(killed)) as store:
            assert store.gc(keep_last=KEPT).bytes == 0


class IndexFirst(Passing):
    """Takes the rows out of the index in a transaction of their own, before the record that says so."""

    def amend(self, session: str, batch: Batch, change: Change, **seen: Any) -> None:
        self.right.amend(session, Batch(()), Change(points=change.points, keyframes=change.keyframes), **seen)
        faults.reach("amend.inside")
        self.right.amend(session, batch, change, **seen)


class BodiesFirst(Passing):
    """Drops the bodies before the record that says so."""

    def amend(self, session: str, batch: Batch, change: Change, **seen: Any) -> None:
        self.right.amend(session, Batch(()), Change(bodies=change.bodies), **seen)
        self.right.amend(session, batch, change, **seen)


@pytest.mark.parametrize("wrong", [IndexFirst, BodiesFirst])
def test_a_store_that_does_it_in_two_is_caught(wrong: type[Passing], path: Path) -> None:
    def work() -> bytes:
        def hook(point: str) -> None:
            reached.append(point)
            if len(reached) == 2:
                os.kill(os.getpid(), signal.SIGKILL)

        reached: list[str] = []
        faults.hook = hook
        with perdure.AgentStore(wrong(open_store(url_of(path)))) as store:
            store.gc(keep_last=KEPT, dry_run=False)
        return b""

    assert forked(work)[1] == signal.SIGKILL
    with pytest.raises(AssertionError):
        states(path)


@pytest.mark.parametrize("wrong", ["drops a base", "oldest first", "sweeps what is needed"])
def test_a_collection_that_is_wrong_is_caught(wrong: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if wrong == "drops a base":
        monkeypatch.setattr(collection, "bases", lambda *_: [])
    elif wrong == "oldest first":
        slices = amending.slices
        monkeypatch.setattr(collection, "slices", lambda pieces: slices(pieces[::-1]))
    else:
        monkeypatch.setattr(collection.Facts, "needed", lambda *_, **__: set())
    with pytest.raises((AssertionError, perdure.PerdureError)):  # noqa: PT012 - wherever it shows
        collect(path, kill=("amend.inside", 3) if wrong == "oldest first" else None)
        states(path)
