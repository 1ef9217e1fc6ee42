"""A process that saves the steps of one work with one writer, so many at each of its turns, and tells what each cost.

Only `save` is timed. Messages are made between saves, where an agent waits for its model. A turn ends when the
background work of this process has come to rest, so that it does not fall into the turn of another.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from perdure.testing.bench import fresh
from perdure.testing.bench.plan import disk_bytes
from perdure.testing.bench.workload import Chat, Documents, Trimmed, Work, dumps, messages_from
from perdure.testing.bench.writers import WRITERS, Where

REST_S: Final = 0.005
REST_CPU_S: Final = 0.001
REST_S_MAX: Final = 2.0


def _work(task: dict[str, Any]) -> Work:
    messages = messages_from(task["traces"])
    match task["work"]:
        case "chat":
            return Chat(messages)
        case "trimmed":
            return Trimmed(messages)
        case _:
            return Documents(messages, documents=task["documents"], paragraphs=task["paragraphs"])


class Worker:
    """The work, its writer, and what was saved so far."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._folder = Path(task["folder"])
        self._work = _work(task)
        where = Where(self._folder, task["store"], task["session"], task["table"])
        self._writer = WRITERS[task["writer"]](where, self._work.state)
        self._digested = set(task["digested"])
        self._step = self._delta_bytes = 0
        self._digests: dict[int, str] = {}

    def turn(self, saves: int) -> list[tuple[float, float, float]]:
        """Per save: seconds, CPU seconds of this thread, CPU seconds of the process."""
        samples = [self._save() for _ in range(saves)]
        _rest()
        return samples

    def _save(self) -> tuple[float, float, float]:
        self._step += 1
        delta = self._work.step(self._step)
        self._delta_bytes += len(dumps(delta))
        process, thread, wall = time.process_time(), time.thread_time(), time.perf_counter()
        self._writer.save(delta)
        took = time.perf_counter() - wall, time.thread_time() - thread, time.process_time() - process
        if self._step in self._digested:
            self._digests[self._step] = digest(self._work.state)
        return took

    def close(self) -> dict[str, Any]:
        """What is left on the disk, against what was saved."""
        self._writer.close()
        return {"disk": disk_bytes(self._folder), "deltas": self._delta_bytes, "digests": self._digests}


def digest(state: dict[str, Any]) -> str:
    """Equal for equal states, in type, value and order as far as JSON tells."""
    return hashlib.sha256(dumps(state)).hexdigest()


def _rest() -> None:
    end = time.perf_counter() + REST_S_MAX
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(REST_S)
        if time.process_time() - before < REST_CPU_S:
            return


def main(task: dict[str, Any]) -> None:
    """Takes turns until told to close."""
    worker = Worker(task)
    for line in sys.stdin:
        saves = json.loads(line)
        fresh.tell(worker.turn(saves) if saves else worker.close())


if __name__ == "__main__":
    main(fresh.task())
