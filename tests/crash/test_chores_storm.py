"""SIGKILL at random instants of all that is done with a store besides saving: what was acknowledged is there, whole.

Forks, questions and answers, undos, collections, erasures, exports, imports, and new segments of a log.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.runtime.store import AgentStore
from perdure.stores import open_store
from tests.crash import chores

FULL = os.environ.get("PERDURE_STORM") == "full"
KILLS = 150 if FULL else 8
CHILD = Path(__file__).with_name("chores_child.py")
AFTER_S = 0.030
"""A kill comes at a uniform instant in this time after an acknowledgement."""

STORES: dict[str, tuple[str, dict[str, int]]] = {
    "sqlite": ("sqlite:///{}/agents.db", {}),
    "file": ("file:///{}/agents", {"segment_bytes": 3_000}),
}


@dataclass
class Storm:
    """A store whose processes are killed again and again; `newest` has the last acknowledged round of each step."""

    folder: Path
    chance: random.Random
    kind: str
    spoiled: str = ""
    newest: dict[str, int] = field(default_factory=dict)
    after: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.place, self.out = self.folder / "store", self.folder / "out"
        self.place.mkdir(parents=True)
        self.out.mkdir()
        self.url, self.options = STORES[self.kind][0].format(self.place), STORES[self.kind][1]

    def kill_once(self, *, at: str = "") -> None:
        """One process: killed at a random instant after one of its first acknowledgements, or that of a step."""
        told: dict[str, Any] = {"store": self.url, "options": self.options, "out": str(self.out), "done": self.newest}
        told |= {"spoiled": self.spoiled, "folders": [p for p in sys.path if p]}
        command = [sys.executable, "-S", "-E", str(CHILD), json.dumps(told)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            count = chores.STEPS.index(at) + 1 if at else self.chance.randint(1, 2 * len(chores.STEPS))
            lines = [process.stdout.readline() for _ in range(count)]
            if lines[-1]:
                time.sleep(self.chance.uniform(0, AFTER_S))  # the instant is what varies
            process.kill()
            lines += process.stdout.readlines()
            errors = process.stderr.read().decode()
        assert not errors, errors
        steps = [line.decode().split() for line in lines if line.endswith(b"\n")]
        self.newest |= {step: int(number) for step, number in steps}
        self.after[steps[-1][0]] += 1

    def check(self) -> None:
        with AgentStore(open_store(self.url, **self.options)) as store:
            chores.check(store, self.place, self.out, self.newest)


def storm(folder: Path, *, kind: str, kills: int, seed: int, spoiled: str = "") -> Storm:
    """So many kills, with all checked after each. A store is a new one after a while: so its check stays short."""
    chance, after = random.Random(seed), Counter[str]()
    for number in range(kills):
        if number % 15 == 0:
            one = Storm(folder / str(number), chance, kind, spoiled)
        one.kill_once()
        one.check()
        after += one.after
        one.after.clear()
    one.after = after
    return one


@pytest.mark.storm
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", STORES)
def test_nothing_acknowledged_is_lost_in_a_kill_storm(kind: str, tmp_path: Path) -> None:
    one = storm(tmp_path, kind=kind, kills=KILLS, seed=3)
    assert sum(one.after.values()) == KILLS
    assert {*one.newest} == {*chores.STEPS}
    assert len(one.after) == len(chores.STEPS) or not FULL
    if kind == "file":
        assert len(list(one.place.rglob("*.ndjson"))) > 20, "no segment was ever begun anew"


@pytest.mark.storm
@pytest.mark.parametrize("spoiled", chores.SPOILED)
def test_a_store_that_acknowledges_early_is_caught(spoiled: str, tmp_path: Path) -> None:
    one = Storm(tmp_path, random.Random(4), "sqlite", spoiled)
    one.kill_once(at=chores.SPOILED[spoiled][1])
    with pytest.raises((AssertionError, perdure.PerdureError)):
        one.check()
