"""Which actions of which session the running code is inside of: known to each thread and task by its context."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from perdure.setting import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

_NONE: Final[Mapping[Any, tuple[int, ...]]] = {}

_inside: ContextVar[Mapping[Any, tuple[int, ...]]] = ContextVar("perdure_inside", default=_NONE)


stacks: Final = _inside.get
"""The actions that the running code is inside of, the outermost first, by session; none for an agent's own code."""


def running(owner: Any, stack: tuple[int, ...]) -> Setting[Mapping[Any, tuple[int, ...]]]:
    """Within it, the code is inside of these actions."""
    return Setting(_inside, {**_inside.get(), owner: stack})
