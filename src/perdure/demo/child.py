"""The process that is killed: runs the example agent on a stage. To resume it, the same is done again.

The agent knows nothing of the book. Its tools are watched from around them, its saves from in front of them.
"""

from __future__ import annotations

import functools
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import perdure
from perdure.demo.book import Book
from perdure.demo.stage import SESSION, Stage, example
from perdure.runtime import entry
from perdure.session.declare import plain
from perdure.session.rules import call as calls
from perdure.session.rules.call import DECLARED

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def watch(module: ModuleType, book: Book) -> None:
    """Has each declared action of the module write into the book when it really begins and ends."""
    for fn in list(vars(module).values()):
        if hasattr(fn, DECLARED):
            fn.__wrapped__ = _watched(fn, book)


def _watched(fn: Any, book: Book) -> Callable[..., Any]:
    inner, options = plain(fn), calls.options_of(fn)

    @functools.wraps(inner)
    def watched(*args: Any, **kwargs: Any) -> Any:
        call = calls.make(fn, args, kwargs, options).match[-1].hex()
        book.write("begin", tool=inner.__name__, call=call)
        try:
            return inner(*args, **kwargs)
        finally:
            book.write("end", tool=inner.__name__, call=call)

    return watched


class Timed:
    """A session whose saves are timed and noted once they are acknowledged."""

    def __init__(self, session: perdure.Session, book: Book) -> None:
        self._session, self._book = session, book

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def save(self) -> int | None:
        """As the session's own."""
        return self._noted(self._session.save)

    def checkpoint(self, name: str) -> int | None:
        """As the session's own."""
        return self._noted(functools.partial(self._session.checkpoint, name))

    def _noted(self, save: Callable[[], int | None]) -> int | None:
        began = time.perf_counter_ns()
        seq = save()
        if seq is not None:
            self._book.write("saved", seq=seq, took_us=(time.perf_counter_ns() - began) // 1000)
        return seq


def main(folder: Path) -> int:
    """Runs the agent until it is completed: 0. Anything else is told on stderr: 1."""
    stage, book = Stage(folder), Book(Stage(folder).book)
    agent = entry.load(f"{example()}:agent")
    watch(sys.modules[agent.__module__], book)

    @functools.wraps(agent)
    def timed(s: perdure.Session) -> Any:
        return agent(Timed(s, book))

    with perdure.open(str(stage.store)) as store:
        outcome = store.run(timed, SESSION, input=stage.input)
    if outcome.error is not None:
        traceback.print_exception(outcome.error)
    elif outcome.status != "completed":
        sys.stderr.write(f"{outcome.status}: {outcome.reason}\n")
    return 0 if outcome.status == "completed" else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
