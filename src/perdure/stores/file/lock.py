"""Advisory locks between processes: a folder is locked by `flock` on itself, for as long as one operation takes.

The system gives a lock back when its holder dies. Who waits does so for a bounded time: a process that was stopped in
the middle must not hold up the others for ever. It knows no sessions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from perdure import clock
from perdure.errors import StoreFailedError
from perdure.syncing import fcntl

_PAUSE_S_MIN: Final = 0.0001
_PAUSE_S_MAX: Final = 0.005


@contextmanager
def locked(folder: int, *, url: str, busy_s: float, shared: bool = False) -> Iterator[None]:
    """Holds the lock of an open folder. Raises `StoreFailedError` when others keep it for more than `busy_s`."""
    acquire(folder, url=url, busy_s=busy_s, shared=shared)
    try:
        yield
    finally:
        release(folder)


@contextmanager
def locked_path(folder: Path, *, url: str, busy_s: float, shared: bool = False) -> Iterator[None]:
    """The same, of a folder that is opened for it."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with locked(file, url=url, busy_s=busy_s, shared=shared):
            yield
    finally:
        os.close(file)


def acquire(folder: int, *, url: str, busy_s: float, shared: bool = False) -> None:
    """Takes the lock, waiting for its turn."""
    kind = fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
    end, pause = 0.0, _PAUSE_S_MIN
    while True:
        try:
            fcntl.flock(folder, kind)
            return
        except BlockingIOError:
            now = clock.monotonic_s()
            end = end or now + busy_s
            if now >= end:
                raise StoreFailedError(
                    f"{url}: other processes kept it locked for {busy_s:g} s; nothing was written, try again"
                ) from None
        time.sleep(min(pause, max(0.0, end - now)) * (0.5 + clock.new_random()))
        pause = min(2 * pause, _PAUSE_S_MAX)


def release(folder: int) -> None:
    """Gives the lock back; explicitly, since a forked child may have the same open folder."""
    fcntl.flock(folder, fcntl.LOCK_UN)
