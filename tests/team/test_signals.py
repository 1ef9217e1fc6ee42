"""A program that plays a team gets signals from outside, and the next one goes on: it comes to the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import values

ROOT = Path(__file__).parents[2]
FULL = os.environ.get("PERDURE_STORM") == "full"
pytestmark = pytest.mark.timeout(3600 if FULL else 120)
INSTANTS = {"two": 14, "four": 28}
INT, TERM = signal.SIGINT, signal.SIGTERM


def ran(folder: Path, *command: str, team: str, mode: str, at: int = 0, signals: tuple[int, ...] = ()) -> int:
    """The exit status of a command of perdure in this folder."""
    told = {"OUTSIDE": str(folder / "outside.txt"), "TEAM": team, "MODE": mode, "AT": str(at)}
    environment = {**os.environ, **told, "SIGNALS": " ".join(str(int(each)) for each in signals)}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(Path(perdure.__file__).parents[1])])
    program = [sys.executable, "-m", "perdure.cli", *command, "--store", "agents.db"]
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        program, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


def came_to(folder: Path) -> tuple[Any, list[str]]:
    """The state without where it was, and what happened outside but for what may be repeated."""
    with perdure.open(str(folder / "agents.db")) as store:
        state = store.state_at("s")
    state["team"] = {name: value for name, value in state["team"].items() if not name.startswith("workspace")}
    effects = sorted((folder / "outside.txt").read_text().splitlines())
    return values.encode(state), [each for each in effects if each not in ("look", "Count")]


def tried(tmp_path: Path, team: str, mode: str, at: int, signals: tuple[int, ...]) -> None:
    run = ("run", f"{ROOT / 'tests/team/playing.py'}:team", "--session", "s", "--input", '"rivers"')
    unharmed, cut = tmp_path / "unharmed", tmp_path / "cut"
    assert ran(unharmed, *run, team=team, mode=mode) == 0
    assert ran(cut, *run, team=team, mode=mode, at=at, signals=signals) in (130, -signal.SIGKILL)
    assert ran(cut, "resume", "s", team=team, mode=mode) == 0
    assert came_to(cut) == came_to(unharmed)


CASES = [("two", "react", 4, (INT,)), ("two", "by_order", 7, (TERM,)), ("four", "plan_and_act", 9, (INT, TERM))]


@pytest.mark.parametrize(("team", "mode", "at", "signals"), CASES)
def test_a_signal_loses_nothing(tmp_path: Path, team: str, mode: str, at: int, signals: tuple[int, ...]) -> None:
    tried(tmp_path, team, mode, at, signals)


@pytest.mark.skipif(not FULL, reason="long: PERDURE_STORM=full")
@pytest.mark.parametrize("signals", [(INT,), (TERM,), (INT, TERM), (signal.SIGKILL,)])
@pytest.mark.parametrize("mode", ["react", "by_order", "plan_and_act"])
@pytest.mark.parametrize("team", ["two", "four"])
def test_a_signal_at_any_instant_loses_nothing(tmp_path: Path, team: str, mode: str, signals: tuple[int, ...]) -> None:
    for at in range(1, INSTANTS[team] + 1):
        folder = tmp_path / str(at)
        folder.mkdir()
        tried(folder, team, mode, at, signals)
