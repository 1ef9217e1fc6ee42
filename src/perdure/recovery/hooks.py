"""What an agent needs besides its state, once that is restored: connections, caches, tools and models of its own.

It only declares them; `readying.py` calls them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perdure import limits
from perdure.errors import RefusedError

if TYPE_CHECKING:
    from perdure.session.restored import Restored
    from perdure.session.rules.stateful import Stateful
    from perdure.session.rules.version import Check


@dataclass(frozen=True, slots=True)
class Scene:
    """What a hook is given: the session, what its restore did, and the state, to look at."""

    session: str
    restored: Restored
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Hooks:
    """Called at each opening that restores, in this order: validate, tools, models, reconnect, warm.

    Those of a session in an event loop may be coroutine functions, except `validate` and `get_state`. Raises
    `RefusedError` for what cannot be one.
    """

    reconnect: Callable[[Scene], Any] | None = None
    """Opens the connections that the agent works with. Its failure ends the run: no older state would help."""

    warm: Callable[[Scene], Any] | None = None
    """Fills caches. Its failure ends the run, as that of `reconnect` does."""

    tools: Mapping[str, Any] = field(default_factory=dict)
    """Tools with a state of their own, by name: objects with `get_state()` and `set_state(state)`. Where a state cannot
    be set, an earlier snapshot is tried."""

    models: Mapping[str, Any] = field(default_factory=dict)
    """Models with a state of their own, as `tools`."""

    validate: Check | None = None
    """What the restored state must be: a function that raises, or returns False, for one that is wrong; or a JSON
    Schema. Where it is not, an earlier snapshot is tried."""

    timeout_s: float | None = None
    """How many seconds each of them may take; None: as configured (`hooks.timeout_s`), else `limits.HOOK_S`."""

    def __post_init__(self) -> None:
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise RefusedError(f"timeout_s={self.timeout_s!r}: it is a number of seconds above 0")
        for name in ("reconnect", "warm"):
            if (hook := getattr(self, name)) is not None and not callable(hook):
                raise RefusedError(f"{name}={hook!r}: it is a function of one argument")
        if inspect.iscoroutinefunction(self.validate):
            raise RefusedError("validate is a coroutine function; what a state must be is decided without awaiting")
        if both := self.tools.keys() & self.models.keys():
            raise RefusedError(f"{min(both)!r} is a tool and a model: each needs a name of its own")
        for name, thing in self.stateful.items():
            _check_stateful(name, thing)

    @property
    def limit_s(self) -> float:
        """How many seconds each of them may take."""
        return limits.HOOK_S if self.timeout_s is None else self.timeout_s

    @property
    def stateful(self) -> dict[str, Stateful]:
        """The tools, then the models, by name."""
        return {**self.tools, **self.models}


def _check_stateful(name: str, thing: Any) -> None:
    for method in ("get_state", "set_state"):
        if not callable(getattr(thing, method, None)):
            raise RefusedError(f"{name}: {type(thing).__name__} has no {method}(), so it has no state to restore")
    if inspect.iscoroutinefunction(thing.get_state):
        raise RefusedError(f"{name}: get_state is a coroutine function; what takes a state awaits nothing")
