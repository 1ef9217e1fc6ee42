"""How a store bears many sessions: it is filled step by step, and at each what an agent does is timed and weighed.

Each session is a chat of three saves. What is timed is done by one process alone, on sessions chosen at random; the
figure is what the fastest tenth took, which a busy machine touches least: here the growth is what counts.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import perdure
from perdure.testing.bench.messages import Generated
from perdure.testing.bench.plan import Plan
from perdure.testing.bench.rows import Row
from perdure.testing.bench.saving import Found

THREADS: Final = 16
SAVES: Final = 3
SAMPLES: Final = 30
MESSAGE_CHARS: Final = 1_000

WHAT: Final = {
    "new": ("a new session and its first save", "ms"),
    "open": ("open a session", "ms"),
    "save": ("a save", "ms"),
    "restore": ("restore the newest state", "ms"),
    "list": ("list ten sessions by their prefix", "ms"),
    "bytes": ("bytes of the place, a session", "KB"),
    "fill": ("sessions filled in a second, by 16 threads", ""),
}


def steps(sessions: int) -> list[int]:
    """How many sessions there are at each step: powers of ten, and the last."""
    powers = [10**power for power in range(2, 7) if 10**power < sessions]
    return [*powers, sessions]


def scale(plan: Plan) -> Found:
    """All steps."""
    found: Found = {}
    pool = _messages()
    with perdure.open(str(plan.store)) as store:
        used, there = store.backend.health(deep=False).used, 0
        for count in steps(plan.sizes.sessions):
            began = time.perf_counter()
            with ThreadPoolExecutor(THREADS) as threads:
                list(threads.map(lambda n: _fill(store, plan.name, n, pool), range(there, count)))
            found[f"scale.{count}.fill"] = (count - there) / (time.perf_counter() - began)
            there = count
            found |= {
                f"scale.{count}.{what}": value for what, value in _measured(store, plan.name, count, pool).items()
            }
            now = store.backend.health(deep=False).used
            if used is not None and now is not None:
                found[f"scale.{count}.bytes"] = (now - used) / count / 1e3
    return found


def rows(sessions: int) -> tuple[Row, ...]:
    """What is measured at the steps up to so many sessions."""
    return tuple(_rows(sessions))


def _rows(sessions: int) -> Iterator[Row]:
    for what, (text, unit) in WHAT.items():
        for count in steps(sessions):
            yield Row(f"scale.{count}.{what}", "scale", text, unit, who=f"{count:,} sessions")


def _messages() -> list[str]:
    text, chance = Generated(), random.Random(1)  # noqa: S311 - not for secrets
    return [text.text(chance, MESSAGE_CHARS) for _ in range(200)]


def _fill(store: perdure.AgentStore, name: str, number: int, pool: list[str]) -> None:
    with store.session(_id(name, number), append_only=["messages"]) as s:
        s.state.update(messages=[], n=0)
        for n in range(SAVES):
            s.state["messages"].append({"role": "user", "content": pool[(number + n) % len(pool)]})
            s.state["n"] = n
            s.save()


def _id(name: str, number: int) -> str:
    return f"{name}-{number:07d}"


def _measured(store: perdure.AgentStore, name: str, count: int, pool: list[str]) -> Found:
    chance, times = random.Random(count), _Times()  # noqa: S311 - not for secrets
    for sample in range(SAMPLES):
        number = chance.randrange(count)
        times.of("new", partial(_new, store, f"{name}-new-{count}-{sample}")).close()
        session = _id(name, number)
        s = times.of("open", partial(store.session, session, create=False))
        s.state["messages"].append({"role": "user", "content": chance.choice(pool)})
        times.of("save", s.save)
        s.close()
        times.of("restore", partial(store.state_at, session))
        times.of("list", partial(store.backend.heads, prefix=session[:-1]))
    return times.fastest()


def _new(store: perdure.AgentStore, session: str) -> perdure.Session:
    s = store.session(session)
    s.state["n"] = 0
    s.save()
    return s


class _Times:
    def __init__(self) -> None:
        self._taken: dict[str, list[float]] = {}

    def of(self, what: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        got = work()
        self._taken.setdefault(what, []).append(time.perf_counter() - began)
        return got

    def fastest(self) -> Found:
        return {what: sorted(taken)[len(taken) // 10] * 1e3 for what, taken in self._taken.items()}
