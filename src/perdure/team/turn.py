"""What a role's code runs in: one turn of a role, in which each action is journaled under it.

A turn finds itself (a context variable), so that actions are written and called as they are without one.
"""

from __future__ import annotations

import functools
import inspect
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from perdure.setting import Setting
from perdure.team import outputs
from perdure.team.message import Message, derived_ids
from perdure.team.stored import changed
from perdure.team.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perdure.session.async_session import AsyncSession
    from perdure.team.action import Action
    from perdure.team.role import Role

_current: ContextVar[Turn | None] = ContextVar("perdure_turn", default=None)
_running: ContextVar[Action | None] = ContextVar("perdure_team_action", default=None)
_tally: ContextVar[Tally | None] = ContextVar("perdure_team_tally", default=None)

_signature = functools.lru_cache(maxsize=1024)(inspect.signature)


def current() -> Turn | None:
    """The turn of the running code; None outside of a team's run."""
    return _current.get()


class Turn:
    """One role's part in one round.

    The ids of the messages made in it follow from `seed`, role, round and their order, within each action by
    itself, so that code that runs again makes the same ones. `tally` is what it brings about, `made` are all new
    messages by id. `workspace` is the team's folder, `strategy` the way that the failure policy has it try. With
    `asks_person` whatever would be asked of a model is asked of a person, and nothing is inside of an action, where
    nobody can be asked.
    """

    def __init__(
        self,
        session: AsyncSession,
        profile: str,
        number: int,
        *,
        seed: str,
        model: Any,
        workspace: Path,
        strategy: Any = None,
        person: bool = False,
    ) -> None:
        self.session, self.profile, self.number = session, profile, number
        self.model, self.workspace, self.asks_person = model, workspace, person
        self.strategy = strategy
        self.asked, self._seed = 0, seed
        self.made: dict[str, Message] = {}
        self._all = Tally()

    @property
    def tally(self) -> Tally:
        """That of the running action; outside of one, that of the turn."""
        return _tally.get() or self._all

    def ids(self, *path: str | int) -> Setting[Callable[[], str]]:
        """Within it, messages get ids that follow from this turn and `path`."""
        return derived_ids(self._seed, self.profile, self.number, *path)

    async def take(self, role: Role) -> None:
        """The role takes its turn: this one is `current` meanwhile."""
        with Setting(_current, self), Setting(_tally, None), self.ids():
            await role.run()

    async def perform(self, action: Action, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Runs an action's own code as a journaled action, or answers with what came of it."""
        if _running.get() is action or self.asks_person:  # its own `super().run()`; a person's answers are recorded
            return await run(action, *args, **kwargs)
        path = self.tally.next_path()
        before, ran = action.dump(), False

        async def act(**_given: Any) -> dict[str, Any]:
            nonlocal ran
            ran = True
            with Setting(_running, action), Setting(_tally, Tally(path)) as tally, self.ids(*path):
                output = await run(action, *args, **kwargs)
            own = changed(before, action.dump())
            return {"output": outputs.dump(output)} | ({"set": own} if own else {}) | tally.dump()

        given = _signature(run).bind(action, *args, **kwargs).arguments
        shown = {name: outputs.shown(value) for name, value in list(given.items())[1:]}
        kind = type(action)
        performed = self.session.action(act, name=action.name, effect=kind.effect, **kind.options)
        told = outputs.told(await performed(**shown))
        if not ran:
            action.restore(told.get("set", {}))
        self.tally.add(Tally.load(told))
        return outputs.load(told["output"])
