"""Case 18: a message is delivered again as its executor died; what is done is not done again, the rest once."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.errors import HeldError, InputDiffersError
from perdure.testing.lives import forked

NODES = 5


@pytest.fixture
def done(tmp_path: Path) -> Callable[[], Counter[str]]:
    """How often each node ran."""
    return lambda: Counter((tmp_path / "nodes").read_text().split()) if (tmp_path / "nodes").exists() else Counter()


@pytest.fixture(params=["script", "steps"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[perdure.Session], Any]:
    @perdure.action(effect="repeatable")
    def node(number: int, given: Any) -> list[Any]:
        with (tmp_path / "nodes").open("a") as file:
            file.write(f"{number}\n")
        return [number, given]

    def script(s: perdure.Session) -> Any:
        value = s.input
        for number in range(NODES):
            value = node(number, value)
        return value

    @perdure.steps
    def steps(s: perdure.Session) -> None:
        number = s.state.setdefault("next", 0)
        s.state["value"] = node(number, s.state.get("value", s.input))
        s.state["next"] = number + 1
        if s.state["next"] == NODES:
            s.complete(s.state["value"])

    return script if request.param == "script" else steps


def executor(graph: Callable[[Any], Any], path: Path, *, dies_in: int | None = None, message: str = "m") -> str:
    """A process that takes the message; it may die when it comes to its so-manieth node (from 1). What came of it."""

    def work() -> bytes:
        reached = 0

        def hook(point: str) -> None:
            nonlocal reached
            reached += point == "effect.before"
            if reached == dies_in:
                os.kill(os.getpid(), signal.SIGKILL)

        faults.hook = hook
        outcome = perdure.open(path).run(graph, "message-1", input=message)
        return f"{outcome.status} {outcome.result}".encode()

    return forked(work)[0].decode()


EXPECTED = "completed [4, [3, [2, [1, [0, 'm']]]]]"


@pytest.mark.parametrize("dies_in", range(1, NODES + 1))
def test_delivered_again_it_goes_on(
    dies_in: int, graph: Callable[[Any], Any], done: Callable[[], Counter[str]], tmp_path: Path
) -> None:
    path = tmp_path / "agents.db"
    assert executor(graph, path, dies_in=dies_in) == ""
    assert done() == {str(n): 1 for n in range(dies_in - 1)}
    assert executor(graph, path) == EXPECTED
    assert done() == {str(n): 1 for n in range(NODES)}
    assert executor(graph, path) == EXPECTED, "delivered once more, after it is completed"
    assert done() == {str(n): 1 for n in range(NODES)}


def test_executors_that_die_one_after_another(
    graph: Callable[[Any], Any], done: Callable[[], Counter[str]], tmp_path: Path
) -> None:
    for _ in range(NODES):
        executor(graph, tmp_path / "agents.db", dies_in=2)
    assert executor(graph, tmp_path / "agents.db") == EXPECTED
    assert done() == {str(n): 1 for n in range(NODES)}


def test_delivered_while_it_is_at_work_it_is_refused(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "agents.db") as store:

        def agent(s: perdure.Session) -> str:
            with pytest.raises(HeldError):
                store.run(agent, "message-1", input="m")
            return "once"

        assert store.run(agent, "message-1", input="m").result == "once"


def test_another_message_is_not_taken_for_it(graph: Callable[[Any], Any], tmp_path: Path) -> None:
    executor(graph, tmp_path / "agents.db", dies_in=2)
    with perdure.open(tmp_path / "agents.db") as store, pytest.raises(InputDiffersError):
        store.run(graph, "message-1", input="another")
