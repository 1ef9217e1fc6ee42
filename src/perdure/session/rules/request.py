"""What the core asks of the outside.

The core is generators that yield these and are sent the answers, so that a thread and an event loop can drive the same
logic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure import quick

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from perdure.log.action import Action, Outcome
    from perdure.log.entry import Body, Entry
    from perdure.session.rules.call import Call

Steps: TypeAlias = "Generator[Request, Any, Any]"
"""A piece of the core's logic: yields requests, is sent their answers, returns its result."""


@quick.dataclass(frozen=True, slots=True)
class Draft:
    """A record to be written. `marks` is what it can be looked up by."""

    kind: str
    body: Body
    marks: tuple[bytes, ...] = ()


@quick.dataclass(frozen=True, slots=True)
class Commit:
    """Write these in one commit.

    Answered once they are durable, with the newest item of the inbox that was ever sent. `then` is called with their
    entries exactly once, when it is known that they were written - also if that is found out only later. `taken` are
    the items of the inbox that go with them.
    """

    drafts: tuple[Draft, ...]
    then: Callable[[list[Entry]], None]
    taken: tuple[int, ...] = ()


@quick.dataclass(frozen=True, slots=True)
class Attempt:
    """Call the function. Answer: how it ended (`Ended`), and how long it took in microseconds.

    Other calls may go on meanwhile. `stack` are the actions that its code is inside of, itself the last. `is_stream`:
    what it returns is iterated over.
    """

    call: Call
    action: Action
    stack: tuple[int, ...]
    is_stream: bool = False


@dataclass(frozen=True, slots=True)
class Verify:
    """Ask the call's `verify` about an action in doubt. Answer: `Done`, `NotDone` or `Unknown`.

    Other calls may go on meanwhile.
    """

    call: Call
    action: Action


@dataclass(frozen=True, slots=True)
class AwaitCut:
    """Wait to be cut short as a recorded attempt was, at most for as long as it took. Answer: nothing came."""

    after_us: int


@dataclass(frozen=True, slots=True)
class AwaitTime:
    """Wait so many seconds, or not at all when this owner is provably gone; others may go on meanwhile.

    Answer: nothing.
    """

    wait_s: float
    owner: str = ""


@dataclass(frozen=True, slots=True)
class AwaitFlights:
    """Wait until a call in flight has ended; others may go on meanwhile. Answer: nothing."""


@dataclass(frozen=True, slots=True)
class AwaitSiblings:
    """Let calls made beside this one claim what is recorded. Answer: False once nobody else will."""


@dataclass(frozen=True, slots=True)
class AwaitItems:
    """Answer: what is in the inbox after this number, and how many of the seconds are left.

    Answered as soon as something is there, at the latest when the time is over.
    """

    after: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class Find:
    """Answer: the entries that carry this mark, in order."""

    mark: bytes


@dataclass(frozen=True, slots=True)
class ReadAll:
    """Answer: all entries of the log."""


@dataclass(frozen=True, slots=True)
class StateAt:
    """Answer: the whole state as of the snapshot of this number, a dict of parts."""

    seq: int


@dataclass(frozen=True, slots=True)
class Capture:
    """Answer: the id of a capture of the files as they are now, durable, or why there is none.

    At an `is_opening`, when `known` was the last: that, and the paths that are missing of those.
    """

    known: bytes | None = None
    is_opening: bool = False


@dataclass(frozen=True, slots=True)
class Foresee:
    """Answer: the paths that somebody else changed, of those that going from one capture to another would change.

    `windows` are the captures before and after each thing that the session did. Raises if it cannot be done.
    """

    now: bytes
    to: bytes
    windows: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Take the files from one capture to another, or finish that. Answer: `workspace.Restored`."""

    now: bytes
    to: bytes
    windows: tuple[tuple[bytes, bytes], ...]


@quick.dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of an attempt, and the live error. `cut_short`: it was cancelled and did not come to its own end."""

    outcome: Outcome
    error: BaseException | None = field(default=None)
    cut_short: bool = False


Waiting: TypeAlias = AwaitCut | AwaitTime | AwaitFlights | AwaitSiblings | AwaitItems
Reading: TypeAlias = Find | ReadAll | StateAt | Capture | Foresee | TakeBack
Request: TypeAlias = Commit | Attempt | Verify | Waiting | Reading
