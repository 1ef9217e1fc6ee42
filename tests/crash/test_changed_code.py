"""The code changes between crash and resume: it goes on right, or stops before any effect with both calls shown."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.errors import DivergedError
from perdure.log.action import Actions
from perdure.log.branch import branch
from perdure.testing.lives import CrashPoint, forked, points_of
from tests.crash import outside
from tests.crash.agents import look, pay, send

NAMES = {"perdure": perdure, "look": look, "send": send, "pay": pay}


def code(text: str, *, steps: bool = False) -> Callable[[Any], Any]:
    """A version of an agent: another text is other code."""
    body = "\n".join(f"    {line}" for line in text.strip("\n").splitlines())
    found: dict[str, Any] = dict(NAMES)
    exec(compile(f"def agent(s):\n{body}\n", "<version>", "exec"), found)  # noqa: S102 - code is what varies here
    agent: Callable[[Any], Any] = found["agent"]
    return perdure.steps(agent) if steps else agent


def crashed(path: Path, agent: Callable[[Any], Any], at: CrashPoint | None) -> list[str]:
    """Runs it in a process that is killed at this point; the points that it came to."""

    def work() -> bytes:
        reached: list[str] = []

        def hook(point: str) -> None:
            reached.append(point)
            if at is not None and (point, reached.count(point)) == (at.name, at.hit):
                os.kill(os.getpid(), signal.SIGKILL)

        faults.hook = hook
        perdure.open(path).run(agent, "s")
        return "\n".join(reached).encode()

    return forked(work)[0].decode().split("\n")


V1 = """
found = look("a")
s.state["found"] = found
s.save()
send("first")
return send("second")
"""
KILLED = CrashPoint("append.after", 5)
"""The first mail is sent and recorded, the second is not begun."""

GOES_ON = {
    "unchanged": V1,
    "other values, same calls": V1.replace('["found"] = found', '["kept"] = [found, 1]'),
    "a call added at the end": V1.replace("return send", "return look('more')[0] + send"),
    "independent calls in another order": """
send("first")
s.state["found"] = look("a")
s.save()
return send("second")
""",
    "a save removed": V1.replace("s.save()\n", ""),
    "a checkpoint added": V1.replace("return", "s.checkpoint('now')\nreturn"),
    "the last call changed": V1.replace("second", "third"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.mark.parametrize("version", GOES_ON)
def test_it_goes_on(version: str, path: Path) -> None:
    crashed(path, code(V1), KILLED)
    assert outside.effects() == {"look": 1, "send": 1}
    with perdure.open(path) as store:
        outcome = store.run(code(GOES_ON[version]), "s")
        assert outcome.status == "completed", outcome.reason
        assert outcome.result.endswith(("sent second", "sent third"))
        assert outside.effects()["send"] == 2
        assert "kept" in GOES_ON[version] or store.state_at("s") == {"found": ["found", "a"]}


STOPS = {
    "a call added before": (V1.replace("send(", "look('new'); send(", 1), "look(query='new')", "send(text='first')"),
    "a `once` added before": ("pay(5)\n" + V1, "pay(amount=5)", "look(query='a')"),
    "an argument changed": (V1.replace("first", "1st"), "send(text='1st')", "send(text='first')"),
    "a call removed": (V1.replace('send("first")', ""), "send(text='second')", "send(text='first')"),
    "all calls removed": ("return 7", "the return", "look(query='a')"),
    "another tool": (V1.replace('send("first")', "pay(1)"), "pay(amount=1)", "send(text='first')"),
}


@pytest.mark.parametrize("version", STOPS)
@pytest.mark.parametrize("accept_change", [False, True])
def test_it_stops_before_the_effect_and_shows_both_calls(version: str, path: Path, *, accept_change: bool) -> None:
    crashed(path, code(V1), KILLED)
    text, live, recorded = STOPS[version]
    before = outside.effects()
    with perdure.open(path) as store:
        outcome = store.run(code(text), "s", accept_change=accept_change)
        if accept_change and version == "a call added before":
            assert outcome.status == "completed"
            assert outside.effects() == {"look": 2, "send": 2}
            return
        assert isinstance(outcome.error, DivergedError)
        if not accept_change:
            assert live in str(outcome.error)
            assert recorded in str(outcome.error)
        assert outside.effects() == before
        assert store.info("s").status == "failed"
        assert "diverged" in store.info("s").reason
        back = store.run(code(V1), "s")
    assert (back.status, back.result) == ("completed", "sent second"), "the old code cannot go on any more"
    assert outside.effects() == {"look": 1, "send": 2}


def test_the_argument_that_differs_is_named(path: Path) -> None:
    crashed(path, code(V1), KILLED)
    with perdure.open(path) as store:
        error = store.run(code(V1.replace("first", "1st")), "s").error
    assert "text differs" in str(error)


def test_a_repeatable_call_removed_is_left_behind_when_the_change_is_accepted(path: Path) -> None:
    crashed(path, code(V1), KILLED)
    removed = V1.replace('look("a")', "0")
    with perdure.open(path) as store:
        assert isinstance(store.run(code(removed), "s").error, DivergedError)
        outcome = store.run(code(removed), "s", accept_change=True)
        assert (outcome.status, outcome.result) == ("completed", "sent second")
        assert [e["accept_change"] for e in store.log("s") if e.kind == "owned"] == [False, False, True]
        assert store.state_at("s") == {"found": 0}
    assert outside.effects() == {"look": 1, "send": 2}


def test_a_once_in_doubt_that_was_removed_is_settled_as_abandoned(path: Path) -> None:
    crashed(path, code(V1), CrashPoint("effect.after", 2))
    removed = V1.replace('send("first")', "")
    with perdure.open(path) as store:
        assert isinstance(store.run(code(removed), "s", accept_change=True).error, DivergedError)
        (doubt,) = (a.seq for a in Actions(store.log("s")).values() if a.outcome is None)
        store.settle("s", doubt, "abandoned")
        assert store.run(code(removed), "s").result == "sent second"
    assert outside.effects() == {"look": 1, "send": 2}


def test_the_bug_is_fixed_and_the_run_goes_on(path: Path) -> None:
    """Crash, fix the bug, resume: nothing is done twice."""
    buggy = V1.replace('return send("second")', 'return send("second"[9])')
    with perdure.open(path) as store:
        failed = store.run(code(buggy), "s")
        assert (failed.status, type(failed.error)) == ("failed", IndexError)
        assert store.run(code(V1), "s").result == "sent second"
    assert outside.effects() == {"look": 1, "send": 2}


def test_a_tool_that_failed_is_called_again_with_a_better_argument(path: Path) -> None:
    """Its error ended the run, so nothing that came of it is in the way of the new call."""

    @perdure.action(effect="repeatable")
    def divide(by: int) -> int:
        return 6 // by

    def buggy(s: perdure.Session) -> int:
        send("x")
        return divide(0)

    def fixed(s: perdure.Session) -> int:
        send("x")
        return divide(3)

    with perdure.open(path) as store:
        assert isinstance(store.run(buggy, "s").error, ZeroDivisionError)
        outcome = store.run(fixed, "s", accept_change=True)
        assert (outcome.status, outcome.result) == ("completed", 2)
    assert outside.effects() == {"send": 1}


def test_unchanged_code_with_another_state_is_told(path: Path) -> None:
    varying = 'import os\ns.state["pid"] = os.getpid()\ns.save()\nreturn send("x")'
    crashed(path, code(varying), CrashPoint("append.after", 3))
    with perdure.open(path) as store:
        outcome = store.run(code(varying), "s")
    assert isinstance(outcome.error, DivergedError)
    assert "'pid' differs" in str(outcome.error) or "pid differs" in str(outcome.error)


def test_steps_may_change_between_two_of_them(path: Path) -> None:
    """Only what the unfinished step has recorded binds the new code."""
    v1 = """
n = s.state.setdefault("n", 0)
send(n)
s.state["n"] = n + 1
if n == 2: s.complete("old")
"""
    v2 = """
n = s.state.setdefault("n", 0)
look("new")
send(["new", n])
s.state["n"] = n + 1
if n == 2: s.complete("new")
"""
    crashed(path, code(v1, steps=True), CrashPoint("append.after", 4))
    with perdure.open(path) as store:
        assert store.run(code(v2, steps=True), "s").result == "new"
    assert outside.effects() == {"send": 3, "look": 2}


VERSIONS = [*GOES_ON.values(), *(text for text, _, _ in STOPS.values())]


def test_whatever_the_instant_and_the_change_nothing_finished_happens_again(tmp_path: Path) -> None:
    """Crash points and other versions by turns: completed with each effect once, or stopped."""
    points = points_of(crashed(tmp_path / "unharmed.db", code(V1), None), None)
    assert len(points) > 20
    for i, point in enumerate(points[::2]):
        version = VERSIONS[i % len(VERSIONS)]
        outside.clear()
        path = tmp_path / f"{i}.db"
        crashed(path, code(V1), point)
        with perdure.open(path) as store:
            outcome = store.run(code(version), "s")
            if outcome.status == "waiting":
                continue  # in doubt: a person is asked before anything else happens
            assert outcome.status == "completed" or isinstance(outcome.error, DivergedError), outcome
            mine = Actions(branch(store.log("s")))
            sends = [a for a in mine.values() if a.name == "send"]
            finished = [a for a in sends if a.outcome is not None]
            happened = outside.effects()["send"]
            assert len(finished) <= happened <= len(sends), f"killed at {point}, went on with:{version}"
            assert all(a.attempts == 1 for a in sends)
