"""Actions: what a role can do. Inside a team's run each `run` is journaled."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from perdure.team import names
from perdure.team import turn as turns
from perdure.team.llm import LLM
from perdure.team.stored import put, stored, unstorable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Action(BaseModel):
    """One thing that a role can do: subclass it and write `async def run(self, …)`.

    In a team's run, `run` is journaled: it never runs again once it has returned, and what it returned is recorded
    (text, a `Message`, an `ActionOutput`, a pydantic model, or any value that can be stored), and with it what it
    changed in the action's own fields. `effect` says what running it twice would do. The default, `repeatable`, is
    right for code that asks models and calls declared actions (each recorded by itself, and not repeated); a class
    that sends or pays by itself says `effect = "once"`. `options` are more of `perdure.action`: key, verify, retries …
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="allow")

    effect: ClassVar[str] = "repeatable"
    options: ClassVar[Mapping[str, Any]] = {}

    name: str = ""
    i_context: Any = ""
    prefix: str = ""
    desc: str = ""
    llm_name_or_type: str | None = None
    llm: Any = Field(default=None, exclude=True, repr=False)

    _role: Any = PrivateAttr(default=None)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        names.register(cls)
        if "run" in cls.__dict__:
            cls.run = _journaled(cls.__dict__["run"])  # type: ignore[method-assign]

    def model_post_init(self, context: Any) -> None:
        """Gives it the name of its class where it has none."""
        super().model_post_init(context)
        self.name = self.name or type(self).__name__

    def set_prefix(self, prefix: str) -> Action:
        """What models are told before each question: who is asking."""
        self.prefix = prefix
        return self

    @property
    def context(self) -> Any:
        """What the team's code has put there for all; None before it was hired."""
        return getattr(self._role, "context", None)

    @property
    def strategy(self) -> Any:
        """See `Role.strategy`."""
        turn = turns.current()
        return None if turn is None else turn.strategy

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        """What is done. To be written by each class."""
        raise NotImplementedError(f"{type(self).__name__} has no run()")

    async def _aask(self, prompt: str, system_msgs: Sequence[str] | None = None) -> str:
        """Asks the model of this action (its role's, the team's) with the prefix before the question."""
        return await self._llm().aask(prompt, [*([self.prefix] if self.prefix else []), *(system_msgs or ())])

    async def ask(self, prompt: str, output_type: Any = str, *, retries: int = 2) -> Any:
        """As `_aask`, for an answer of a type: see `LLM.ask`."""
        return await self._llm().ask(prompt, output_type, system=self.prefix, retries=retries)

    def _llm(self) -> LLM:
        model = self.llm or self.llm_name_or_type
        if model is None and self._role is not None:
            return self._role.llm  # type: ignore[no-any-return]
        return model if isinstance(model, LLM) else LLM(model)

    # --- as data ------------------------------------------------------------------------------------------------------

    @property
    def unsaved(self) -> list[str]:
        """Its fields that cannot be stored."""
        return unstorable(self, "llm")

    def dump(self) -> dict[str, Any]:
        """Its fields, as far as they can be stored."""
        return stored(self, "llm")

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Puts these into it, over what its constructor has made."""
        put(self, fields, "llm")

    def __str__(self) -> str:
        return type(self).__name__


class UserRequirement(Action):
    """What the idea of a team is caused by."""


names.register(UserRequirement, name=names.USER_REQUIREMENT)


def _journaled(run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    async def journaled(self: Action, *args: Any, **kwargs: Any) -> Any:
        turn = turns.current()
        if turn is None:
            return await run(self, *args, **kwargs)
        return await turn.perform(self, run, args, kwargs)

    return journaled
