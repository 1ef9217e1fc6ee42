"""Which actions of which session the running code is inside of: known to each thread and task by its context."""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NONE: Final[Mapping[Any, tuple[int, ...]]] = {}

_inside: ContextVar[Mapping[Any, tuple[int, ...]]] = ContextVar("perdure_inside", default=_NONE)


def stack_of(owner: Any) -> tuple[int, ...]:
    """The actions that the running code is inside of, the outermost first; () for the agent's own code."""
    return _inside.get().get(owner, ())


@contextlib.contextmanager
def running(owner: Any, stack: tuple[int, ...]) -> Iterator[None]:
    """Within it, the code is inside of these actions. Threads and tasks that take over the context are, too."""
    token = _inside.set({**_inside.get(), owner: stack})
    try:
        yield
    finally:
        _inside.reset(token)
