"""Processes that have nothing of this one but its environment, and the code that they need.

Where there are forks they are those of a server process that has loaded the code and does nothing else: a tenth of the
work of a new interpreter.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from typing import Any, Final

FRESH: Final[Any] = multiprocessing.get_context(
    "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
)
"""Pipes, queues and barriers for them are of this context."""

_LOADED: Final = ["perdure.testing.conformance"]


def begun(work: Callable[..., None], *given: Any) -> Any:
    """A process, begun, that does `work`; all that is given to it can be pickled."""
    FRESH.set_forkserver_preload(_LOADED)
    process = FRESH.Process(target=_do, args=(dict(os.environ), work, given))
    process.start()
    return process


def _do(environment: dict[str, str], work: Callable[..., None], given: tuple[Any, ...]) -> None:
    """The server's environment may be an older one."""
    os.environ.clear()
    os.environ.update(environment)
    work(*given)
