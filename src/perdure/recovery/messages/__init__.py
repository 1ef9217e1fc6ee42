"""Histories that a provider accepts: message lists checked and made whole.

Strict providers refuse a conversation in which a call of a tool has no result, two of them, or one in the wrong place:
what a crash, a rollback or an edited history leaves behind. The functions here are pure; what a session's journal knows
of a call comes in through `session`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.recovery.messages.detect import SHAPES, shape_named
from perdure.recovery.messages.pairing import RULES, MessageProblem, judged, pair
from perdure.recovery.messages.repair import made_whole, opened
from perdure.recovery.messages.shape import INTERRUPTED, NOT_DONE, UNKNOWN

__all__ = [
    "INTERRUPTED",
    "NOT_DONE",
    "RULES",
    "SHAPES",
    "MessageProblem",
    "completed",
    "problems",
]


def problems(messages: Iterable[Any], *, shape: str | None = None, continued: bool = False) -> list[MessageProblem]:
    """What a strict provider would refuse about the calls of tools in these messages, in order; nothing is changed.

    `shape` is openai (chat completions), responses, anthropic or google; left out, it is told by the messages. They may
    be dicts or the objects of the provider's package. `continued`: what came before them is at the provider, so a
    result without a call belongs to that. Raises `RefusedError` for an unknown shape or a mixture.
    """
    told = list(messages)
    chosen = shape_named(shape, told)
    return [] if chosen is None else judged(chosen, told, pair(chosen, told, continued=continued))


def completed(messages: Iterable[Any], *, shape: str | None = None, continued: bool = False) -> list[Any]:
    """These messages as a strict provider takes them: each call has one result, directly behind it, in order.

    A new list; messages that are right are the very same objects in it, and with nothing to mend it has just those. A
    call without a result gets one that says that it was interrupted. Results that are misplaced are moved; those that
    belong to no call, and second ones of a call, are left out, which is logged. Nothing else is ever left out. What no
    result can mend stays, and `problems` tells of it. Arguments and errors are those of `problems`.
    """
    told = list(messages)
    chosen = shape_named(shape, told)
    if chosen is None:
        return told
    paired = pair(chosen, told, continued=continued)
    return made_whole(chosen, told, paired, [UNKNOWN] * len(opened(paired)))
