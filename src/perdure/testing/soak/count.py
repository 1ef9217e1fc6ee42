"""The count at the end of a soak: each acknowledged token is in its session, once, and nothing is there twice."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import perdure
from perdure.errors import DamageError, SessionUnknownError
from perdure.runtime.store import AgentStore
from perdure.testing.soak.crowd import Crowd
from perdure.testing.soak.plan import Plan, percentiles

MEMORY_GROWTH_MAX: Final = 1.25
"""The last third of the samples may be so much above the first …"""

MEMORY_MB_MORE_MAX: Final = 16.0
"""… and this."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a soak found. `problems` are sentences; none: all that was acknowledged is there, and nothing twice.

    `unacknowledged` were written by a process that was killed, or lost its store, before it could tell.
    `memory_mb` are the medians of the first and of the last third of a process that lived all the time.
    """

    url: str
    sessions: int
    saves: int
    kills: int
    failures: dict[str, int]
    unacknowledged: int
    save_ms: dict[str, float]
    open_ms: dict[str, float]
    saves_per_s: float
    memory_mb: tuple[float, float]
    problems: tuple[str, ...]


def counted(crowd: Crowd) -> Report:
    """Reads every session, with all its digests checked."""
    plan, told = crowd.plan, crowd.told
    problems, extra = list[str](), 0
    with perdure.open(plan.url) as store:
        for number in range(plan.sessions):
            try:
                found = _tokens(store, plan.session(number))
            except DamageError as error:
                problems.append(f"{plan.session(number)} is damaged: {error}")
                continue
            acknowledged = told.acknowledged.get(number, set())
            problems += (f"{plan.session(number)}: {fault}" for fault in _faults(found, acknowledged))
            extra += len(set(found["tokens"]) - acknowledged)
        url = store.url
    if extra > unknown_at_most(plan, crowd):
        problems.append(f"{extra} saves are there that nobody was told of, more than were under way when it was killed")
    first, last = _memory(crowd.memory_mb)
    if last > first * MEMORY_GROWTH_MAX + MEMORY_MB_MORE_MAX:
        problems.append(f"the memory of a writer has grown from {first:.0f} MB to {last:.0f} MB")
    return Report(
        url=url,
        sessions=len(told.acknowledged),
        saves=len(told.save_ms),
        kills=crowd.kills,
        failures=dict(told.failures),
        unacknowledged=extra,
        save_ms=percentiles(told.save_ms),
        open_ms=percentiles(told.open_ms),
        saves_per_s=round(len(told.save_ms) / plan.seconds, 1),
        memory_mb=(round(first, 1), round(last, 1)),
        problems=tuple(problems),
    )


def unknown_at_most(plan: Plan, crowd: Crowd) -> int:
    """Each thread of a process that was killed, and each that failed, can have had one save under way."""
    return crowd.kills * plan.threads + sum(crowd.told.failures.values())


def _tokens(store: AgentStore, session: str) -> dict[str, Any]:
    try:
        for _ in store.log(session):
            pass
        return {"count": 0, "tokens": [], **store.state_at(session)}
    except SessionUnknownError:
        return {"count": 0, "tokens": []}


def _faults(found: dict[str, Any], acknowledged: set[str]) -> Iterator[str]:
    tokens = Counter(found["tokens"])
    if lost := acknowledged - set(tokens):
        yield f"acknowledged and lost: {', '.join(sorted(lost)[:5])} ({len(lost)} in all)"
    if twice := [token for token, times in tokens.items() if times > 1]:
        yield f"there twice: {', '.join(twice[:5])}"
    if found["count"] != tokens.total():
        yield f"it counts {found['count']} and has {tokens.total()}"


def _memory(samples: list[float]) -> tuple[float, float]:
    third = max(1, len(samples) // 3)
    return statistics.median(samples[:third] or [0.0]), statistics.median(samples[-third:] or [0.0])
