"""A turn that was cut off, gone through once more on what is recorded of it, up to where it was cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure import values
from perdure.errors import Leaving
from perdure.session.face import Face
from perdure.session.rules import call as calls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perdure.log.action import Action
    from perdure.session.rules.call import Options


class CutOff(Leaving):
    """The turn came to a call of which no result is recorded."""


class Recorded:
    """Stands for the session of one turn: calls are answered by what its log has under `parent`; nothing is run."""

    def __init__(self, session: str, actions: Mapping[int, Action], parent: int) -> None:
        self.id = session
        self._left = [action for action in actions.values() if action.parent == parent and action.undoes is None]

    def action(self, fn: Callable[..., Any], /, **options: Any) -> Callable[..., Any]:
        """As of a session."""
        chosen = calls.with_options(calls.options_of(fn), options)

        async def act(*args: Any, **kwargs: Any) -> Any:
            return self._answer(fn, chosen, args, kwargs)

        return act

    async def call(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As of a session."""
        return self._answer(fn, calls.options_of(fn), args, kwargs)

    async def called_plainly(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As of a session."""
        return self._answer(fn, calls.options_of(fn), args, kwargs)

    def _answer(self, fn: Callable[..., Any], options: Options, args: Any, kwargs: Any) -> Any:
        match = calls.make(fn, args, kwargs, options).match
        found = next((action for action in self._left if action.match == match), None)
        if found is None or found.known is None or found.known.how != "result":
            raise CutOff(f"{calls.name_of(fn)} is not recorded")
        self._left.remove(found)
        return values.decode(found.known.value)

    def __getattr__(self, name: str) -> Any:
        if hasattr(Face, name) or name in ("ask", "receive", "spawn", "stream"):
            raise CutOff(f"s.{name} is not recorded here")
        raise AttributeError(name)
