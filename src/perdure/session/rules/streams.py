"""Streams, by the rules of the log: how one begins, and what becomes of an attempt at it.

How chunks are read, and handed to the code, is for whoever drives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.errors import DivergedError, Suspended
from perdure.session.rules.attempt import screened
from perdure.session.rules.request import AwaitCut, Steps

if TYPE_CHECKING:
    from perdure.log.action import Action, Outcome
    from perdure.session.rules.call import Call
    from perdure.session.rules.core import Journal
    from perdure.session.rules.request import Ended


class Streams:
    """The streams of an open session."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def begin(self, call: Call) -> Steps:
        """(the action, its outcome): what is recorded; or a start, and None. What was started is in flight."""
        journal = self._journal
        action = journal.claim(call)
        try:
            action, outcome = yield from journal.begin(call, action, stream=True)
        except Suspended as suspended:
            raise journal.leave(suspended) from None
        journal.go_on()
        return action, outcome

    def end(self, call: Call, action: Action, ended: Ended, *, duration_us: int) -> Steps:
        """Records how an attempt ended. The next one, after a wait, if its retries have one; else None."""
        journal, again = self._journal, False
        ended = screened(call, ended, journal.guard)
        try:
            yield from journal.take_down(call, action, ended, duration_us=duration_us)
            again = not ended.outcome.final
            return (yield from journal.again(call, action)) if again else None
        finally:
            if not again:
                journal.flights.end(action.seq)

    def give_up(self, action: Action) -> None:
        """Nothing is recorded of it: it was started, and is not known to have ended."""
        self._journal.flights.end(action.seq)

    def read_on(self, call: Call, action: Action, outcome: Outcome) -> Steps:
        """The code reads on where it had left the stream. Unless it is cancelled there again, that is another way."""
        stream = outcome.stream
        yield AwaitCut(stream.cut_us or 0 if stream else 0)
        journal = self._journal
        journal.go_on()
        raise journal.leave(
            DivergedError(
                f"the code reads on in {call.text()} (record {action.seq}), which it had left at this place. "
                "The rest was never read, and is not there any more"
            )
        )
