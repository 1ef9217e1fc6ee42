"""SIGKILL at random instants: what was acknowledged is there, the next process goes on, nothing happens twice."""

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
from perdure import values
from perdure.log.action import Actions
from tests.crash.storm_child import payload, size_of

FULL = os.environ.get("PERDURE_STORM") == "full"
KILLS = 300 if FULL else 25
A_SESSION = 15
"""Kills of one session, then another begins: reading it whole each time stays short."""
CHILD = Path(__file__).with_name("storm_child.py")
AFTER_S = 0.030
"""A kill comes at a uniform instant in this time after an acknowledgement."""


@dataclass
class Storm:
    """One session that is killed again and again. `saved` and `finished` are what its processes acknowledged."""

    folder: Path
    chance: random.Random
    wrap: str = ""
    url: str = "{}/agents.db"
    saved: int = -1
    finished: set[tuple[str, int]] = field(default_factory=set)
    opened: list[int] = field(default_factory=list)

    @property
    def store(self) -> str:
        return self.url.format(self.folder)

    def kill_once(self) -> None:
        """One process: killed at a random instant after a random one of its first acknowledgements."""
        told = {"store": self.store, "world": str(self.folder / "world"), "session": "s", "wrap": self.wrap}
        command = [sys.executable, "-S", "-E", str(CHILD), json.dumps({**told, "folders": [p for p in sys.path if p]})]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            lines = [process.stdout.readline() for _ in range(self.chance.randint(1, 14))]
            if lines[-1]:
                time.sleep(self.chance.uniform(0, AFTER_S))  # the instant is what varies
            process.kill()
            lines += process.stdout.readlines()
            errors = process.stderr.read().decode()
        assert not errors, errors
        for line in lines:
            self._note(line.decode().split())

    def _note(self, words: list[str]) -> None:
        match words:
            case ["opened", rounds]:
                self.opened.append(int(rounds))
            case ["saved", number]:
                self.saved = int(number)
            case ["finished", name, number]:
                self.finished.add((name, int(number)))

    def check(self) -> int:
        """Raises unless all that was acknowledged is there, whole, and happened as it must. The rounds saved."""
        with perdure.open(self.store) as store:
            log = list(store.log("s"))  # every digest of the chain is checked
            state = store.state_at("s")
        rounds = state.get("rounds", [])
        assert len(rounds) > self.saved, f"save {self.saved} was acknowledged and is lost"
        assert [number for number, _, _ in rounds] == list(range(len(rounds)))
        assert [size for _, size, _ in rounds] == [size_of(number) for number in range(len(rounds))]
        assert not rounds or state["payload"] == payload(len(rounds) - 1)
        self._check_actions(Actions(log), rounds)
        return len(rounds)

    def _check_actions(self, actions: Actions, rounds: list[Any]) -> None:
        ended = (a for a in actions.values() if a.outcome is not None and a.outcome.how == "result")
        done = {(a.name, argument(a, "number")) for a in ended}
        assert self.finished <= done, f"acknowledged as finished, and lost: {self.finished - done}"
        looked = {argument(a, "number"): argument(a, "chance") for a in actions.values() if a.name == "look"}
        for number, _, chance in rounds:
            assert looked[number] == chance, f"round {number} was answered with another random number"
        again = Counter((a.name, argument(a, "number")) for a in actions.values())
        assert max(again.values(), default=1) == 1
        for name, number in done:
            happened = len(list((self.folder / "world" / str(number)).glob(f"{name} *")))
            assert happened == 1, f"{name}({number}) is finished and happened {happened} times"


def argument(action: Any, name: str) -> Any:
    return values.decode(action.args[name])


def storm(folder: Path, *, kills: int, seed: int, wrap: str = "", url: str = "{}/agents.db") -> Storm:
    """So many kills, with all checked after each."""
    (folder / "world").mkdir(parents=True)
    one = Storm(folder, random.Random(seed), wrap, url)
    saved = 0
    for _ in range(kills):
        one.kill_once()
        now = one.check()
        assert now >= saved, "saves have gone"
        assert all(rounds >= before for before, rounds in zip(one.opened, one.opened[1:], strict=False))
        saved = now
    return one


@pytest.mark.storm
@pytest.mark.parametrize("first", range(0, KILLS, A_SESSION))
def test_nothing_acknowledged_is_lost_in_a_kill_storm(first: int, tmp_path: Path) -> None:
    kills = min(A_SESSION, KILLS - first)
    one = storm(tmp_path / "right", kills=kills, seed=first)
    assert len(one.opened) == kills
    assert one.check() > 0
    assert one.finished


@pytest.mark.storm
def test_nor_is_anything_in_a_store_of_files(tmp_path: Path) -> None:
    kills = 100 if FULL else 10
    one = storm(tmp_path / "files", kills=kills, seed=7, url="file:{}/agents")
    assert len(one.opened) == kills
    assert one.finished


@pytest.mark.storm
def test_a_store_that_acknowledges_before_it_commits_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"acknowledged|is finished and happened"):
        storm(tmp_path / "wrong", kills=100, seed=1, wrap="AcknowledgesEarly")  # it ends with the first that shows it


def test_the_storm_can_be_trusted_with_a_store_that_hands_on(tmp_path: Path) -> None:
    assert len(storm(tmp_path / "right", kills=2, seed=2, wrap="Passing").opened) == 2
