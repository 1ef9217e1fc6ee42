"""Histories that a provider accepts: message lists checked and made whole.

Strict providers refuse a conversation in which a call of a tool has no result, two of them, or one in the wrong place:
what a crash, a rollback or an edited history leaves behind. The functions here are pure; what a session's journal knows
of a call comes in through `session`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from perdure.recovery.messages.detect import SHAPES, shape_named
from perdure.recovery.messages.known import asked, ending
from perdure.recovery.messages.pairing import RULES, MessageProblem, Paired, judged, pair
from perdure.recovery.messages.repair import made_whole, opened
from perdure.recovery.messages.shape import INTERRUPTED, NOT_DONE, UNKNOWN, Ending
from perdure.session.recalling import recalled, recalled_async

if TYPE_CHECKING:
    from perdure.session.async_session import AsyncSession
    from perdure.session.rules.recall import Asked, Told
    from perdure.session.session import Session

__all__ = [
    "INTERRUPTED",
    "NOT_DONE",
    "RULES",
    "SHAPES",
    "MessageProblem",
    "acompleted",
    "completed",
    "problems",
]


def problems(messages: Iterable[Any], *, shape: str | None = None, continued: bool = False) -> list[MessageProblem]:
    """What a strict provider would refuse about the calls of tools in these messages, in order; nothing is changed.

    `shape` is openai (chat completions), responses, anthropic, google or pydantic_ai; left out, it is told by the
    messages. They may be dicts or the objects of the package. `continued`: what came before them is at the provider, so
    a result without a call belongs to that. Raises `RefusedError` for an unknown shape or a mixture.
    """
    told = list(messages)
    chosen = shape_named(shape, told)
    return [] if chosen is None else judged(chosen, told, pair(chosen, told, continued=continued))


def completed(
    messages: Iterable[Any],
    *,
    shape: str | None = None,
    continued: bool = False,
    session: Session | None = None,
    say: Callable[[Any], str] | None = None,
) -> list[Any]:
    """These messages as a strict provider takes them: each call has one result, directly behind it, in order.

    A new list; messages that are right are the very same objects in it, and with nothing to mend it has just those. A
    call without a result gets the one that the journal of `session` knows, and one that says that it was interrupted if
    it knows none; what it knew is recorded, so that a replay gives the same. `say` makes the text of a known result: by
    default a str is one, and all else is JSON. Results that are misplaced are moved; those that belong to no call, and
    second ones of a call, are left out, which is logged. Nothing else is ever left out. What no result can mend stays,
    and `problems` tells of it. Raises what `problems` does, and `RefusedError` inside an action of the session.
    """
    mending = _Mending(messages, shape, continued=continued)
    if session is None or not mending.opened:
        return mending.done([UNKNOWN] * len(mending.opened))
    return mending.told(recalled(session, mending.asked()), say)


async def acompleted(
    messages: Iterable[Any],
    *,
    session: AsyncSession,
    shape: str | None = None,
    continued: bool = False,
    say: Callable[[Any], str] | None = None,
) -> list[Any]:
    """Does what `completed` does, in an event loop."""
    mending = _Mending(messages, shape, continued=continued)
    if not mending.opened:
        return mending.done([])
    return mending.told(await recalled_async(session, mending.asked()), say)


class _Mending:
    """One list that is made whole: what is open in it, and the new list once it is known how that ended."""

    def __init__(self, messages: Iterable[Any], shape: str | None, *, continued: bool) -> None:
        self._messages = list(messages)
        self._shape = shape_named(shape, self._messages)
        self._paired = pair(self._shape, self._messages, continued=continued) if self._shape else Paired([], [])
        self.opened = opened(self._paired)

    def asked(self) -> list[Asked]:
        """The open calls, as a journal is asked about them."""
        return asked([call for turn in self._paired.turns for call in turn.calls], self.opened)

    def told(self, known: list[Told], say: Callable[[Any], str] | None) -> list[Any]:
        """The new list, with what a journal knows."""
        return self.done([ending(each, say) for each in known])

    def done(self, endings: list[Ending]) -> list[Any]:
        """The new list, with these endings of the open calls."""
        if self._shape is None:
            return self._messages
        return made_whole(self._shape, self._messages, self._paired, endings)
