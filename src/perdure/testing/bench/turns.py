"""Saving measured in turns: all writers do the same work, a few saves at a time, so that noise hits all of them alike.

Each writer has its own process. The order of the turns rotates. Knows nothing of what becomes of the samples.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perdure.testing.bench.fresh import Child, module
from perdure.testing.bench.plan import Plan


@dataclass(slots=True)
class Samples:
    """What the saves of one writer took, in order, in seconds, and what they left on the disk."""

    folder: Path
    wall: list[float] = field(default_factory=list)
    thread: list[float] = field(default_factory=list)
    process: list[float] = field(default_factory=list)
    disk: int = 0
    deltas: int = 0
    digests: dict[int, str] = field(default_factory=dict)

    def add(self, samples: Sequence[tuple[float, float, float]]) -> None:
        """The samples of one turn."""
        for wall, thread, process in samples:
            self.wall.append(wall)
            self.thread.append(thread)
            self.process.append(process)


def p50(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    """The value that one in a hundred exceeds."""
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))]


def take(
    plan: Plan, work: str, *, writers: Sequence[str], saves: int, turn: int, digested: Sequence[int] = ()
) -> dict[str, Samples]:
    """Saves this work's steps with each writer, in turns. The stores are left in the folders that the samples name."""
    found = {writer: Samples(plan.fresh(f"{work}-{writer}")) for writer in writers}
    with contextlib.ExitStack() as stack:
        children = {
            writer: stack.enter_context(Child(*module("worker", _task(plan, work, writer, samples.folder, digested))))
            for writer, samples in found.items()
        }
        for number, begin in enumerate(range(0, saves, turn)):
            for place in range(len(writers)):
                writer = writers[(number + place) % len(writers)]
                found[writer].add(children[writer].ask(min(turn, saves - begin)))
        for writer, samples in found.items():
            closed = children[writer].ask(0)
            samples.disk, samples.deltas = closed["disk"], closed["deltas"]
            samples.digests = {int(k): value for k, value in closed["digests"].items()}
    return found


def _task(plan: Plan, work: str, writer: str, folder: Path, digested: Sequence[int]) -> dict[str, object]:
    return {
        "work": work,
        "writer": writer,
        "folder": str(folder),
        "store": plan.store,
        "table": plan.name,
        "session": plan.session(work, writer),
        "traces": plan.traces,
        "documents": plan.sizes.documents,
        "paragraphs": plan.sizes.paragraphs,
        "digested": list(digested),
    }
