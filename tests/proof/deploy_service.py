"""A service with many live sessions, in its two versions: the old one is told to end by SIGTERM in mid-work.

    python deploy_service.py KIND VERSION STORE FOLDER COUNT

KIND is threads or loop; `hasty`, with a thread for every fourth session only, is wrong on purpose: it tells its client
that a job is taken before anything is recorded. Its client is the folder: `acks` has the jobs that were said to be
taken, `effects` a line for each effect.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import perdure
from perdure.recovery import SavePolicy

STEPS = 6
MEET = 2
"""The step that nobody passes before all sessions are in the middle of their work."""

KIND, VERSION, URL, FOLDER, COUNT = sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), int(sys.argv[5])
HASTY = KIND == "hasty" and VERSION == "1"
AT_ONCE = COUNT // 4 if HASTY else COUNT

met: Counter[str] = Counter()
all_met = threading.Event()
all_met_in_loop = asyncio.Event()
lock = threading.Lock()


def note(name: str, line: str) -> None:
    """One line, whole or not at all."""
    file = os.open(FOLDER / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\n".encode())
    os.close(file)


@perdure.action(effect="idempotent")
def take(job: str) -> None:
    """The client is told: the session is in the store by now, for its start is."""
    note("acks", job)


@perdure.action(effect="once")
def work(job: str, step: int) -> int:
    note("effects", f"{job} {step} {VERSION}")
    return step


def here(job: str) -> bool:
    """Whether this is the last of all sessions to come to the middle; the parent hears of it."""
    with lock:
        met[job] += 1
        last = len(met) == AT_ONCE and not all_met.is_set()
    if last:
        os.write(1, b"live\n")
        all_met.set()
    return last


def move_on(s: Any) -> None:
    """The state after a step, in the shape of this version."""
    if VERSION == "1":
        s.state["at"] += 1
    else:
        s.state["progress"]["done"] += 1


def place(s: Any) -> int:
    return int(s.state["at"] if VERSION == "1" else s.state["progress"]["done"])


def begin(s: Any) -> None:
    s.state.update({"at": 0} if VERSION == "1" else {"progress": {"done": 0, "migrated": False}})


@perdure.migration("1", "2")
def counted_elsewhere(state: dict[str, Any]) -> None:
    state["progress"] = {"done": state.pop("at"), "migrated": True}


def worker(s: perdure.Session) -> None:
    if not s.state:
        take(s.id)
        begin(s)
        return
    step = place(s)
    if step == STEPS:
        s.complete(step)
        return
    if VERSION == "1" and step == MEET:
        here(s.id)
        all_met.wait()
    work(s.id, step)
    move_on(s)


async def async_worker(s: perdure.AsyncSession) -> None:
    if not s.state:
        await s.call(take, s.id)
        begin(s)
        return
    step = place(s)
    if step == STEPS:
        s.complete(step)
        return
    if VERSION == "1" and step == MEET:
        if here(s.id):
            all_met_in_loop.set()
        await all_met_in_loop.wait()
    await s.call(work, s.id, step)
    move_on(s)


def in_threads(store: perdure.AgentStore, jobs: list[str]) -> None:
    fn = perdure.steps(version=VERSION, saves=SavePolicy(on_signal=True))(worker)
    ending = threading.Event()

    def end(_number: int, _frame: Any) -> None:
        store.stop("SIGTERM")
        ending.set()

    def run(job: str) -> None:
        if not (HASTY and ending.is_set()):  # the hasty one drops what it has not begun
            store.run(fn, job)

    signal.signal(signal.SIGTERM, end)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for job in jobs:
            if HASTY:
                note("acks", job)
        for future in [pool.submit(run, job) for job in jobs]:
            future.result()


def in_loop(store: perdure.AgentStore, jobs: list[str]) -> None:
    fn = perdure.steps(version=VERSION, saves=SavePolicy(on_signal=True))(async_worker)

    async def serve() -> None:
        await asyncio.gather(*(store.arun(fn, job) for job in jobs))

    asyncio.run(serve())


def main() -> None:
    jobs = [f"job-{number}" for number in range(COUNT)]
    with perdure.open(URL) as store:
        if VERSION == "2":  # what is in the store goes on; the client sends again what was not said to be taken
            known = {info.id for info in store.sessions()}
            taken = set((FOLDER / "acks").read_text().split())
            jobs = [job for job in jobs if job in known or job not in taken]
        if KIND == "loop":
            in_loop(store, jobs)
        else:
            in_threads(store, jobs)


if __name__ == "__main__":
    main()
