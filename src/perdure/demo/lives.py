"""The lives of the agent's process: started, watched through its book, killed with SIGKILL, started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import perdure
from perdure.demo.book import Follower
from perdure.demo.stage import ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.demo.instants import Instant
    from perdure.demo.stage import Stage

SILENCE_S_MAX: Final = 60.0
"""An agent that notes nothing for so long hangs."""

LOOK_S: Final = 0.0005
"""How often the book is looked at."""


class AgentFailedError(RuntimeError):
    """The example agent ended by itself without completing, or hangs."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill, as the book shows it: the tool that was at work, or None; how many actions had ended by then."""

    pid: int
    inside: str | None
    ended: int


class Witness(Protocol):
    """Who is told while it happens."""

    def ended(self, count: int) -> None:
        """So many actions have ended by now."""

    def killed(self, kill: Kill) -> None:
        """A process was killed."""


def live(stage: Stage, instants: Iterable[Instant], witness: Witness) -> list[Kill]:
    """Runs the agent to its end, killed at these instants on the way. Fewer kills than instants: it was done before.

    Raises `AgentFailedError`.
    """
    kills: list[Kill] = []
    with Follower(stage.book) as book:
        for instant in [*instants, None]:
            pid = _life(stage, book, instant, witness)
            if pid is None:
                break
            kills.append(_kill_in(book, pid))
            witness.killed(kills[-1])
    return kills


def _life(stage: Stage, book: Follower, instant: Instant | None, witness: Witness) -> int | None:
    """One process, killed at the instant: its pid. None when it came to the end of the work."""
    with (stage.folder / ERRORS).open("wb") as errors:
        process = _start(stage, errors.fileno())
    try:
        killed = _watch(process, book, instant, witness)
    finally:
        _end(process)
    book.news()
    if not killed and process.returncode:
        raise AgentFailedError(f"the agent ended with {process.returncode}:\n{stage.errors()[-4000:]}")
    return process.pid if process.returncode else None


def _start(stage: Stage, output: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "perdure.demo.child", str(stage.folder)]
    paths = [str(Path(perdure.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    # A process group of its own, so that a kill takes along what the tools have started, as a power cut would.
    return subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)  # noqa: S603


def _watch(process: subprocess.Popen[bytes], book: Follower, instant: Instant | None, witness: Witness) -> bool:
    """Whether the instant has come; False when the process has ended by itself before."""
    heard = time.monotonic()
    while process.poll() is None:
        if book.news():
            heard = time.monotonic()
            # All lines, not only the new ones: its place may have been passed while the process before was dying.
            if instant and instant.reached(book.lines):
                return _wait(process, book, instant.after_s)
            witness.ended(_ended(book))
        elif time.monotonic() - heard > SILENCE_S_MAX:
            raise AgentFailedError(f"the agent (pid {process.pid}) has done nothing for {SILENCE_S_MAX:g} s")
        time.sleep(LOOK_S)
    witness.ended(_ended(book))
    return False


def _wait(process: subprocess.Popen[bytes], book: Follower, seconds: float) -> bool:
    """Waits so long, but not beyond the next line: the instant lies before it. Whether the process still runs."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not book.news():
        time.sleep(LOOK_S)
    return process.poll() is None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and all that it has started, at once."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ended(book: Follower) -> int:
    return len({line.call for line in book.lines if line.what == "end"})


def _kill_in(book: Follower, pid: int) -> Kill:
    last = next((line for line in reversed(book.lines) if line.pid == pid), None)
    return Kill(pid, last.tool if last and last.what == "begin" else None, _ended(book))
