"""Work in a process of its own, killed at one of the points that it comes to; and a store to do it on again."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from perdure import faults, values
from perdure.testing.lives import forked


def reached(work: Callable[[], object], *, kill: tuple[str, int] | None = None) -> Counter[str]:
    """How often each point was come to; killed at this point, for the so-manieth time, nothing."""
    count = Counter[str]()

    def hook(point: str) -> None:
        count[point] += 1
        if kill == (point, count[point]):
            os.kill(os.getpid(), signal.SIGKILL)

    def counted() -> bytes:
        faults.hook = hook
        work()
        return values.encode(dict(count))

    told, status = forked(counted)
    assert bool(status) == (kill is not None), (status, told)
    return Counter(values.decode(told)) if kill is None else Counter()


def copy_of(path: Path, folder: Path) -> Path:
    """The same store in a folder of its own, with all that lies beside it."""
    shutil.copytree(path.parent, folder)
    return folder / path.name
