"""The service of the documentation: stopped, killed and started again, all that was asked of it is done once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import perdure

PAGE = Path(__file__).resolve().parents[2] / "docs" / "service.md"
DESK = """
import sys
import time
from pathlib import Path

import perdure

NOTES, GO = Path("notes.txt"), Path("go")


def was_noted(job, n):
    there = NOTES.exists() and f"{job} {n}" in NOTES.read_text().splitlines()
    return perdure.Done() if there else perdure.NotDone()


@perdure.action(effect="once", verify=was_noted)
def note(job, n):
    with NOTES.open("a") as file:
        file.write(f"{job} {n}\\n")


@perdure.action(effect="repeatable")
def wait():
    with Path("waits.txt").open("a") as file:
        file.write("x")
    while not (GO.exists() or sys.modules["__main__"].ENDING.is_set()):
        time.sleep(0.01)


@perdure.steps
def worker(s):
    n = s.state["n"] = s.state.get("n", 0) + 1
    note(s.input, n)
    if n == 2:
        wait()
    if n == 4:
        s.complete(n)
"""


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def started(folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PERDURE_STORE": str(folder / "agents.db"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen([sys.executable, "service.py"], cwd=folder, env=environment)


@contextmanager
def serving(folder: Path, *, end: signal.Signals) -> Iterator[None]:
    service = started(folder)
    try:
        yield
    finally:
        service.send_signal(end)
        ended = service.wait(60)
    assert ended == (0 if end == signal.SIGTERM else -end)


def test_it_takes_up_what_a_process_left(tmp_path: Path) -> None:
    code = PAGE.read_text().partition("```python\n")[2].partition("\n```")[0]
    (tmp_path / "service.py").write_text(code)
    (tmp_path / "desk.py").write_text(DESK)
    waits = tmp_path / "waits.txt"

    with perdure.open(str(tmp_path / "agents.db")) as store:

        def stand() -> set[tuple[str, str]]:
            return {(each.status, each.reason) for each in store.sessions()}

        with serving(tmp_path, end=signal.SIGKILL):
            until(lambda: waits.exists() and len(waits.read_text()) == 2, "both have come to their wait")
        assert stand() == {("interrupted", "")}
        with serving(tmp_path, end=signal.SIGTERM):
            until(lambda: len(waits.read_text()) == 4, "the next process has gone on with both")
        assert stand() == {("paused", "deploy")}
        (tmp_path / "go").touch()
        with serving(tmp_path, end=signal.SIGTERM):
            until(lambda: stand() == {("completed", "")}, "the one after it has brought both to their end")
    notes = (tmp_path / "notes.txt").read_text().splitlines()
    assert Counter(notes) == {f"{job} {n}": 1 for job in ("tea", "milk") for n in (1, 2, 3, 4)}
