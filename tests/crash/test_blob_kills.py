"""A process that dies while a large leaf is stored leaves a record that has it, or neither; what is left is swept."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

import perdure
from perdure import faults
from perdure.runtime.store import open_agent_store
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores import open_store
from perdure.testing import crash_everywhere
from perdure.testing.lives import forked
from tests.crash import outside
from tests.crash.outside import happens

SIZE = 100_000
STORES = {"sqlite": "{}/agents.db", "file": "file://{}/agents"}
POINTS = {
    "sqlite": ("append.before", "append.inside", "append.after", "keyframe.chunks", "keyframe.after"),
    "file": ("append.chunks", "append.inside", "append.after", "keyframe.chunks", "keyframe.after"),
}


def noise(seed: int) -> bytes:
    return random.Random(seed).randbytes(SIZE)


@perdure.action(effect="once", verify=lambda n: perdure.Done(noise(n)) if f"draw {n}" in outside.seen() else None)
def draw(n: int) -> bytes:
    happens(f"draw {n}")
    return noise(n)


def draws(s: perdure.Session) -> int:
    s.state["kept"] = []
    s.state["kept"].append({"image": draw(1)})
    s.save()
    s._keyframer._join()
    return len(s.state["kept"])


@pytest.mark.parametrize("kind", STORES)
def test_killed_anywhere_it_goes_on(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 1)
    report = crash_everywhere(
        draws,
        effects=outside.effects,
        fresh=outside.clear,
        store=lambda place: open_store(STORES[kind].format(place)),
        points=POINTS[kind],
    )
    assert {name for name in POINTS[kind] if not report.killed.get(name)} == set()


def test_what_is_left_of_a_batch_is_swept_or_used(tmp_path: Path) -> None:
    """In a store of files chunks come first. The next process stores the same again, or `gc` finds nobody in need."""
    url = STORES["file"].format(tmp_path)

    def save(seed: int, *, die: bool) -> bytes:
        faults.hook = lambda point: os.kill(os.getpid(), signal.SIGKILL) if die and point == "append.chunks" else None
        with open_agent_store(url) as store, store.session("s") as s:
            s.state["image"] = noise(seed)
        return b"saved"

    assert forked(lambda: save(1, die=False))[0] == b"saved"
    for seed in (2, 3):
        told, status = forked(lambda seed=seed: save(seed, die=True))  # type: ignore[misc]
        assert (told, os.WTERMSIG(status)) == (b"", signal.SIGKILL)
    assert forked(lambda: save(3, die=False))[0] == b"saved"
    with open_agent_store(url) as store:
        assert store.state_at("s") == {"image": noise(3)}
        assert (len(store.backend.chunk_sizes("s")), store.verify("s", read_data=True).ok) == (3, True)
        report = store.gc(keep_last=10, dry_run=False)
        assert (report.chunks, store.verify("s", read_data=True).ok, store.state_at("s")) == (
            1,
            True,
            {"image": noise(3)},
        )
