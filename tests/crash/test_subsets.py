"""Of calls that run side by side any part has ended at a kill: those are answered, the others run.

In threads and in tasks. The process is really killed, once those that are to end have ended and the others have begun.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.log.action import Actions
from perdure.session.rules.ledger import Ledger
from perdure.testing.lives import forked

FULL = os.environ.get("PERDURE_STORM") == "full"
KINDS = {"sqlite": "sqlite:///{}/agents.db", "file": "file:///{}/agents"}
SIZES = (1, 2, 3, 4) if FULL else (2, 4)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def noted(folder: Path, n: int) -> None:
    with (folder / f"ran {n}").open("a") as file:
        file.write("x")


def in_threads(folder: Path, k: int, ended: set[int] | None, effect: Any) -> Callable[[perdure.Session], list[str]]:
    begun, never = threading.Semaphore(0), threading.Event()

    def tool(n: int) -> str:
        noted(folder, n)
        if ended is not None and n not in ended:
            begun.release()
            never.wait()
        return f"done {n}"

    def agent(s: perdure.Session) -> list[str]:
        with s.parallel() as p:
            promises = [p.action(tool, effect=effect, name="tool")(n) for n in range(k)]
            if ended is not None:
                for n in range(k):
                    promises[n].result() if n in ended else begun.acquire()
                die()
        return [promise.result() for promise in promises]

    return agent


def in_tasks(folder: Path, k: int, ended: set[int] | None, effect: Any) -> Callable[[perdure.AsyncSession], Any]:
    async def agent(s: perdure.AsyncSession) -> list[str]:
        begun, never = asyncio.Semaphore(0), asyncio.Event()

        async def tool(n: int) -> str:
            noted(folder, n)
            if ended is not None and n not in ended:
                begun.release()
                await never.wait()
            return f"done {n}"

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(s.action(tool, effect=effect, name="tool")(n)) for n in range(k)]
            if ended is not None:
                for n in range(k):
                    await (tasks[n] if n in ended else begun.acquire())
                die()
        return [task.result() for task in tasks]

    return agent


WAYS: dict[str, Callable[[Path, int, set[int] | None, Any], Callable[[Any], Any]]] = {
    "threads": in_threads,
    "tasks": in_tasks,
}


def check(folder: Path, *, way: str, kind: str, k: int, ended: set[int], effect: str) -> None:
    """Raises unless the run comes to its end with each finished call once."""
    url = KINDS[kind].format(folder)

    def life() -> bytes:
        with perdure.open(url) as store:
            store.run(WAYS[way](folder, k, ended, effect), "s")
        return b""

    told, status = forked(life)
    assert os.WIFSIGNALED(status), told.decode()
    assert os.WTERMSIG(status) == signal.SIGKILL
    with perdure.open(url) as store:
        before = Actions(store.log("s"))
        assert sum(action.outcome is not None for action in before.values()) == len(ended)
        agent = WAYS[way](folder, k, None, effect)
        outcome = store.run(agent, "s")
        settled = set[int]()
        while outcome.status == "waiting":
            for question in outcome.questions:
                store.settle("s", question.seq, "not-done")
                settled.add(question.seq)
            outcome = store.run(agent, "s")
        assert len(settled) == (k - len(ended) if effect == "once" else 0)
        assert outcome.result == [f"done {n}" for n in range(k)]
        assert store.verify("s", read_data=True).ok
    ran = {n: len((folder / f"ran {n}").read_text()) for n in range(k)}
    assert ran == {n: 1 if n in ended else 2 for n in range(k)}


@pytest.mark.storm
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("effect", ["repeatable", "once"])
@pytest.mark.parametrize("k", SIZES)
def test_whatever_part_had_ended_only_the_others_run_again(
    way: str, kind: str, effect: str, k: int, tmp_path: Path
) -> None:
    parts = [set(part) for size in range(k + 1) for part in itertools.combinations(range(k), size)]
    if not FULL and (kind, effect) != ("sqlite", "once"):
        parts = parts[::3]
    for number, ended in enumerate(parts):
        folder = tmp_path / str(number)
        folder.mkdir()
        check(folder, way=way, kind=kind, k=k, ended=ended, effect=effect)


def test_a_build_that_forgets_what_had_ended_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "claim", lambda *_: None)
    monkeypatch.setattr(Ledger, "unclaimed", lambda *_, **__: iter(()))
    with pytest.raises(AssertionError):
        check(tmp_path, way="threads", kind="sqlite", k=3, ended={1}, effect="repeatable")
