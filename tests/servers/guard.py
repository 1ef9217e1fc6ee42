"""Runs a program and ends it, with all that it has started, when whoever asked for it is gone, however that ended.

Started as `python -S -E guard.py FOLDER COMMAND…`. Its input is a pipe whose other end only the test process has. One
that closes it without a word is gone, and the folder (if it is not "-") is removed, too. The guard takes in the
children of children that have died, so that none gets away by a session of its own.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

_SUBREAPER = 36
_LOOK_MS = 50
"""How soon it is noticed that the program has ended by itself."""


def below(pid: int) -> list[int]:
    """All processes that come from this one and live."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(entry.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, ())
    return found[1:]


def tell_all(pid: int, number: int) -> None:
    """Sends the signal to everything below this process; what is started meanwhile is told, too."""
    told = set[int]()
    while new := set(below(pid)) - told:
        for one in new:
            with suppress(ProcessLookupError):
                os.kill(one, number)
        told |= new


def _run(folder: str, *command: str) -> None:
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    if not os.fork():
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    gone = select.poll()
    gone.register(0, select.POLLIN | select.POLLHUP)
    while _reap() and not gone.poll(_LOOK_MS):
        pass
    while _reap():  # one with threads may be shown as dead, and still hold its port: it is gone when it is collected
        tell_all(os.getpid(), signal.SIGKILL)
        select.select([], [], [], 0.002)
    if folder != "-" and gone.poll(0) and not os.read(0, 1):
        shutil.rmtree(folder, ignore_errors=True)


def _reap() -> bool:
    """Whether there are children left."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


if __name__ == "__main__":
    _run(*sys.argv[1:])
