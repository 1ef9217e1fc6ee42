"""The command line as a person uses it: real processes that are killed, stopped by signals, and go on."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.elsewhere import commanded

pytestmark = pytest.mark.timeout(60)

AGENT = '''
import os, signal
from pathlib import Path

import perdure

HERE = Path(__file__).parent


def note(text):
    with (HERE / "effects").open("a") as file:
        file.write(text + "\\n")


@perdure.action(effect="repeatable")
def gate(number):
    """Says that it is there, then waits to be let through."""
    note(f"gate {number}")
    if (HERE / "closed").exists():
        (HERE / "arrived").write_text(str(number))
        (HERE / "go").read_text()
    return number


@perdure.action(effect="once")
def pay(amount):
    note(f"pay {amount}")
    if (HERE / "kill").exists():
        (HERE / "kill").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return "receipt"


def gated(s):
    print("the agent speaks")
    s.state["passed"] = []
    for number in range(3):
        s.state["passed"].append(gate(number))
        s.save()
    return s.state["passed"]


def paying(s):
    return {"paid": s.input, "receipt": pay(s.input)}
'''


class Folder:
    """A folder with an agent and a store in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "agent.py").write_text(AGENT)
        os.mkfifo(path / "arrived")
        os.mkfifo(path / "go")

    def start(self, *words: str, **options: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "perdure.cli", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        return subprocess.Popen(command, cwd=self.path, **pipes)  # type: ignore[call-overload, no-any-return]

    def run(self, *words: str) -> tuple[int, str, str]:
        """(exit status, stdout, stderr)."""
        return commanded(*words, folder=self.path)

    def close(self) -> None:
        """From now on an agent at a gate says so and waits."""
        (self.path / "closed").touch()

    def arrival(self, process: subprocess.Popen[str]) -> bytes:
        """Waits until the agent is at a gate. Its number; nothing if the process ended before that."""
        arrived, ended = os.open(self.path / "arrived", os.O_RDONLY | os.O_NONBLOCK), os.pidfd_open(process.pid)
        try:
            ready, _, _ = select.select([arrived, ended], [], [])
            return os.read(arrived, 10) if arrived in ready else b""
        finally:
            os.close(arrived)
            os.close(ended)

    def let_through(self) -> None:
        """Lets the agent at the gate go on; no further gate is closed."""
        (self.path / "closed").unlink()
        (self.path / "go").write_text("go")

    @property
    def effects(self) -> list[str]:
        return (self.path / "effects").read_text().splitlines()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    return Folder(tmp_path)


@pytest.fixture
def at_gate(folder: Folder) -> Iterator[tuple[Folder, subprocess.Popen[str]]]:
    """A run that has come to its first gate, and waits there."""
    folder.close()
    with folder.start("run", "agent.py:gated", "--session", "g") as process:
        try:
            assert folder.arrival(process) == b"0"
            yield folder, process
        finally:
            process.kill()


def heard(process: subprocess.Popen[str]) -> str:
    """Waits until the command says that it heard a signal."""
    assert process.stderr is not None
    return process.stderr.readline()


def test_killed_in_an_action_it_goes_on(at_gate: tuple[Folder, subprocess.Popen[str]]) -> None:
    folder, process = at_gate
    process.kill()
    assert process.wait() == -signal.SIGKILL
    (folder.path / "closed").unlink()
    status, out, _ = folder.run("resume", "g")
    assert (status, out) == (0, "the agent speaks\n[\n  0,\n  1,\n  2\n]\n")
    assert folder.effects == ["gate 0", "gate 0", "gate 1", "gate 2"]


def test_a_held_session_is_refused_and_can_be_looked_at(at_gate: tuple[Folder, subprocess.Popen[str]]) -> None:
    folder, process = at_gate
    status, out, _ = folder.run("resume", "g", "--json")
    assert status == 35
    assert json.loads(out)["error"]["code"] == "held"
    _, out, _ = folder.run("ls", "--json")
    (info,) = json.loads(out)["sessions"]
    assert (info["status"], info["owner"].split(" on ")[0]) == ("running", f"pid {process.pid}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_at_the_next_action(
    at_gate: tuple[Folder, subprocess.Popen[str]], number: signal.Signals
) -> None:
    folder, process = at_gate
    process.send_signal(number)
    assert heard(process).startswith(f"{number.name}: stopping at the next action or save")
    folder.let_through()
    _, err = process.communicate()
    assert process.returncode == 130
    assert err == f"paused ({number.name}); nothing is lost. To go on: perdure resume g\n"
    assert folder.effects == ["gate 0"]
    assert folder.run("resume", "g")[0] == 0
    assert folder.effects == ["gate 0", "gate 1", "gate 2"]


def test_a_second_signal_ends_it_at_once(at_gate: tuple[Folder, subprocess.Popen[str]]) -> None:
    folder, process = at_gate
    process.send_signal(signal.SIGINT)
    heard(process)
    process.send_signal(signal.SIGTERM)  # another one: two of a kind may arrive as one
    _, err = process.communicate()
    assert process.returncode == 130
    assert err.startswith("interrupted (ended at once by a signal)")
    assert "Traceback" not in err
    (folder.path / "closed").unlink()
    assert folder.run("resume", "g")[0] == 0
    assert folder.effects == ["gate 0", "gate 0", "gate 1", "gate 2"]


def test_one_in_doubt_is_asked_about_and_settled_by_the_command_it_prints(folder: Folder) -> None:
    (folder.path / "kill").touch()
    store = "sqlite:///pay.db"
    first = folder.run("run", "agent.py:paying", "-s", "my pay", "--input", "5", "--store", store)
    assert first[0] == -signal.SIGKILL
    status, out, _ = folder.run("resume", "my pay", "--store", store, "--json")
    assert status == 75
    (question,) = json.loads(out)["questions"]
    assert question["commands"][0] == f"perdure settle 'my pay' 3 done --result JSON --store {store}"
    settle = ["settle", "my pay", "3", "done", "--result-text", "by hand", "--by", "ann", "--store", store]
    assert folder.run(*settle)[:2] == (0, f"recorded. To go on: perdure resume 'my pay' --store {store}\n")
    status, out, _ = folder.run("resume", "my pay", "--store", store)
    assert (status, json.loads(out)) == (0, {"paid": 5, "receipt": "by hand"})
    assert folder.effects == ["pay 5"]


def test_on_a_terminal_it_tells_how_it_goes(folder: Folder) -> None:
    main, terminal = pty.openpty()
    try:
        with folder.start("run", "agent.py:gated", "-s", "g", "--json", stderr=terminal) as process:
            out, _ = process.communicate()
        told = os.read(main, 1 << 16).decode()
    finally:
        os.close(terminal)
        os.close(main)
    assert json.loads(out)["result"] == [0, 1, 2]
    assert "the agent speaks" in told
    assert "g: completed, 3 actions, " in told
