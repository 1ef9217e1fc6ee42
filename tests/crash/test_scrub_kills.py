"""`scrub` is killed at each instant that it names; done again, no byte of the text is left, and all else is."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.ops import scrubbing
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores import Batch, Change, open_store
from perdure.stores.file import FileStore
from perdure.stores.sqlite import SqliteStore
from perdure.testing.broken import Passing
from perdure.testing.lives import forked
from tests.crash import killing
from tests.crash.killing import copy_of
from tests.e2e import bytes_of

POINTS = ("amend.inside", "scrub.session", "sweep.inside", "scrub.swept", "purge.inside")
CANARY = "kM4-never-in-a-log-77"
MASK = "<gone>"


@pytest.fixture(params=["agents.db", "agents"], ids=["sqlite", "file"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with one session and a fork of it, whose scrub takes several transactions of each kind."""
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 4)
    found = Path(tmp_path, "here", request.param)
    found.parent.mkdir()
    with perdure.open(url_of(found), secrets="allow") as store:
        with store.session("s") as s:
            s.state["log"] = []
            for n in range(12):
                s.state["log"].append(f"{os.urandom(50).hex()} {CANARY if n % 2 else ''}")
                s.save()
                s._keyframer._join()
        store.fork("s", into="f")
        with store.session("f") as s:
            s.state["mine"] = CANARY
    return found


def url_of(path: Path) -> str:
    return str(path) if path.suffix else f"file:{path}"


def states(path: Path, *, between: bool = False) -> dict[tuple[str, int], Any]:
    """The state at each point with the mask in it, whether it was put there or not yet; all of it is whole.

    `between` a session and its fork, a keyframe of the one may have what the records of the other have no more.
    """
    found = {}
    with perdure.open(url_of(path), secrets="allow") as store:
        for name in ("s", "f"):
            problems = store.verify(name, read_data=True).problems
            assert [str(problem) for problem in problems if not (between and problem.kind == "keyframe")] == []
            for point in store.snapshots(name):
                shown = repr(store.state_at(name, point.seq))
                found[name, point.seq] = shown.replace(CANARY, MASK)
    return found


def left(path: Path) -> list[str]:
    """Where the text still is."""
    with perdure.open(url_of(path), secrets="allow") as store:
        found = bytes_of.in_store(CANARY, store)
    return found + bytes_of.in_files(CANARY, path.parent)


def scrubbed(path: Path, *, kill: tuple[str, int] | None = None) -> Counter[str]:
    """Scrubs in a process of its own, which is killed when it comes to this point for the so-manieth time."""

    def work() -> None:
        with perdure.open(url_of(path), secrets="allow") as store:
            assert store.scrub(CANARY, mask=MASK, dry_run=False).clean

    return killing.reached(work, kill=kill)


def test_killed_anywhere_it_is_done_again(path: Path, tmp_path: Path) -> None:
    before = states(path)
    assert left(path)
    whole = copy_of(path, tmp_path / "whole")
    reached = scrubbed(whole)
    assert left(whole) == []
    assert states(whole) == before
    points = [point for point in POINTS if point != "purge.inside" or not path.suffix]
    assert all(reached[point] for point in points), reached
    for point in points:
        for times in {1, reached[point] // 2 + 1, reached[point]}:
            killed = copy_of(path, tmp_path / f"{point}-{times}")
            scrubbed(killed, kill=(point, times))
            assert states(killed, between=True) == before
            scrubbed(killed)
            assert states(killed) == before
            assert left(killed) == []


class BodiesFirst(Passing):
    """Replaces the bodies before the record that says so."""

    def amend(self, session: str, batch: Batch, change: Change, **seen: Any) -> None:
        first = Change(bodies=change.bodies, chunks=change.chunks)
        self.right.amend(session, Batch(()), first, **seen)
        faults.reach("amend.inside")
        self.right.amend(session, batch, change, **seen)


def test_a_store_that_does_it_in_two_is_caught(path: Path) -> None:
    def work() -> bytes:
        def hook(point: str) -> None:
            reached.append(point)
            if len(reached) == 2:
                os.kill(os.getpid(), signal.SIGKILL)

        reached: list[str] = []
        faults.hook = hook
        with perdure.AgentStore(wrong(url_of(path))) as store:
            store.scrub(CANARY, mask=MASK, dry_run=False)
        return b""

    def wrong(url: str) -> Passing:
        return BodiesFirst(open_store(url))

    assert forked(work)[1] == signal.SIGKILL
    with pytest.raises(AssertionError):
        states(path)


@pytest.mark.parametrize("wrong", ["keeps chunks", "does not purge", "forgets manifests", "changes no index"])
def test_a_scrub_that_is_wrong_is_caught(wrong: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = states(path)
    if wrong == "keeps chunks":
        monkeypatch.setattr(scrubbing, "sweep", lambda *_: (0, ""))
    elif wrong == "does not purge":
        monkeypatch.setattr(SqliteStore, "purge", lambda *_: None)
        monkeypatch.setattr(FileStore, "purge", lambda *_: None)
        with perdure.open(url_of(path), secrets="allow") as store:
            store.send("s", CANARY)
            with store.session("s") as s:
                s.receive()
    elif wrong == "forgets manifests":
        monkeypatch.setattr(scrubbing.keyframe, "moved", lambda manifest, _to: manifest)
    else:
        monkeypatch.setattr(scrubbing, "replacing", lambda _old, frame: frame)
    with pytest.raises((AssertionError, perdure.PerdureError)):  # noqa: PT012 - wherever it shows
        if not path.suffix or wrong != "does not purge":
            with perdure.open(url_of(path), secrets="allow") as store:
                assert store.scrub(CANARY, mask=MASK, dry_run=False).clean
            assert left(path) == []
            assert states(path) == before
        else:
            with perdure.open(url_of(path), secrets="allow") as store:
                store.scrub(CANARY, mask=MASK, dry_run=False)
                assert bytes_of.in_files(CANARY, path.parent) == []
