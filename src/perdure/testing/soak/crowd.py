"""The processes of a soak: started, heard, killed and replaced, and their memory watched."""

from __future__ import annotations

import json
import os
import random
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from perdure.testing.soak.plan import Plan, Told

END_S_MAX: Final = 120.0
"""A process that has not ended so long after it was told to hangs."""


class WriterFailedError(RuntimeError):
    """A writer has ended by itself; says what it wrote to stderr."""


@dataclass
class Crowd:
    """A soak under way. `memory_mb` are samples of the process that is never killed, one a second once it saves.

    It goes on beyond its time for as long as `goes_on` says so.
    """

    plan: Plan
    goes_on: Callable[[], bool] = lambda: False
    told: Told = field(default_factory=Told)
    kills: int = 0
    memory_mb: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end of the run
        self._lives = [0] * self.plan.processes
        self._processes = [self._started(number) for number in range(self.plan.processes)]
        self._chance = random.Random(self.plan.seed)  # noqa: S311 - not for secrets
        self._at_work = False

    def run(self, progress: Callable[[str], None]) -> None:
        """All of it; returns when every writer has ended. Raises `WriterFailedError`."""
        try:
            self._soak(progress)
            self._end()
        finally:
            for process in self._processes:
                process.kill()
                with process:
                    pass
            self._errors.close()
            self._selector.close()

    def _soak(self, progress: Callable[[str], None]) -> None:
        began = now = time.monotonic()
        look, kill = began + 1, began + (self.plan.kill_every_s or self.plan.seconds + 1)
        while now < began + self.plan.seconds or self.goes_on():
            self._hear(min(look, kill) - now)
            now = time.monotonic()
            if now >= look:
                look = now + 1
                if self._at_work:  # before, it is still growing to its size
                    self.memory_mb.append(resident_mb(self._processes[0].pid))
                progress(f"{now - began:.0f} s, {len(self.told.save_ms):,} saves, {self.kills} kills")
            if now >= kill:
                kill = now + self.plan.kill_every_s
                self._kill_one()

    def _kill_one(self) -> None:
        """SIGKILL of any of them but the first; another takes its place."""
        if self.plan.processes > 1:
            number = self._chance.randrange(1, self.plan.processes)
            self._processes[number].send_signal(signal.SIGKILL)
            with self._processes[number]:
                self._ended(number)
            self.kills += 1
            self._processes[number] = self._started(number)

    def _end(self) -> None:
        for process in self._processes:
            if process.stdin:
                process.stdin.close()
        until = time.monotonic() + END_S_MAX
        while self._selector.get_map():
            if time.monotonic() > until:
                raise WriterFailedError(f"a writer has not ended {END_S_MAX:g} s after it was told to")
            self._hear(1.0)

    def _started(self, number: int) -> subprocess.Popen[bytes]:
        self._lives[number] += 1
        task = {"plan": asdict(self.plan), "number": number, "life": self._lives[number]}
        process = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-m", "perdure.testing.soak.writer", json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        if process.stdout:
            self._selector.register(process.stdout, selectors.EVENT_READ, _Ear(number))
        return process

    def _hear(self, wait_s: float) -> None:
        for key, _ in self._selector.select(max(0.0, wait_s)):
            part = os.read(key.fd, 1 << 16)
            for line in key.data.lines(part):
                self.told.hear(line)
                self._at_work |= key.data.number == 0 and line.startswith("saved")
            if not part:
                self._selector.unregister(key.fileobj)
                self._check(key.data.number)

    def _ended(self, number: int) -> None:
        """Hears one to its end."""
        stdout = self._processes[number].stdout
        while any(key.fileobj is stdout for key in self._selector.get_map().values()):
            self._hear(1.0)

    def _check(self, number: int) -> None:
        status = self._processes[number].wait()
        if status not in (0, -signal.SIGKILL):
            self._errors.seek(0)
            raise WriterFailedError(f"a writer ended with {status}:\n{self._errors.read().decode()[-4000:]}")


class _Ear:
    """Whole lines of one process; what a kill cut off is no line."""

    def __init__(self, number: int) -> None:
        self.number, self._rest = number, b""

    def lines(self, part: bytes) -> list[str]:
        *lines, self._rest = (self._rest + part).split(b"\n")
        return [line.decode() for line in lines]


def resident_mb(pid: int) -> float:
    """What a process has in memory; 0 where that cannot be read."""
    path = Path(f"/proc/{pid}/statm")
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6 if path.exists() else 0.0
