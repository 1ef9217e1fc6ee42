"""What a role's code runs in: one turn of a role, in which each action is journaled under it.

A turn finds itself (a context variable), so that actions are written and called as they are without one.
"""

from __future__ import annotations

import contextlib
import inspect
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from perdure.team import outputs
from perdure.team.message import Message, derived_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.session.async_session import AsyncSession
    from perdure.team.action import Action

_current: ContextVar[Turn | None] = ContextVar("perdure_turn", default=None)
_running: ContextVar[Action | None] = ContextVar("perdure_team_action", default=None)


def current() -> Turn | None:
    """The turn of the running code; None outside of a team's run."""
    return _current.get()


class Turn:
    """One role's part in one round.

    The ids of the messages made in it follow from `seed`, role, round and their order, so that code that runs again
    makes the same ones. `outbox` is what it published, `made` all new messages by id. With `asks_person`
    whatever would be asked of a model is asked of a person, and nothing is inside of an action, where nobody can be
    asked.
    """

    def __init__(
        self, session: AsyncSession, profile: str, number: int, *, seed: str, model: Any, person: bool = False
    ) -> None:
        self.session, self.profile, self.number = session, profile, number
        self.model, self.asks_person = model, person
        self.asked, self._seed = 0, seed
        self.outbox: list[Message] = []
        self.made: dict[str, Message] = {}
        self.spent: dict[str, float] = {}

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Within it, `current` is this turn."""
        token = _current.set(self)
        try:
            with derived_ids(self._seed, self.profile, self.number):
                yield
        finally:
            _current.reset(token)

    def pay(self, tokens_in: int, tokens_out: int, usd: float) -> None:
        """Counts what a model's answer cost."""
        for unit, amount in (("tokens_in", tokens_in), ("tokens_out", tokens_out), ("usd", usd)):
            self.spent[unit] = self.spent.get(unit, 0) + amount

    async def perform(self, action: Action, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Runs an action's own code as a journaled action, or answers with what came of it."""
        if _running.get() is action or self.asks_person:  # its own `super().run()`; a person's answers are recorded
            return await run(action, *args, **kwargs)
        before, ran = action.dump(), False

        async def act(**_given: Any) -> dict[str, Any]:
            nonlocal ran
            ran = True
            token = _running.set(action)
            try:
                output = await run(action, *args, **kwargs)
            finally:
                _running.reset(token)
            after = action.dump()
            changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
            return {"output": outputs.dump(output)} | ({"set": changed} if changed else {})

        given = inspect.signature(run).bind(action, *args, **kwargs).arguments
        shown = {name: outputs.shown(value) for name, value in list(given.items())[1:]}
        kind = type(action)
        performed = self.session.action(act, name=action.name, effect=kind.effect, **kind.options)
        told = await performed(**shown)
        if not ran:
            action.restore(told.get("set", {}))
        return outputs.load(told["output"])
