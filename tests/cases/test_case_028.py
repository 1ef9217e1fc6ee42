"""Case 28: a loop on a session with 0, 1 or n rounds behind it makes all of its rounds, no more and no fewer."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.errors import SessionUnknownError
from perdure.testing import CrashPoint
from perdure.testing.lives import Trial, forked, live

ROUNDS = 3


def look(number: int) -> int:
    return number * 10


def script(s: perdure.Session) -> list[int]:
    found = s.state["found"] = []
    for number in range(ROUNDS):
        found.append(s.call(look, number))
        s.save()
    return found


@perdure.steps
def steps(s: perdure.Session) -> None:
    found = s.state.setdefault("found", [])
    found.append(s.call(look, len(found)))
    if len(found) == ROUNDS:
        s.complete(found)


def handle(s: perdure.Session) -> list[int]:
    found = s.state.setdefault("found", [])
    while len(found) < ROUNDS:
        found.append(s.call(look, len(found)))
        s.save()
    return list(found)


def nothing_done_yet(path: Path, agent: Callable[[Any], Any]) -> None:
    """The session is there, and that is all: its process died when the opening was written."""

    def work() -> bytes:
        faults.hook = lambda point: os.kill(os.getpid(), signal.SIGKILL) if point == "append.after" else None
        perdure.open(path).run(agent, "s")
        return b""

    forked(work)


@pytest.mark.parametrize("agent", [script, steps], ids=["script", "steps"])
def test_a_session_without_history_makes_all_rounds(agent: Callable[[Any], Any], tmp_path: Path) -> None:
    nothing_done_yet(tmp_path / "agents.db", agent)
    with perdure.open(tmp_path / "agents.db") as store:
        assert [entry.kind for entry in store.log("s")] == ["opened", "owned"]
        assert store.run(agent, "s").result == [0, 10, 20]


@pytest.mark.parametrize("rounds", range(ROUNDS + 1))
@pytest.mark.parametrize(("agent", "form"), [(script, "script"), (steps, "steps"), (handle, "handle")])
def test_killed_after_some_rounds_it_makes_the_others(
    agent: Callable[[Any], Any], form: str, rounds: int, tmp_path: Path
) -> None:
    """Killed when so many rounds are saved: 0 is just after the opening."""
    perdure.open(tmp_path / "empty.db").close()
    trial = Trial(agent, None, form, None, {}, lambda _: perdure.NotDone(), lambda folder: str(folder / "agents.db"))
    life = live(trial, tmp_path, kills=[CrashPoint("append.after", 1 + 3 * rounds)])
    assert life.kills
    assert life.ended.problem == ""
    assert life.ended.actions == {f"look(number={n})": 1 for n in range(ROUNDS)}


def test_a_handle_opened_and_closed_with_nothing_in_it_makes_all_rounds(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "agents.db") as store:
        for _ in range(2):
            with store.session("s"):
                pass
        with store.session("s") as s:
            assert handle(s) == [0, 10, 20]


def test_an_id_that_nothing_was_ever_saved_under_is_no_session(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "agents.db") as store, pytest.raises(SessionUnknownError):
        store.resume("s")
