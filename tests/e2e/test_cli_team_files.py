"""A team is killed, its file is taken elsewhere, and it goes on from that alone."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.elsewhere import commanded

TEAM = """
import os, pathlib, time
from perdure.team import Action, Role, Team, UserRequirement, agent

HERE = pathlib.Path(__file__).parent

class Noted(Action):
    async def run(self, history):
        with open(HERE / "ran.txt", "a") as file:
            file.write(f"{self.name}\\n")
        if self.name == os.environ.get("DIE"):
            os.kill(os.getpid(), 9)
        if self.name == os.environ.get("FAIL"):
            raise OSError("no network")
        return f"{self.name} of {history[-1].content}"

class Draft(Noted): pass
class Outline(Noted): pass
class Write(Noted): pass

class Collector(Role):
    profile: str = "Collector"
    def __init__(self, **fields):
        super().__init__(**fields)
        self.set_actions([Draft])
        self._watch([UserRequirement])

class Writer(Role):
    profile: str = "Writer"
    def __init__(self, **fields):
        super().__init__(**fields)
        self.set_actions([Outline, Write])
        self._watch([Draft])
        self._set_react_mode("by_order")

@agent
def team():
    return Team(roles=[Collector(), Writer()])
"""


def perdure(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command line in a folder, in a process of its own."""
    return subprocess.CompletedProcess(words, *commanded(*words, folder=folder, **environ))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "crew.py").write_text(TEAM)
    return tmp_path / "home"


@pytest.fixture
def away(tmp_path: Path) -> Path:
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "crew.py").write_text(TEAM)
    return tmp_path / "away"


def ran(folder: Path) -> list[str]:
    return (folder / "ran.txt").read_text().split() if (folder / "ran.txt").exists() else []


def test_killed_exported_and_gone_on_with_elsewhere(home: Path, away: Path) -> None:
    started = perdure(home, "team", "run", "rivers", "--team", "crew.py:team", "--id", "t", DIE="Write")
    assert started.returncode == -signal.SIGKILL, started.stderr
    written = perdure(home, "team", "export", "t", "--to", str(away), "--json")
    assert written.returncode == 0, written.stderr
    assert json.loads(written.stdout)["path"] == str(away / "team.json")
    shutil.rmtree(home)
    went_on = perdure(away, "team", "resume", "--recover-path", ".", "--team", "crew.py:team", "--json")
    assert went_on.returncode == 0, went_on.stderr
    assert "exactly where it was" in went_on.stderr
    assert json.loads(went_on.stdout)["result"] == "Write of Outline of Draft of rivers"
    assert ran(away) == ["Write"]


def test_a_failed_run_leaves_its_file_and_goes_on_by_classes(home: Path, away: Path) -> None:
    failed = perdure(home, "team", "run", "rivers", "--team", "crew.py:team", "--workspace", "w", FAIL="Outline")
    assert failed.returncode != 0
    file = home / "w" / "storage" / "team" / "team.json"
    assert file.exists(), failed.stderr
    unknown = perdure(away, "team", "resume", "--recover-path", str(home / "w"))
    assert unknown.returncode != 0
    assert "--import" in unknown.stderr
    assert not ran(away)
    went_on = perdure(away, "team", "resume", "--recover-path", str(home / "w"), "--import", "crew.py", "--json")
    assert went_on.returncode == 0, went_on.stderr
    assert ran(away) == ["Outline", "Write"]
    again = perdure(away, "team", "resume", "--recover-path", str(home / "w"), "--import", "crew.py")
    assert "in the store already" in again.stderr
    assert ran(away) == ["Outline", "Write"]


def test_what_is_no_team_file_is_refused(away: Path) -> None:
    (away / "team.json").write_text('{"env": {')
    refused = perdure(away, "team", "resume", "--recover-path", ".", "--team", "crew.py:team")
    assert refused.returncode == 26
    assert "team.json" in refused.stderr
    assert not list(away.glob("*.db"))
