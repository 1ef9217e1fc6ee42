"""Actions in doubt: started, and not known to have ended. What their class demands before they may run again.

It decides by the log, by what `verify` says, and by what a person has sent meanwhile; never by itself.
"""

from __future__ import annotations

from perdure import clock, values
from perdure.errors import Suspended
from perdure.log.action import STRICTNESS, Action, Actions, Outcome, outcome_body
from perdure.log.marks import key_mark
from perdure.session.rules.call import Call, Done, NotDone
from perdure.session.rules.ground import Ground
from perdure.session.rules.request import AwaitTime, Draft, Steps, Verify


class Doubts(Ground):
    """The doubts of an open session."""

    def __init__(self, *, form: str, guard: values.Guard = values.ALLOW) -> None:
        super().__init__(form=form, guard=guard)
        self._undoing: tuple[bytes, ...] = ()

    def decide(self, call: Call, action: Action, known: Outcome | None) -> Steps:
        """None: it may run, now; or the outcome that was decided on. Raises `Suspended` when a person must decide."""
        if known and known.nothing_happened:
            return None
        if max(call.effect, action.effect, key=STRICTNESS.index) != "once" and not action.is_perhaps_done:
            return None
        try:
            return (yield from self.settle_doubt(call, action))
        except Suspended:
            known = yield from self._decided_meanwhile(action)
            if known is None:
                raise
            return None if known.nothing_happened else known

    def _decided_meanwhile(self, action: Action) -> Steps:
        """What a person has sent about a doubt that the code has come to; None if nothing."""
        if self.stack or self.inbox.is_waiting:
            return None
        before, was = self.head, action.known
        yield from self.inbox.wait(0.0)
        known = Actions((yield from self.whole()))[action.seq].known
        return None if self.head == before and known == was else known

    def settle_doubt(self, call: Call | None, action: Action) -> Steps:
        """Asks `verify`; raises `Suspended` when it cannot tell. None: it did not happen and may run."""
        yield from self._await_deadline(action)
        said = None
        is_over = not self.flights.goes_on(action.seq)  # what still goes on cannot be told of
        if call and call.options.verify and is_over and not action.is_perhaps_done:  # which has another key, and time
            said = yield Verify(call, action)
        if isinstance(said, Done):
            at = f"result of verify for {action.name}"
            outcome = Outcome("result", self.guard.kept(values.encode(said.result, at=at), at=at).data)
        elif isinstance(said, NotDone):
            outcome = Outcome("not done")
        else:
            raise Suspended((action.seq,))
        body = {"started": action.seq, **outcome_body(outcome), "by": "verify", "why": ""}
        yield from self.commit(Draft("settled", body, self._marks(action)))
        return None if outcome.how == "not done" else outcome

    def _await_deadline(self, action: Action) -> Steps:
        """One in doubt may still be running where it was started, until its time is over or that process is."""
        left_s = (action.started_us - clock.now_us()) / 1e6 + (action.timeout_s or 0.0)
        if left_s <= 0 or action.timeout_s is None:
            return
        owners = [e for e in (yield from self.whole()) if e.kind == "owned" and e.seq < max(action.seq, action.tried)]
        if owners and owners[-1].epoch < self.epoch:
            yield AwaitTime(min(left_s, action.timeout_s), owners[-1]["owner"])

    def _marks(self, action: Action) -> tuple[bytes, ...]:
        """What the records of an action are looked up by: its key; for an undo, the key of what it undoes."""
        if action.undoes is not None:
            return self._undoing
        return (key_mark(action.key),) if action.key is not None else ()
