"""The lives of an agent: processes that run it one after another, each killed at its point, the last one to the end.

Each process is a fork of this one, so a life costs milliseconds. Nothing is judged here: `crash.py` compares lives.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import traceback
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.errors import RefusedError
from perdure.testing.bell import Bell, Command, Moments

if TYPE_CHECKING:
    from perdure.stores.contract import Store
    from perdure.testing.doubts import Settle

LIFE_S_MAX: Final = 60.0
"""A process that lives longer hangs, and is killed."""

SESSION: Final = "life"
"""The id of the session in each life."""


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """One instant: the `hit`-th time, counted from 1, that a process comes to this point of `perdure.faults.POINTS`."""

    name: str
    hit: int

    def __str__(self) -> str:
        return f"{self.name} #{self.hit}"


@dataclass(frozen=True, slots=True)
class Trial:
    """What is put on trial, and how its people and its outside behave. `docs/testing.md` tells what each means."""

    agent: Callable[[Any], Any]
    input: Any
    form: str
    effects: Callable[[], Mapping[str, int]] | None
    answers: Mapping[str, Any]
    settle: Settle
    open: Callable[[Path], str | Store]
    messages: Sequence[Any] = ()
    commands: Sequence[Command] = ()

    def count(self) -> dict[str, int]:
        """The effects until now."""
        return dict(self.effects()) if self.effects is not None else {}


@dataclass(frozen=True, slots=True)
class Ended:
    """What the last process of a life told.

    `problem` is "" or why the agent did not complete; `received` is what was taken out of the inbox (kind → how often),
    `left` how much lies there; `actions` are the calls on the present branch (text → how
    often), `outcomes` the encoded results by name and fingerprint. By the kit's own book, `entered` is how often each
    call ran and `cut_off` how often it can have been cut off; `again` are those that ran after they had finished,
    `doubted` those that were in doubt after the code had gone on with their result. `loaded` are the modules of perdure
    that it had loaded.
    """

    problem: str = ""
    status: str = ""
    received: dict[str, int] = field(default_factory=dict)
    left: int = 0
    reached: tuple[str, ...] = ()
    result: bytes = b""
    state: dict[str, bytes] = field(default_factory=dict)
    actions: dict[str, int] = field(default_factory=dict)
    repeatable: frozenset[str] = frozenset()
    again: tuple[str, ...] = ()
    entered: dict[str, int] = field(default_factory=dict)
    doubted: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    cut_off: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, list[bytes | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Life:
    """One life: where its store is, the points at which it was killed, how it ended, the effects it had.

    `said` are the commands that it was told, by their place in the trial.
    """

    folder: Path
    kills: tuple[CrashPoint, ...]
    ended: Ended
    effects: Mapping[str, int]
    said: frozenset[int] = frozenset()


def live(trial: Trial, folder: Path, *, kills: Sequence[CrashPoint] = (), unharmed: Ended | None = None) -> Life:
    """Runs the agent in a fresh store in this folder to its end, killed at these points on the way."""
    from perdure.testing.inside import run, say  # noqa: PLC0415 - what runs inside of a life knows what a life is

    before = trial.count()
    killed, told, status = list[CrashPoint](), b"", 0
    said = set[int]()

    def process(kill: CrashPoint | None, bell: Bell) -> bytes:
        moments = Moments(trial.commands, said, bell)
        return run(trial, folder, kill=kill, before=before, unharmed=unharmed, moments=moments)

    def tell(number: int) -> None:
        if say(trial, folder, trial.commands[number]):
            said.add(number)

    for kill in [*kills, None]:
        with contextlib.closing(Bell()) as bell:
            told, status = forked(partial(process, kill, bell), bell=bell, say=tell)
        if not os.WIFSIGNALED(status) or kill is None or os.WTERMSIG(status) != signal.SIGKILL:
            break
        killed.append(kill)
    after = trial.count()
    effects = {name: after.get(name, 0) - before.get(name, 0) for name in {**before, **after}}
    return Life(folder, tuple(killed), _ended(told, status), effects, frozenset(said))


def _ended(told: bytes, status: int) -> Ended:
    if os.WIFSIGNALED(status):
        return Ended(f"its process was ended by {signal.Signals(os.WTERMSIG(status)).name}, which no crash point sent")
    if os.WEXITSTATUS(status):
        return Ended(f"its process exited with {os.WEXITSTATUS(status)}\n{told.decode(errors='replace')}")
    fields = values.decode(told)
    return Ended(**{k: _frozen(k, v) for k, v in fields.items()})


def _frozen(name: str, value: Any) -> Any:
    if name == "repeatable":
        return frozenset(value)
    return tuple(value) if name in ("reached", "again", "doubted", "loaded") else value


def warm(loaded: Collection[str]) -> None:
    """Loads what lives load on their way, of perdure alone: once in this process, not once in each of its forks."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - what settles a doubt needs it; few other programs do

    TypeAdapter(bool)  # the first one looks for plugins among all that is installed
    for name in loaded:
        import_module(name)


def forked(
    work: Callable[[], bytes],
    *,
    life_s_max: float = LIFE_S_MAX,
    bell: Bell | None = None,
    say: Callable[[int], None] | None = None,
) -> tuple[bytes, int]:
    """Does the work in a fork of this process: what it returned, and the status that the process ended with.

    Meanwhile says what it rings for.

    Raises `RefusedError` where there is no fork, `TimeoutError` for one that hangs (it is killed).
    """
    if not hasattr(os, "fork"):
        raise RefusedError(
            "crashing an agent everywhere needs os.fork(), which this platform does not have: use Linux or macOS"
        )
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the child uses nothing that they could hold
        pid = os.fork()
    if not pid:
        _child(work, read, write)
    os.close(write)
    try:
        told = _read(read, life_s_max, bell, say)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    finally:
        os.close(read)
    return told, os.waitpid(pid, 0)[1]


def _child(work: Callable[[], bytes], read: int, write: int) -> None:
    """Never returns, and runs nothing that the parent wanted to happen at its own exit."""
    status = 1
    try:
        gc.freeze()  # what the parent has made is not walked again: that would copy its pages
        os.close(read)
        with open(write, "wb") as pipe:
            try:
                pipe.write(work())
                status = 0
            except BaseException:  # noqa: BLE001 - told to the parent, whatever it is
                pipe.write(traceback.format_exc().encode())
    finally:
        os._exit(status)


def _read(pipe: int, life_s_max: float, bell: Bell | None, say: Callable[[int], None] | None) -> bytes:
    parts: list[bytes] = []
    ends: list[Any] = [pipe] if bell is None else [pipe, bell.here]
    while True:
        ready = select.select(ends, [], [], life_s_max)[0]
        if not ready:
            raise TimeoutError(f"the agent's process has done nothing for {life_s_max:g} s")
        if bell is not None and say is not None and bell.here in ready:
            bell.heard(say)
        if pipe not in ready:
            continue
        part = os.read(pipe, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)


def points_of(reached: Collection[str], names: Collection[str] | None) -> list[CrashPoint]:
    """Every crash point of a process that came to these points in this order."""
    hits: dict[str, int] = {}
    found = []
    for name in reached:
        hits[name] = hits.get(name, 0) + 1
        if names is None or name in names:
            found.append(CrashPoint(name, hits[name]))
    return found
