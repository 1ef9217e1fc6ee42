"""What a finished stage holds: read from its store, its book and its reports. And whether each promise was kept."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import perdure
from perdure import values
from perdure.demo.stage import SESSION
from perdure.demo.tally import Tally, tally

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.demo.stage import Stage

FLUSHES = 50
"""Appends by which the disk is measured."""

FLUSH_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Findings:
    """What is left of one run. `state` is the final state, encoded."""

    tally: Tally
    status: str
    result: Any
    state: bytes
    reports: dict[str, str]

    @property
    def outcome(self) -> tuple[Any, ...]:
        """All that must not depend on whether somebody killed the agent."""
        return self.status, self.result, self.state, self.reports, self.tally.tools


def found_on(stage: Stage) -> Findings:
    """Reads a stage. The log is verified on the way: raises `DamageError`."""
    with perdure.open(str(stage.store)) as store:
        counted = tally(list(store.log(SESSION)), stage.lines())
        outcome = store.resume(SESSION)
        state = values.encode(store.state_at(SESSION))
    return Findings(counted, outcome.status, outcome.result, state, stage.reports())


@dataclass(frozen=True, slots=True)
class Cost:
    """What it costs to be able to go back to every point.

    `points_bytes` is the sum of the states of all restore points, each encoded whole; `disk_bytes` what the store's
    files hold, from which each of them is restored; `save_us` and `flush_us` are medians.
    """

    points_bytes: int
    disk_bytes: int
    save_us: float
    flush_us: float


def cost_of(stage: Stage, found: Findings) -> Cost:
    """Measures a stage; restores every point on the way."""
    with perdure.open(str(stage.store)) as store:
        points = [len(values.encode(store.state_at(SESSION, point.seq))) for point in store.snapshots(SESSION)]
    return Cost(sum(points), stage.bytes_on_disk(), median(found.tally.save_us or (0,)), _flush_us(stage.folder))


def _flush_us(folder: Path) -> float:
    """What the disk itself takes to append 4 KB and flush it, at the middle of some tries."""
    took = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(FLUSHES):
            began = time.perf_counter_ns()
            os.write(file.fileno(), bytes(FLUSH_BYTES))
            os.fsync(file.fileno())
            took.append((time.perf_counter_ns() - began) / 1000)
    return median(took)


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise, and whether this run kept it."""

    text: str
    kept: bool


def promises(found: Findings, *, unharmed: Findings, kills: int) -> list[Promise]:
    """What was promised to an agent that is killed, checked for this one."""
    t = found.tally
    return [
        Promise("no finished action ran again", t.begun_again == 0),
        Promise("no report was written twice", t.twice == 0),
        Promise("every save that was acknowledged is there", t.lost == 0),
        Promise("whatever a tool did is in the log", t.unrecorded == 0),
        Promise("nothing is left in doubt, nothing waits for a person", t.undecided == 0),
        Promise("each kill was followed by exactly one resume", t.owners == kills + 1),
        Promise(
            "result, state, reports and actions are those of the run nobody killed", found.outcome == unharmed.outcome
        ),
    ]
