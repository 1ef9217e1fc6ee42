"""A store of files, killed at each of its own steps: a batch torn, a tail cut, a segment begun."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

import perdure
from perdure import faults
from perdure.log import GENESIS, Record, verified
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores import Batch, Point, Store
from perdure.stores.file import FileStore
from perdure.testing import crash_everywhere
from perdure.testing.conformance.tools import records_after
from perdure.testing.lives import forked
from tests.crash import outside
from tests.crash.agents import BENCHES, Bench
from tests.crash.outside import happens

SEGMENT_BYTES = 2000
"""A few records: a session has many segments."""


def small_segments(place: Path) -> Store:
    return FileStore(place / "agents", segment_bytes=SEGMENT_BYTES)


CHOSEN = BENCHES[::9]
STEPS = ("append.inside", "rotate.inside", "rotate.after")


@pytest.mark.parametrize("bench", CHOSEN, ids=[bench.name for bench in CHOSEN])
def test_killed_anywhere_it_goes_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", bench.every)
    chosen = {
        "effects": outside.effects,
        "fresh": outside.clear,
        **bench.options,
        "store": small_segments,
        "points": STEPS,
    }
    report = crash_everywhere(bench.agent, **chosen)
    assert {name for name in STEPS if report.reached.get(name) and not report.killed.get(name)} == set()


def test_killed_at_every_rotation_it_goes_on() -> None:
    report = crash_everywhere(
        saves_much, effects=outside.effects, fresh=outside.clear, store=small_segments, points=STEPS
    )
    assert min(report.killed["rotate.inside"], report.killed["rotate.after"]) >= 5


def saves_much(s: perdure.Session) -> int:
    s.state["n"] = 0
    for n in range(8):
        send(n)
        s.state["n"], s.state["text"] = n, str(n) * 200
        s.save()
    return int(s.state["n"])


@perdure.action(effect="once", verify=lambda n: perdure.Done() if f"send {n}" in outside.seen() else perdure.NotDone())
def send(n: int) -> None:
    happens(f"send {n}")


def test_killed_while_a_torn_tail_is_cut_the_next_one_cuts_it(tmp_path: Path) -> None:
    killed = Counter[str]()
    with FileStore(tmp_path / "agents") as store:
        store.create("s", owner="me")
    for point in ("append.inside", "append.cut", "append.cut", None):
        told, status = forked(lambda point=point: append_one(tmp_path / "agents", point))  # type: ignore[misc]
        killed[point or ""] += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert told == (b"1" if point is None else b"")
    assert killed == {"append.inside": 1, "append.cut": 1, "": 0}
    with FileStore(tmp_path / "agents") as store:
        assert len(list(verified(store.read("s"), session="s", after=0, previous=GENESIS))) == 2


def append_one(place: Path, point: str | None) -> bytes:
    """One append, killed at this point; the second process that is killed while it cuts finds nothing to cut."""

    def die(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    faults.hook = die
    with FileStore(place) as store:
        records: list[Record] = list(store.read("s"))
        (record,) = records_after(records, "s", (b"body",), kind="note")
        store.append("s", Batch((record,), points=(Point(record.seq, 0, 1, None, 0),)), epoch=1, head=len(records))
        return b"1" if point is None else b""
