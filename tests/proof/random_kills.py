"""A command that works in a session is killed at random instants, and gone on with until the session is completed.

It knows the command line, the store and what has happened outside, and nothing of how the work is done. After each kill
all that was in the log is still there, nothing has happened twice, and nothing that the process started is left. In the
end the session is provably good, and its histories are as a strict provider takes them.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import perdure
from perdure.recovery import completed, problems

FULL = os.environ.get("PERDURE_STORM") == "full"
KILLS = 20 if FULL else 3

LOOK_S = 0.01
PATIENCE_S = 60.0
LIFE_S_MAX = 600.0
COMPLETED, WAITS, IDLE = 0, 75, 78
"""What a command ends with whose session is completed, waits for a decision, or has nothing more to do for now."""


@dataclass(frozen=True)
class Work:
    """What is done, and killed: in folders of their own, with a store in each.

    `begin` and `resume` are the command lines for a folder. `happened` tells each effect that may happen once, as often
    as it did. `histories` are the parts of the state that are lists of messages. `settle` decides what waits.
    `has_processes`: it starts some, a model's server or commands. `may_be_idle`: its end may be that all that it may
    spend is spent.
    """

    begin: Callable[[Path], Sequence[str]]
    resume: Callable[[Path], Sequence[str]]
    happened: Callable[[Path], Iterable[str]]
    histories: Sequence[str] = ()
    settle: Callable[[perdure.AgentStore, perdure.Question, Path], None] | None = None
    has_processes: bool = False
    may_be_idle: bool = False
    store: str = "agents.db"
    session: str = "q"
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Told:
    """What came of it: `kills`, the `sessions` that they were of, and what was `running` at them, by its command."""

    kills: int = 0
    sessions: int = 0
    running: Counter[str] = field(default_factory=Counter)


def perdure_command(*words: str) -> list[str]:
    """A command line of perdure, by this interpreter."""
    return [sys.executable, "-m", "perdure.cli", *words]


def killed_at_random(work: Work, place: Path, *, kills: int, seed: int) -> Told:
    """So many kills, each at a random instant of the time that the work takes unharmed.

    The instants are counted from when a process first writes to its store; every other one, the first of all among
    them, from the first process that it starts, if it starts any. Raises `AssertionError` for whatever was lost,
    happened twice, or was left.
    """
    told, chance = Told(), random.Random(seed)
    span_s = _One(work, place / "unharmed", told).to_its_end()
    while told.kills < kills:
        assert told.sessions < kills + 5, "it is done before it can be killed"
        one = _One(work, place / str(told.sessions), told)
        told.sessions += 1
        while told.kills < kills and one.life(chance.uniform(0, span_s)) is None:
            pass
        one.to_its_end()
    return told


class _One:
    """One session, from its first process to its last."""

    def __init__(self, work: Work, folder: Path, told: Told) -> None:
        folder.mkdir(parents=True)
        self._work, self._folder, self._told = work, folder, told
        self._log: list[tuple[int, str]] = []

    def life(self, kill_after_s: float | None) -> float | None:
        """Runs it until it is killed (None) or has completed the session: how long that took since it was at work."""
        began = time.monotonic()
        for _ in range(10):
            ended_with, at_work = self._process(kill_after_s)
            self._check_now()
            if ended_with is None:
                return None
            if ended_with == COMPLETED or (self._work.may_be_idle and ended_with == IDLE):
                return time.monotonic() - max(at_work, began)
            assert ended_with == WAITS, f"{self._folder.name} ended with {ended_with}:\n{self._errors()}"
            self._settle()
        raise AssertionError(f"it waits again and again:\n{self._errors()}")

    def _process(self, kill_after_s: float | None) -> tuple[int | None, float]:
        """(what one process ended with, None if it was killed; when it was at work)."""
        make = self._work.resume if self._log else self._work.begin
        environment = {**os.environ, "PYTHONPATH": _source(), **self._work.environment}
        with (self._folder / "errors").open("wb") as errors:
            process = subprocess.Popen(
                make(self._folder),
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        try:
            at_work = self._until_at_work(process)
            process.wait(LIFE_S_MAX if kill_after_s is None else kill_after_s)  # the instant is what varies
        except subprocess.TimeoutExpired:
            assert kill_after_s is not None, f"it does not end:\n{self._errors()}"
        else:
            return process.returncode, at_work
        finally:
            with _all_of(process, self._told.running if process.poll() is None else Counter()):
                process.kill()
                process.wait()
        if process.returncode != -signal.SIGKILL:  # it was done at the very instant
            return process.returncode, at_work
        self._told.kills += 1
        return None, at_work

    def _until_at_work(self, process: subprocess.Popen[bytes]) -> float:
        until, before = time.monotonic() + PATIENCE_S, self._files()
        by_process = self._work.has_processes and self._told.kills % 2 == 0
        while process.poll() is None and not (any(_children(process.pid)) if by_process else self._files() != before):
            assert time.monotonic() < until, f"it does not begin:\n{self._errors()}"
            time.sleep(LOOK_S)
        return time.monotonic()

    def _files(self) -> list[tuple[str, int, int]]:
        """What changes when the store is written to."""
        there = [(path.name, path.stat()) for path in sorted(self._folder.glob(f"{self._work.store}*"))]
        return [(name, told.st_size, told.st_mtime_ns) for name, told in there]

    def _settle(self) -> None:
        assert self._work.settle is not None, f"it waits for a decision:\n{self._errors()}"
        with self._opened() as store:
            for question in store.questions(self._work.session):
                self._work.settle(store, question, self._folder)

    def to_its_end(self) -> float:
        """Goes on with it until it is completed, and checks all of it. How long that took, in seconds."""
        took_s = self.life(None)
        assert took_s is not None
        self._check_whole()
        return took_s

    # --- checks ------------------------------------------------------------------------------------------------------

    def _check_now(self) -> None:
        log = self._records()
        assert log[: len(self._log)] == self._log, f"of {len(self._log)} records that were there some are not"
        self._log = log
        twice = [name for name, count in Counter(self._work.happened(self._folder)).items() if count > 1]
        assert not twice, f"happened more than once: {', '.join(twice)}"
        for name, messages in self._histories():
            assert not problems(completed(messages)), f"{name} cannot be made whole"

    def _check_whole(self) -> None:
        with self._opened() as store:
            (info,) = [info for info in store.sessions() if info.id == self._work.session]
            report = store.verify(self._work.session, read_data=True)
        ends = ("completed", "idle") if self._work.may_be_idle else ("completed",)
        assert info.status in ends, f"it is {info.status} ({info.reason})"
        assert report.ok, report.problems
        for name, messages in self._histories():
            assert not problems(messages), f"{name}: {problems(messages)}"

    def _histories(self) -> Iterator[tuple[str, list[object]]]:
        with self._opened() as store:
            saved = any(info.id == self._work.session and info.saves for info in store.sessions())
            state = store.state_at(self._work.session, parts=self._work.histories) if saved else {}
        yield from state.items()

    def _records(self) -> list[tuple[int, str]]:
        if not (self._folder / self._work.store).exists():
            return []
        with self._opened() as store:
            known = any(info.id == self._work.session for info in store.sessions())
            return [(entry.seq, entry.kind) for entry in store.log(self._work.session)] if known else []

    def _opened(self) -> perdure.AgentStore:
        return perdure.open(self._folder / self._work.store)

    def _errors(self) -> str:
        return (self._folder / "errors").read_text(errors="replace")[-4000:]


def _source() -> str:
    paths = [str(Path(perdure.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(filter(None, paths))


@contextlib.contextmanager
def _all_of(process: subprocess.Popen[bytes], running: Counter[str]) -> Iterator[None]:
    """Nothing that the process started is there after this block, in which it ends. It is held still meanwhile."""
    if process.poll() is None:
        process.send_signal(signal.SIGSTOP)
    there = list(_below(process.pid))
    running.update({command for _, command in there})
    yield
    for descriptor, command in there:
        ended = select.select([descriptor], [], [], PATIENCE_S)[0]
        os.close(descriptor)
        assert ended, f"it outlives its owner: {command}"


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            yield from map(int, task.read_text().split())


def _below(pid: int) -> Iterator[tuple[int, str]]:
    """(a descriptor, the name of the program) of each process that is below this one."""
    for child in _children(pid):
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(child)
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            names = [Path(word.decode(errors="replace")).name for word in words if word and not word.startswith(b"-")]
            yield descriptor, names[1] if len(names) > 1 else "".join(names)
            yield from _below(child)
