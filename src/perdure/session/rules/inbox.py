"""What others say to a session that runs: messages are handed to the code, answers recorded, commands obeyed.

The owner hears of its inbox by the number that each commit brings back, so no save asks for it. It must not know where
the inbox is kept.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from perdure import values
from perdure.errors import Idle, InboxEmptyError, NoPointError, Stopped
from perdure.log.action import Actions
from perdure.log.branch import branch
from perdure.session.rules import item as items
from perdure.session.rules import settling
from perdure.session.rules.item import Sent
from perdure.session.rules.request import AwaitFlights, AwaitItems, Draft, Steps
from perdure.session.rules.status import status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.log.entry import Entry
    from perdure.session.rules.ground import Ground

_log = logging.getLogger("perdure.inbox")

HAS_MESSAGE: Final = "has_message"
"""The kind of value that tells whether a message was there."""


class Inbox:
    """The inbox of an open session."""

    def __init__(self, journal: Ground) -> None:
        self._journal = journal
        self._newest = 0
        """The newest item that was ever heard of."""
        self._seen = 0
        self._waiting = False
        self._messages: deque[Sent] = deque()
        self._left: deque[Entry] | None = None
        self.waits: tuple[int, ...] = ()
        """The questions that the code waits for at this moment."""

    def enter(self) -> None:
        """The code starts from its top: what is not taken is looked at anew."""
        self._seen, self._left, self.waits, self._waiting = 0, None, (), False
        self._messages.clear()

    @property
    def is_waiting(self) -> bool:
        """Whether a call waits for something to come."""
        return self._waiting

    def heard(self, newest: int) -> None:
        """What a commit told of the inbox."""
        self._newest = max(self._newest, newest)

    def attend(self) -> Steps:
        """Takes what has come, in the agent's own code. Raises `Stopped` when the session is paused or cancelled."""
        if self._newest > self._seen and not self._journal.stack and not self._waiting:
            yield from self.wait(0.0)

    def wait(self, wait_s: float) -> Steps:
        """Takes what is there, waiting for something so many seconds. How many of them are left.

        One at a time: what another call of the session waits for, it takes for all.
        """
        if self._waiting:
            yield AwaitFlights()
            self._journal.go_on()
            return wait_s
        self._waiting = True
        try:
            return (yield from self._take(wait_s))
        finally:
            self._waiting = False
            self._journal.flights.moves += 1

    def _take(self, wait_s: float) -> Steps:
        found, left_s = yield AwaitItems(self._seen, wait_s)
        self._seen = max([self._seen, self._newest, *(sent.number for sent in found)])
        self._messages += [sent for sent in found if sent.what == items.MESSAGE]
        told = [sent for sent in found if sent.what in (items.ANSWER, items.DAMAGED)]
        if told:
            yield from self._journal.commit(*map(items.taken, told), taken=items.numbers(told))
        for decision in (sent for sent in found if sent.what == items.SETTLE):
            yield from self._settle(decision)
        saves = [sent for sent in found if sent.what == items.SAVE]
        if saves:
            beside = yield from self._journal.inspected(saves[-1])
            yield from self._journal.commit(*beside, *map(items.taken, saves), taken=items.numbers(saves))
        commands = [sent for sent in found if sent.what in items.STATUS_OF]
        backs = [sent for sent in found if sent.what == items.ROLLBACK]
        if any(sent.what == items.CANCEL for sent in commands):
            yield from self._obey(commands, left=backs)
        if backs:
            yield from self._go_back(backs)  # a pause is obeyed when the code is entered again
        if commands:
            yield from self._obey(commands)
        return left_s

    def _settle(self, decision: Sent) -> Steps:
        actions = Actions((yield from self._journal.whole()))
        draft = settling.taken(decision, actions, under_way=self._journal.under_way)
        yield from self._journal.commit(draft, taken=(decision.number,))

    def _go_back(self, backs: list[Sent]) -> Steps:
        """Obeys the last of them, and leaves. To a point that is gone by now nobody goes back."""
        *earlier, last = backs
        told, numbers = values.decode(last.value), items.numbers(backs)
        before = [items.not_done(sent, f"#{told['to']} was asked for after it") for sent in earlier]
        try:
            yield from self._journal.rollback(
                told["to"],
                reason=told["reason"],
                by=last.by,
                strategy=told["strategy"],
                branch_name=told["branch"],
                told=(*before, items.taken(last)),
                taken=numbers,
            )
        except NoPointError as gone:
            _log.warning("%s: not rolled back, as was asked by %s: %s", told["to"], last.by, gone)
            yield from self._journal.commit(*before, items.not_done(last, str(gone)), taken=numbers)

    def _obey(self, commands: list[Sent], *, left: Sequence[Sent] = ()) -> Steps:
        """Does what the strongest of them says, and leaves; `left` are rollbacks that it makes void."""
        drafts = items.obeyed(commands, waits=self.waits)
        body = drafts[-1].body
        beside = yield from self._journal.before_stop(reason=body["reason"])
        void = [items.not_done(sent, f"it was {body['status']}") for sent in left]
        yield from self._journal.commit(*beside, *void, *drafts, taken=items.numbers([*left, *commands]))
        raise self._journal.leave(Stopped(body["reason"], status=body["status"], recorded=True))

    # --- messages -----------------------------------------------------------------------------------------------------

    def receive(self, *, wait_s: float) -> Steps:
        """The next message: recorded, or of a branch that was left, or from the inbox. Leaves when there is none."""
        journal = self._journal
        journal.refuse_inside("receive")
        yield from self.attend()
        journal.happened = True
        recorded = journal.ledger.claim_message()
        if recorded is not None:
            return values.decode(recorded["value"])
        yield from journal.siblings_first("receive")
        left = yield from self._left_behind()
        if left:
            entry = left[0]
            yield from journal.commit(items.again(entry.body, seq=entry.seq), then=lambda _: _drop(left))
            return values.decode(entry["value"])
        return (yield from self._next(wait_s))

    def has_message(self, *, recorded: bool = True) -> Steps:
        """Whether `receive` would have one at once: recorded, so that a replay is told the same.

        A step that receives it next, or does nothing any more, need not record it: that tells as much.
        """
        journal = self._journal
        journal.refuse_inside("has_message")
        yield from self.attend()
        left = yield from self._left_behind()
        found = bool(left or self._messages or journal.ledger.messages)
        return journal.value(HAS_MESSAGE, lambda: found) if recorded else found

    def _next(self, wait_s: float) -> Steps:
        """Takes the next message out of the inbox."""
        journal, idle = self._journal, False
        if not self._messages:
            yield from self.wait(0.0)
        if not self._messages and wait_s > 0:
            idle = True
            yield from journal.commit(status("idle"))
        while not self._messages and wait_s > 0:
            wait_s = yield from self.wait(wait_s)
        running = [status("running")] if idle else []
        if not self._messages:
            raise (yield from self._none(*running))
        message = self._messages[0]
        drafts = (items.taken(message), *running)
        yield from journal.commit(*drafts, taken=(message.number,), then=lambda _: _drop(self._messages))
        return values.decode(message.value)

    def _none(self, *running: Draft) -> Steps:
        """What tells that nothing was sent: a run is left, the code of a handle goes on."""
        if self._journal.form != "handle":
            return self._journal.leave(Idle(recorded=bool(running)))
        if running:
            yield from self._journal.commit(*running)
        return InboxEmptyError("nothing was sent to this session; wait for it with wait_s=, or come back later")

    def _left_behind(self) -> Steps:
        """The messages that a branch took which was left, and that the present one has not taken again, in order."""
        if self._left is None:
            entries = (yield from self._journal.whole()) if self._journal.left else []
            mine = {entry["item"] for entry in branch(entries) if _is_message(entry)}
            others = {e["item"]: e for e in entries if _is_message(e) and e["item"] not in mine}
            self._left = deque(others[number] for number in sorted(others))
        return self._left


def _is_message(entry: Entry) -> bool:
    return entry.kind == "received" and bool(entry["what"] == items.MESSAGE)


def _drop(waiting: deque[Any]) -> None:
    waiting.popleft()
