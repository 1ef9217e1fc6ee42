"""`migrate` and `state --set` at the command line: told first, done when asked, with the shape and status promised."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

import perdure
from perdure.session.keeping import migration as graph
from tests.e2e.test_cli_commands import names, promised
from tests.e2e.test_cli_keeping import run

AGENT = """
import perdure

@perdure.steps(version="{version}")
def worker(s):
    if not s.state:
        s.state["todo"] = ["a", "b"]
    else:
        s.complete([s.ask("Go on?"), dict(s.state)])
"""
STEPS = """
@perdure.migration("1.0.0", "1.1.0")
def named(state):
    state["todo"] = [{"name": job} for job in state["todo"]]
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with a store of two sessions, and the code of the next version."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(graph, "_steps", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    Path("old.py").write_text(AGENT.format(version="1.0.0"))
    for session in ("a", "b"):
        assert run(capsys, "run", "old.py:worker", "--session", session)[0] == 75
    del sys.modules["perdure_entry_old"]  # as a new process would begin
    Path("old.py").write_text(AGENT.format(version="1.1.0") + STEPS)
    Path("new.py").write_text(AGENT.format(version="1.1.0") + STEPS)


def test_it_tells_first_and_does_it_when_told(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("migrate", "new.py:worker", "--to", "1.1.0", "--session", "a")
    status, out, _ = run(capsys, *words, "--dry-run")
    assert (status, out) == (0, "a: 1.0.0 -> 1.1.0; splice $.todo\n1 would be migrated\n")
    dry = json.loads(run(capsys, *words, "--dry-run", "--json")[1])
    assert dry["dry_run"]
    done = json.loads(run(capsys, *words, "--json")[1])
    assert done == dry | {"dry_run": False}
    assert names(done) == names(promised("migrate"))
    assert run(capsys, *words)[1] == "0 migrated, 1 need nothing\n"
    assert "1.1.0" in run(capsys, "show", "a")[1]
    assert run(capsys, "answer", "a", "4", "yes")[0] == 0
    status, out, _ = run(capsys, "run", "new.py:worker", "--session", "a")
    assert (status, json.loads(out)) == (0, ["yes", {"todo": [{"name": "a"}, {"name": "b"}]}])


def test_what_fails_and_what_is_held_is_told_and_has_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "migrate", "new.py:worker", "--to", "7", "--prefix", "b")
    assert (status, out) == (0, "0 migrated, 1 of other functions\n")
    status, out, _ = run(capsys, "migrate", "new.py:worker", "--to", "7", "--session", "b")
    assert status == 55
    assert out.startswith("b: failed: the state is of version 1.0.0, the code of version 7, and no steps lead")
    assert "1.0.0 to 1.1.0" in out
    with perdure.open("perdure.db") as store, store.session("h"):
        status, out, _ = run(capsys, "migrate", "new.py:worker", "--to", "1.1.0", "--prefix", "h")
    assert (status, out.splitlines()[-1]) == (35, "0 migrated, 1 held")


def test_a_signal_ends_it_after_the_session_that_it_is_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def reach(point: str) -> None:
        if point == "migrate.after":
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("perdure.faults.hook", reach)
    status, out, err = run(capsys, "migrate", "--to", "1.1.0")
    assert (status, out.splitlines()[-1]) == (130, "stopped: 1 migrated")
    assert "SIGINT: stopping after this session" in err
    monkeypatch.setattr("perdure.faults.hook", None)
    assert run(capsys, "migrate", "--to", "1.1.0")[1].splitlines()[-1] == "1 migrated, 1 need nothing"


def test_a_step_that_fails_shows_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = STEPS.replace('state["todo"] = [', 'state["nope"] = state["no"] + [')
    Path("new.py").write_text(AGENT.format(version="1.1.0") + wrong)
    status, _, err = run(capsys, "run", "new.py:worker", "--session", "a")
    assert status == 55
    assert "the step from 1.0.0 to 1.1.0 (new:named) failed: KeyError: 'no'" in err
    assert 'state["nope"] = state["no"] + ' in err


def test_a_state_is_changed_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "state", "a", "--set", 'todo[1]="c"', "--set", 'more={"x": 1}', "--reason", "asked")
    assert (status, "a goes on from #6" in out) == (0, True)
    done = json.loads(run(capsys, "state", "a", "--unset", "more.x", "--json")[1])
    assert done == {"session": "a", "edited": 7, "resume": "perdure resume a"}
    assert json.loads(run(capsys, "state", "a", "--json")[1])["state"] == {"todo": ["a", "c"], "more": {}}
    assert "edited by" in run(capsys, "log", "a")[1]
    assert run(capsys, "state", "a", "--set", "todo[9]=1")[0] == 63
    assert run(capsys, "state", "a", "--set", "todo")[0] == 2
    assert run(capsys, "state", "a", "--set", "todo=x")[0] == 2
    assert run(capsys, "state", "a", "--set", "todo=1", "--at", "3")[0] == 2
    assert run(capsys, "verify")[0] == 0
