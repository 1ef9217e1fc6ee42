"""What a provider's message list looks like: where the calls of tools are in it, and where their results belong.

A shape knows one provider. It neither pairs calls with results nor mends anything: `pairing.py` and `repair.py` do,
for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

INTERRUPTED: Final = "[interrupted] This call was interrupted. Whether it had any effect is not known."
"""What a call is answered with whose outcome nobody knows."""

NOT_DONE: Final = "[interrupted] This call was interrupted and had no effect."
"""What one is answered with of which it is known that nothing happened."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call ended, as its model is told: `value` as JSON knows values, `text` the same as a text."""

    text: str
    value: Any = None
    ok: bool = False


UNKNOWN: Final = Ending(INTERRUPTED)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool in a message list: the message's index, its place among the calls there, and what is called.

    `id` is "" where the provider gave none; `arguments` are None where they cannot be read.
    """

    at: int
    within: int
    id: str
    name: str
    arguments: dict[str, Any] | None
    raw: Any
    kind: str = "function"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """One result in a message list: the index of its message, and its place there."""

    at: int
    within: int
    id: str
    name: str
    raw: Any
    made_up: bool = False
    """Whether it is one of those that a repair puts in: a true one takes its place."""


class Shape(Protocol):
    """One provider's messages.

    `needs_ids`: each call has an id of its own, in its message, or (`unique`) in the whole history. `joined`: all
    results of a turn are in one message.
    """

    name: str
    needs_ids: bool
    unique: bool
    joined: bool

    def calls(self, message: Any, at: int) -> list[ToolCall]:
        """The calls in this message, in order."""
        ...

    def results(self, message: Any, at: int) -> list[ToolResult]:
        """The results in this message, in order."""
        ...

    def run_end(self, messages: list[Any], at: int) -> int:
        """The index behind what the model said in one go, from this message on."""
        ...

    def result(self, call: ToolCall, call_id: str, ending: Ending) -> Any:
        """A result for this call, as it stands in a message; None if it cannot be made up."""
        ...

    def renamed(self, message: Any, ids: dict[int, str]) -> Any:
        """The message with other ids for the calls at these places in it."""
        ...

    def result_renamed(self, raw: Any, call_id: str) -> Any:
        """A result with another id."""
        ...

    def takes(self, message: Any) -> bool:
        """Whether results that belong behind the message before go into this one (`joined`)."""
        ...

    def holding(self, message: Any | None, results: list[Any], *, like: Any) -> Any | None:
        """A message with these results, and all else that is in `message`; itself if it is that already.

        None if nothing is left. `like` is the message with the calls.
        """
        ...

    def stray(self, message: Any) -> bool:
        """Whether results in it stand behind something else that they must be before (`joined`)."""
        ...

    def may_call(self, messages: list[Any], at: int) -> bool:
        """Whether a message with calls may be here, behind the one before."""
        ...

    def settled(self, messages: list[Any]) -> list[Any]:
        """The same messages, with such calls where they may be, as far as that can be had without other words."""
        ...


class Anywhere:
    """What is the same for shapes in which calls may be behind whatever message."""

    def may_call(self, messages: list[Any], at: int) -> bool:
        """See `Shape.may_call`."""
        del messages, at
        return True

    def settled(self, messages: list[Any]) -> list[Any]:
        """See `Shape.settled`."""
        return messages


class Plain(Anywhere):
    """What is the same for shapes in which a result is a message of its own."""

    needs_ids: bool = True
    joined: bool = False

    def takes(self, message: Any) -> bool:
        """See `Shape.takes`."""
        del message
        return False

    def holding(self, message: Any | None, results: list[Any], *, like: Any) -> Any | None:
        """See `Shape.holding`: there is nothing else in a message that is a result."""
        del message, results, like
        return None

    def stray(self, message: Any) -> bool:
        """See `Shape.stray`."""
        del message
        return False
