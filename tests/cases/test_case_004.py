"""Case 4: tasks that end at the same moment each record their result; all N are durable and found on resume."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.testing.processes import begun

N, TIMES = 16, 3


def note(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def noting(folder: Path, meet: Callable[[], None]) -> Callable[[int], str]:
    def task(n: int) -> str:
        note(folder / "ran", f"{n}\n")
        meet()
        return f"result {n}"

    return task


def in_threads(s: perdure.Session, folder: Path, *, kill: bool) -> list[str]:
    barrier = threading.Barrier(N if kill else 1)
    with s.parallel() as p:
        promises = [p.action(noting(folder, barrier.wait), name="task")(n) for n in range(N)]
    results = [promise.result() for promise in promises]
    if kill:
        os.kill(os.getpid(), signal.SIGKILL)
    return results


async def in_tasks(s: perdure.AsyncSession, folder: Path, *, kill: bool) -> list[str]:
    waiting: list[asyncio.Future[None]] = []

    async def task(n: int) -> str:
        note(folder / "ran", f"{n}\n")
        waiting.append(asyncio.get_running_loop().create_future())
        if len(waiting) == N:
            for future in waiting:
                future.set_result(None)
        await waiting[-1]
        return f"result {n}"

    results = await asyncio.gather(*(s.action(task, name="task")(n) for n in range(N)))
    if kill:
        os.kill(os.getpid(), signal.SIGKILL)
    return results


def run(folder: Path, way: str, *, kill: bool = False) -> Any:
    async def tasks(s: perdure.AsyncSession) -> list[str]:
        return await in_tasks(s, folder, kill=kill)

    def threads(s: perdure.Session) -> list[str]:
        return in_threads(s, folder, kill=kill)

    with perdure.open(str(folder / "agents.db")) as store:
        return store.run(tasks if way == "tasks" else threads, "s").result


def killed(folder: Path, way: str) -> None:
    run(folder, way, kill=True)


@pytest.mark.parametrize("way", ["threads", "tasks"])
def test_all_results_of_one_moment_are_found(tmp_path: Path, way: str) -> None:
    for turn in range(TIMES):
        folder = tmp_path / str(turn)
        folder.mkdir()
        process = begun(killed, folder, way)
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        assert run(folder, way) == [f"result {n}" for n in range(N)]
        assert sorted((folder / "ran").read_text().split()) == sorted(str(n) for n in range(N))
