"""Which actions of which session the running code is inside of: known to each thread and task by its context."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_NONE: Final[Mapping[Any, tuple[int, ...]]] = {}

_inside: ContextVar[Mapping[Any, tuple[int, ...]]] = ContextVar("perdure_inside", default=_NONE)


stacks: Final = _inside.get
"""The actions that the running code is inside of, the outermost first, by session; none for an agent's own code."""


class Running:
    """Within it, the code is inside of these actions. Threads and tasks that take over the context are, too."""

    __slots__ = ("_owner", "_stack", "_token")

    def __init__(self, owner: Any, stack: tuple[int, ...]) -> None:
        self._owner, self._stack = owner, stack

    def __enter__(self) -> None:
        self._token = _inside.set({**_inside.get(), self._owner: self._stack})

    def __exit__(self, *_: object) -> None:
        _inside.reset(self._token)
