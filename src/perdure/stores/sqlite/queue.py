"""A place in line for the processes that write to one file: who waits for its lock holds it, so the next one is known.

SQLite's lock goes to whoever looks at the right moment, which is mostly who had it last. So a process that has met
another one takes the place in line before it asks for the lock, and keeps it until it has committed: who comes back
must wait behind those who wait, and who gets the place finds the lock free. It is a matter of fairness alone: a process
that cannot take the place, or has waited too long for it, goes on without. The kernel gives the place back when its
holder dies.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from perdure import clock
from perdure.syncing import fcntl

PATIENCE_S: Final = 0.5
"""Longer than any line that moves: its holder is stopped, and may hold nothing else."""

_PAUSE_S: Final = 0.00015
"""Between two looks whether the place is free, about: half of it goes by between two commits."""


class Queue:
    """The line of one file, kept in an empty file beside it that is made when two processes meet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.file: int | None = None
        """Its descriptor; None as long as no other process was met."""
        self.is_entered = False
        """Whether the place may be ours, and is to be left."""

    def enter(self) -> None:
        """Takes the place in line, or has waited long enough."""
        end = clock.monotonic_s() + PATIENCE_S
        if fcntl is None or not self._opened():  # without it everybody just looks at random moments
            return
        self.is_entered = True
        while self.file is not None and not self._taken(self.file) and clock.monotonic_s() < end:
            time.sleep(pause_s(_PAUSE_S))

    def leave(self) -> None:
        """Gives the place to the next."""
        self.is_entered = False
        if self.file is not None:
            fcntl.flock(self.file, fcntl.LOCK_UN)

    def close(self, *, for_good: bool = False) -> None:
        """Forgets the others. `for_good` also removes the file, if nobody stands in line."""
        file, self.file, self.is_entered = self.file, None, False
        if file is None:
            return
        try:
            if for_good and self._taken(file):
                _place(self._path).unlink(missing_ok=True)
        finally:
            os.close(file)

    def _opened(self) -> bool:
        """Opens the file, also anew when it was removed by one that closed. False where it cannot be made."""
        if self.file is not None and not os.fstat(self.file).st_nlink:
            self.close()
        if self.file is None:
            with suppress(OSError):
                self.file = os.open(_place(self._path), os.O_RDWR | os.O_CREAT, 0o666)
        return self.file is not None

    @staticmethod
    def _taken(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def _place(path: Path) -> Path:
    return path.with_name(path.name + "-turn")


def pause_s(mean_s: float) -> float:
    """About so long, never the same twice: those who wait must not step in time."""
    return mean_s * (0.5 + clock.new_random())
