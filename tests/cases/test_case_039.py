"""Case 39: calls that are open at the kill, first, in the middle or last, one of three or all; each is repaired."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.testing.lives import forked

CALLS = 3
OPEN = [set(some) for n in (1, 3) for some in itertools.combinations(range(CALLS), n)]


def message(s: perdure.Session, folder: Path, *, dying: set[int]) -> list[str]:
    """Makes the calls of one message of a model; those that die take the process with them once all have begun."""

    def tool(n: int) -> str:
        with (folder / f"ran {n}").open("a") as file:
            file.write("x")
        if n in dying:
            (folder / f"dying {n}").touch()
            while len(list(folder.glob("dying *"))) < len(dying) or any(
                not (folder / f"ended {other}").exists() for other in set(range(CALLS)) - dying
            ):
                os.sched_yield()
            os.kill(os.getpid(), signal.SIGKILL)
        return f"tool {n}"

    s.state["messages"] = [{"role": "assistant", "tool_calls": [*range(CALLS)]}]
    with s.parallel() as p:
        promises = [p.action(tool, effect="repeatable", name="tool")(n) for n in range(CALLS)]
        for n in set(range(CALLS)) - dying:
            promises[n].result()
            (folder / f"ended {n}").touch()
    s.state["messages"] += [{"role": "tool", "id": n, "content": promises[n].result()} for n in range(CALLS)]
    return [part["content"] for part in s.state["messages"][1:]]


def run(folder: Path, *, dying: set[int]) -> Any:
    with perdure.open(str(folder / "agents.db")) as store:
        return store.run(lambda s: message(s, folder, dying=dying), "s").result


@pytest.mark.parametrize("dying", OPEN, ids=str)
def test_an_open_call_is_made_good_wherever_it_stands(tmp_path: Path, dying: set[int]) -> None:
    _, status = forked(lambda: bytes(run(tmp_path, dying=dying) is None))
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert run(tmp_path, dying=set()) == [f"tool {n}" for n in range(CALLS)]
    ran = {n: len((tmp_path / f"ran {n}").read_text()) for n in range(CALLS)}
    assert ran == {n: 2 if n in dying else 1 for n in range(CALLS)}
