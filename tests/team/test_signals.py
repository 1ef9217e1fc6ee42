"""A program that plays a team gets signals from outside, and the next one goes on: it comes to the same."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import values
from perdure.log.action import Action, Actions

ROOT = Path(__file__).parents[2]
FULL = os.environ.get("PERDURE_STORM") == "full"
pytestmark = pytest.mark.timeout(3600 if FULL else 120)
INSTANTS_MIN = {"two": 13, "four": 24}
INT, TERM = signal.SIGINT, signal.SIGTERM
AT_ONCE = [(INT, TERM), (signal.SIGKILL,)]
"""Signals that end the program where it is; after any other its actions come to their end."""
AGAIN = ("look", "Count")
"""Effects that may be repeated."""

WAITS = 75


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
    return values.encode(state), [each for each in effects if each not in AGAIN]


RUN = ("run", f"{ROOT / 'tests/team/playing.py'}:team", "--session", "s", "--input", '"rivers"')


def unharmed(folder: Path, *, team: str, mode: str) -> tuple[Any, list[str]]:
    assert ran(folder, *RUN, team=team, mode=mode) == 0
    return came_to(folder)


def tried(cut: Path, whole: tuple[Any, list[str]], *, team: str, mode: str, at: int, signals: tuple[int, ...]) -> bool:
    """Whether the program came so far that it got the signals; then the next one came to the same."""
    ended = ran(cut, *RUN, team=team, mode=mode, at=at, signals=signals)
    if not ended:
        assert came_to(cut) == whole
        return False
    assert ended in (130, -signal.SIGKILL)
    went_on = ran(cut, "resume", "s", team=team, mode=mode)
    if went_on == WAITS and signals in AT_ONCE:
        look_and_settle(cut)
        went_on = ran(cut, "resume", "s", team=team, mode=mode)
    assert went_on == 0
    assert came_to(cut) == whole
    return True


def look_and_settle(folder: Path) -> None:
    """What a person does about what was cut off and may be done once: it may have happened, beside what others did."""
    happened = (folder / "outside.txt").read_text().splitlines()
    with perdure.open(str(folder / "agents.db")) as store:
        once = [action for action in Actions(store.log("s")).values() if action.effect == "once"]
        known = Counter(effect_of(action)[0] for action in once if action.known)
        assert known.total() < len(once)
        for action in once:
            if action.known is None:
                line, returned = effect_of(action)
                seen = [each.removeprefix(line) for each in happened if each.startswith(line)][known[line] :]
                how, result = ("done", returned(seen[0])) if seen else ("not-done", None)
                store.settle("s", action.seq, how, result=result)


def effect_of(action: Action) -> tuple[str, Callable[[str], str]]:
    """How the line of its effect begins, and what it returned, by the rest of that line."""
    given = {name: values.decode(data) for name, data in action.args.items()}
    match action.name:
        case "reply":
            return f"asked-{given['asked']}", lambda _: str(given["said"])
        case "mail":
            return f"mail {json.dumps(given['text'])}", lambda _: f"mailed {given['text']}"
    return f"{action.name} ", lambda rest: f"built from {json.loads(rest)}"


CASES = [("two", "react", 4, (INT,)), ("two", "by_order", 7, (TERM,)), ("four", "plan_and_act", 9, (INT, TERM))]


@pytest.mark.parametrize(("team", "mode", "at", "signals"), CASES)
def test_a_signal_loses_nothing(tmp_path: Path, team: str, mode: str, at: int, signals: tuple[int, ...]) -> None:
    whole = unharmed(tmp_path / "unharmed", team=team, mode=mode)
    assert tried(tmp_path / "cut", whole, team=team, mode=mode, at=at, signals=signals)


@pytest.mark.skipif(not FULL, reason="long: PERDURE_STORM=full")
@pytest.mark.parametrize("signals", [(INT,), (TERM,), (INT, TERM), (signal.SIGKILL,)])
@pytest.mark.parametrize("mode", ["react", "by_order", "plan_and_act"])
@pytest.mark.parametrize("team", ["two", "four"])
def test_a_signal_at_any_instant_loses_nothing(tmp_path: Path, team: str, mode: str, signals: tuple[int, ...]) -> None:
    whole = unharmed(tmp_path / "unharmed", team=team, mode=mode)
    got = itertools.takewhile(
        lambda at: tried(tmp_path / str(at), whole, team=team, mode=mode, at=at, signals=signals), itertools.count(1)
    )
    assert len([*got]) >= INSTANTS_MIN[team]
