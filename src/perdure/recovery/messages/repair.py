"""A message list made whole: each call has one result, directly behind it and in order.

Messages that are right stay the very objects that they were. What is left out, because no provider takes it, are
results only, of no call or of one that has another, and that is logged. Texts, images and calls always stay.
"""

from __future__ import annotations

import logging
from typing import Any

from perdure.recovery.messages.pairing import Paired, Turn
from perdure.recovery.messages.shape import Ending, Shape, ToolCall, ToolResult

_log = logging.getLogger("perdure.recovery")


def opened(paired: Paired) -> list[ToolCall]:
    """The calls without a result, in order."""
    return [
        call for turn in paired.turns for call, result in zip(turn.calls, turn.results, strict=True) if result is None
    ]


def made_whole(shape: Shape, messages: list[Any], paired: Paired, endings: list[Ending]) -> list[Any]:
    """The list as a strict provider takes it; `endings` are those of the open calls. Others are left as they are."""
    making = _Making(shape, messages, paired, endings)
    for turn in paired.turns:
        making.add(turn)
    for _, double in paired.doubles:
        _tell_left_out("a second result of", double)
    for orphan in paired.orphans:
        _tell_left_out("a result without", orphan)
    return shape.settled(making.made)


def _tell_left_out(what: str, result: ToolResult) -> None:
    _log.warning("left out of message %d: %s call %s", result.at, what, result.id or result.name)


class _Making:
    """The new list as far as it is made."""

    def __init__(self, shape: Shape, messages: list[Any], paired: Paired, endings: list[Ending]) -> None:
        self.made: list[Any] = []
        self._shape, self._old = shape, messages
        self._taken = 0
        """Up to here, messages were taken in ahead of their turn."""
        self._others = _others(paired)
        self._endings = {(call.at, call.within): ending for call, ending in zip(opened(paired), endings, strict=True)}

    def add(self, turn: Turn) -> None:
        """Takes in one turn, with the results of its calls behind it."""
        for at in range(max(turn.start, self._taken), turn.end):
            self._add_message(at, turn)
        if turn.calls:
            self._add_results(turn)

    def _add_message(self, at: int, turn: Turn) -> None:
        message = self._old[at]
        named = zip(turn.calls, turn.ids, strict=True)
        if ids := {call.within: name for call, name in named if call.at == at and call.id != name}:
            message = self._shape.renamed(message, ids)
        if self._shape.results(message, at):
            kept = self._kept(at)
            if not self._shape.joined:
                self.made += kept
                return
            message = self._shape.holding(message, kept, like=message)
        self.made += [] if message is None else [message]

    def _add_results(self, turn: Turn) -> None:
        each = zip(turn.calls, turn.results, turn.ids, strict=True)
        results = [made for one in each if (made := self._result(*one)) is not None]
        if not self._shape.joined:
            self.made += results
            return
        into = None
        if turn.end < len(self._old) and self._shape.takes(self._old[turn.end]):
            into, self._taken = self._old[turn.end], turn.end + 1
            results = [*self._kept(turn.end), *results]
        made = self._shape.holding(into, results, like=self._old[turn.calls[-1].at])
        self.made += [] if made is None else [made]

    def _result(self, call: ToolCall, result: ToolResult | None, name: str) -> Any:
        if result is None:
            return self._shape.result(call, name, self._endings[call.at, call.within])
        return result.raw if name == call.id else self._shape.result_renamed(result.raw, name)

    def _kept(self, at: int) -> list[Any]:
        """The results in this message that belong to what was sent before."""
        return [each.raw for each in self._shape.results(self._old[at], at) if (at, each.within) in self._others]


def _others(paired: Paired) -> set[tuple[int, int]]:
    """The results that are neither moved nor left out."""
    dealt_with = [result for _, result in paired.doubles] + paired.orphans
    dealt_with += [result for turn in paired.turns for result in turn.results if result is not None]
    every = {(result.at, result.within) for result in paired.results}
    return every - {(result.at, result.within) for result in dealt_with}
