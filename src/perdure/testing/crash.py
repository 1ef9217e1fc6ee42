"""Crashing an agent everywhere: killed at each crash point and resumed, it must come to what it came to unharmed.

It compares what can be seen from outside (result, state, effects), and what the log and the kit's own book say about
actions. How a life is lived is next door.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from perdure import faults
from perdure.errors import PerdureError, RefusedError
from perdure.runtime.store import AgentStore
from perdure.session.declare import agent_of
from perdure.session.keeping.opening import NO_INPUT
from perdure.stores import open_store
from perdure.testing.bell import Command
from perdure.testing.doubts import TRUTH, Settle
from perdure.testing.lives import SESSION, CrashPoint, Life, Trial, live, points_of, warm
from perdure.testing.telling import tail
from perdure.testing.verdict import differences, unsaid, untaken

if TYPE_CHECKING:
    from perdure.stores.contract import Store

STORE: Final = "agents.db"
"""The file of the default store, in the folder of a life."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was tried.

    `reached` is how often the unharmed run came to each point, `killed` how many lives were killed there; `missed` are
    points that a life did not come to again, so that nothing killed it (those of a background thread may be).
    """

    lives: int
    reached: Mapping[str, int]
    killed: Mapping[str, int]
    missed: tuple[CrashPoint, ...]
    seconds: float

    def __str__(self) -> str:
        at = ", ".join(f"{name} {times}" for name, times in sorted(self.killed.items()))
        return f"{self.lives} lives in {self.seconds:.1f} s; killed at {at or 'no point'}"


def crash_everywhere(
    agent: Callable[[Any], Any],
    *,
    input: Any = NO_INPUT,  # noqa: A002 - the word that people use
    effects: Callable[[], Mapping[str, int]] | None = None,
    answers: Mapping[str, Any] | None = None,
    messages: Sequence[Any] = (),
    commands: Sequence[Command] = (),
    settle: Settle = TRUTH,
    store: Callable[[Path], str | Store] | None = None,
    form: Literal["handle"] | None = None,
    points: Collection[str] | None = None,
    most: int | None = None,
    pairs: int = 0,
    fresh: Callable[[], object] | None = None,
    folder: Path | None = None,
) -> Report:
    """Runs an agent once unharmed, then once per crash point: killed there with SIGKILL and resumed until it completes.

    Raises `AssertionError`, with the crash point, what differs and the end of the log, unless each life comes to the
    result, the final state, the calls and the effects of the unharmed one.

    `effects` returns name → times, counted where a kill does not reach (a file): of a `repeatable` action's own name
    there may be more, of everything else exactly as many. `answers` answers questions (by key or prompt) and stands in
    for actions (by name): a list gives one after another, a callable is called. `messages` are sent once the session
    is idle, `commands` are said while it runs, each once, by another process. `settle` decides about what is in doubt,
    by default by what really happened. `store` gives the store for a folder (its URL, or the store itself);
    `form="handle"` calls the agent within `store.session(…)`; `points` are the names of those to try, at `most` so many
    instants, spread evenly over the run; so many `pairs` of points kill twice. `fresh` is called before each life;
    `folder` is where lives are, and a failed one is left.

    Each process is a fork: nothing that it does to memory is seen here. Raises `RefusedError` where there is no fork.
    """
    began = time.monotonic()
    trial = Trial(
        agent,
        input,
        _form(agent, form, input),
        effects,
        answers or {},
        settle,
        store or _copied_store,
        messages,
        commands,
    )
    _check_points(points)
    if most is not None and most < 0:
        raise RefusedError(f"most={most}: so many instants cannot be tried; it is 0 or more")
    with _folder(folder) as place:
        lives = _Lives(trial, place, fresh)
        unharmed = lives.live(())
        _check_completed(unharmed, trial)
        warm(unharmed.ended.loaded)
        every = points_of(unharmed.ended.reached, points)
        killed, missed = Counter[str](), list[CrashPoint]()
        for kills in [*((point,) for point in _spread(every, most)), *_pairs(every, pairs)]:
            life = lives.live(kills, unharmed)
            killed.update(point.name for point in life.kills)
            missed += kills[len(life.kills) : 1]
            _compare(unharmed, life, trial=trial)
            lives.forget(life)
    reached = Counter(unharmed.ended.reached)
    return Report(lives.count, dict(reached), dict(killed), tuple(missed), time.monotonic() - began)


def _form(agent: Callable[[Any], Any], form: str | None, given: Any) -> str:
    if form == "handle" and given is not NO_INPUT:
        raise RefusedError("a handle has no input: let the agent's own code bring it")
    return form or agent_of(agent).form


def _check_points(points: Collection[str] | None) -> None:
    unknown = sorted(set(points or ()) - set(faults.POINTS))
    if unknown:
        raise RefusedError(f"no such crash points: {', '.join(unknown)}; there are: {', '.join(faults.POINTS)}")


def _spread(every: list[CrashPoint], most: int | None) -> list[CrashPoint]:
    """So many of them at most, the first and the last among them."""
    if most is None or most >= len(every):
        return every
    return [every[round(n * (len(every) - 1) / max(most - 1, 1))] for n in range(most)]


def _pairs(every: list[CrashPoint], count: int) -> list[tuple[CrashPoint, CrashPoint]]:
    """The same ones each time; two kills in a row at the beginning of what is left are as likely as far apart."""
    chance = random.Random(0)  # noqa: S311 - which instants are tried is no secret
    return [(chance.choice(every), chance.choice(every)) for _ in range(count if every else 0)]


# --- where lives are lived -------------------------------------------------------------------------------------------


@contextmanager
def _folder(folder: Path | None) -> Iterator[Path]:
    """The folder of all lives; a temporary one is gone afterwards."""
    if folder is not None:
        yield folder
        return
    in_memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="perdure-lives-", dir=in_memory) as made:
        yield Path(made)


_EMPTY: Final = "empty.db"

_MEMORY: Final = "/dev/shm"  # noqa: S108 - a folder of random name is made in it
"""A file system in memory, where there is one: what was written survives a kill there, too, and is written faster."""


def _copied_store(folder: Path) -> str:
    """A SQLite store of this life. The first process of a life copies an empty one: that is faster than making it."""
    path = folder / STORE
    if not path.exists():
        shutil.copyfile(folder.parent / _EMPTY, path)
    return str(path)


class _Lives:
    """One life after another, each in a folder of its own."""

    def __init__(self, trial: Trial, place: Path, fresh: Callable[[], object] | None) -> None:
        self._trial, self._place, self._fresh = trial, place, fresh
        self.count = 0
        open_store(place / _EMPTY).close()

    def live(self, kills: tuple[CrashPoint, ...], unharmed: Life | None = None) -> Life:
        """The next life. Raises `AssertionError` for one that hangs."""
        self.count += 1
        folder = self._place / f"{self.count:05}"
        folder.mkdir()
        if self._fresh is not None:
            self._fresh()
        try:
            return live(self._trial, folder, kills=kills, unharmed=unharmed.ended if unharmed else None)
        except TimeoutError as error:
            raise AssertionError(_failure(folder, self._trial, kills, str(error))) from None

    def forget(self, life: Life) -> None:
        """Removes what a life that went well has left."""
        shutil.rmtree(life.folder)


# --- what must hold --------------------------------------------------------------------------------------------------


def _check_completed(unharmed: Life, trial: Trial) -> None:
    if unharmed.ended.problem:
        raise AssertionError(f"unharmed, the agent does not complete:\n{unharmed.ended.problem}")
    wrong = [*unsaid(unharmed, trial.commands), *untaken(unharmed, trial.commands)]
    if wrong:
        raise AssertionError(_failure(unharmed.folder, trial, (), "\n".join(wrong)))


def _compare(unharmed: Life, life: Life, *, trial: Trial) -> None:
    """Raises `AssertionError` unless the life came to what the unharmed one came to."""
    differs = [*untaken(life, trial.commands), *differences(unharmed, life)]
    if differs:
        raise AssertionError(_failure(life.folder, trial, life.kills, "\n".join(differs)))


def _failure(folder: Path, trial: Trial, kills: tuple[CrashPoint, ...], differs: str) -> str:
    at = " and ".join(f"at {kill} ({faults.POINTS[kill.name]})" for kill in kills)
    what = f"killed {at}, then resumed" if at else "unharmed"
    return f"{what}:\n{differs}\n\nthe log of that life ({folder}):\n{_log(folder, trial)}"


def _log(folder: Path, trial: Trial) -> str:
    place = trial.open(folder)
    try:
        with AgentStore(open_store(place) if isinstance(place, str) else place) as store:
            return tail(list(store.log(SESSION)))
    except PerdureError as error:
        return f"(cannot be read: {type(error).__name__}: {error})"
