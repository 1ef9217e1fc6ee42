"""The book: what the tools of an agent really did, written by themselves, apart from the log and unknown to it.

One JSON line for each begin and end of a tool and for each save that was acknowledged. A line is written by one system
call, so a process that is killed leaves whole lines.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    `what` is begin, end or saved; `call` tells a call from those that differ from it; `seq` is the number of the
    snapshot and `took_us` how long its save took; `at_us` counts on a clock that never jumps.
    """

    pid: int
    at_us: int
    what: str
    tool: str = ""
    call: str = ""
    seq: int = 0
    took_us: int = 0


class Book:
    """The writing end, in the process that is killed."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, what: str, *, tool: str = "", call: str = "", seq: int = 0, took_us: int = 0) -> None:
        """Adds a line; it outlives the process from here on."""
        line = Line(os.getpid(), time.monotonic_ns() // 1000, what, tool, call, seq, took_us)
        os.write(self._file, json.dumps(asdict(line)).encode() + b"\n")


class Follower:
    """The reading end, which sees lines as they come."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._file = path.open("rb")
        self._rest = b""
        self.lines: list[Line] = []

    def news(self) -> list[Line]:
        """The lines that have come since the last time; they are also in `lines`."""
        *whole, self._rest = (self._rest + self._file.read()).split(b"\n")
        found = [Line(**json.loads(line)) for line in whole]
        self.lines += found
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
