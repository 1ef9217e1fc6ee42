"""What all of the core's logic stands on: the records, where the running code is, and how it leaves.

It decides nothing about a single call: `core.py` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from perdure import values
from perdure.errors import DivergedError, RefusedError, Stopped, StoppedError, Suspended, SuspendedError
from perdure.session.rules import inside
from perdure.session.rules.attempt import divergence
from perdure.session.rules.flights import Flights
from perdure.session.rules.inbox import Inbox
from perdure.session.rules.request import AwaitSiblings, Commit, Draft, ReadAll, Steps
from perdure.session.rules.status import status

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.log.action import Action
    from perdure.log.entry import Entry
    from perdure.session.rules.call import Call
    from perdure.session.rules.item import Sent
    from perdure.session.rules.ledger import Ledger

What: TypeAlias = "str | Callable[[], str]"
"""What the code came to, as text, or what makes it."""


class Ground:
    """The log that an open session writes, and its code's place in it."""

    ledger: Ledger

    def __init__(self, *, form: str, guard: values.Guard = values.ALLOW) -> None:
        self.form, self.guard = form, guard
        self.left = False
        """Whether any branch was ever left: only then can effects stand on another branch."""
        self.happened = False
        self.head = 0
        self.epoch = 0
        self.flights = Flights()
        self.leaving: BaseException | None = None
        self._cut: set[int] = set()
        self.inbox = Inbox(self)
        self._put_off: list[Draft] = []
        self._whole: list[Entry] | None = None
        self.on_written: Callable[[list[Entry]], None] | None = None
        """Who reads along, once records are durable."""

    # --- records ------------------------------------------------------------------------------------------------------

    def commit(
        self, *drafts: Draft, then: Callable[[list[Entry]], None] | None = None, taken: tuple[int, ...] = ()
    ) -> Steps:
        """One commit: what was put off, then these, which take these items out of the inbox."""
        drafts = (*self._put_off, *drafts)

        def written(entries: list[Entry]) -> None:
            if self._put_off:
                these = set(map(id, drafts))
                self._put_off = [draft for draft in self._put_off if id(draft) not in these]
            self.head = entries[-1].seq
            for entry in entries:
                self.ledger.add(entry)
            if self._whole is not None:
                self._whole.extend(entries)
            if self.on_written is not None:
                self.on_written(entries)
            if then:
                then(entries)

        self.inbox.heard((yield Commit(drafts, written, taken)))

    def put_off(self, draft: Draft) -> int:
        """Lets a record ride in the next commit. Its number."""
        self._put_off.append(draft)
        return self.head + len(self._put_off)

    def waiting(self, kind: str) -> list[tuple[int, Draft]]:
        """The records of this kind that ride in the next commit, with their numbers."""
        numbered = enumerate(self._put_off, self.head + 1)
        return [(seq, draft) for seq, draft in numbered if draft.kind == kind]

    @property
    def stack(self) -> tuple[int, ...]:
        """The actions that the running code is inside of, the outermost first; () for the agent's own code."""
        return inside.stacks().get(self, ())

    def leave(self, why: BaseException) -> BaseException:
        """For good: what a `finally` or an `except` calls on the way out meets the same again.

        The actions around this place are cut off; those made beside them end in peace.
        """
        if self.form == "handle" and isinstance(why, Suspended):
            why = SuspendedError(f"the session {why}: settle or answer it, then open the session again", why.seqs)
        if self.form == "handle" and isinstance(why, Stopped):
            why = StoppedError(f"the session was stopped: {why}", recorded=why.recorded)
        self.leaving = self.leaving or why
        self._cut.update(self.stack)
        self.flights.moves += 1
        return why

    def may_leave(self, *, inside: bool) -> bool:
        """Whether a run that is to stop may do so here: outside of actions; `inside` of those that may run again, too.

        A start that is not recorded yet is that of a `repeatable` one.
        """
        known = self.ledger.actions
        return all(inside and (seq not in known or known[seq].effect == "repeatable") for seq in self.stack)

    def go_on(self) -> None:
        """Raises again what the run is being left with."""
        if self.leaving is not None and (not self.stack or not self._cut.isdisjoint(self.stack)):
            raise self.leaving

    def refuse_inside(self, what: str) -> None:
        """Raises `RefusedError` when the code is inside an action."""
        if self.leaving is not None:
            self.go_on()
        if stack := inside.stacks().get(self):
            # The start of a `repeatable` one may not be recorded yet.
            action = self.ledger.actions.get(stack[-1])
            where = f"the action {action.name}" if action else "an action"
            raise RefusedError(f"{what} inside {where}: do it in the agent's own code, around the action")

    @property
    def parent(self) -> int | None:
        """The action that the code is inside of."""
        stack = inside.stacks().get(self)
        return stack[-1] if stack else None

    def path(self) -> tuple[str, ...]:
        """The names of the actions that the code is inside of, the outermost first."""
        waiting = dict(self.waiting("action_started"))  # the start of a `repeatable` one may not be recorded yet
        known = self.ledger.actions
        return tuple(known[seq].name if seq in known else str(waiting[seq].body["name"]) for seq in self.stack)

    @property
    def under_way(self) -> set[int]:
        """The actions that are attempted at this moment, or whose end is known and not written yet."""
        return self.flights.around(())

    if TYPE_CHECKING:  # of the core

        def inspected(self, asked: Sent) -> Steps: ...  # noqa: D102 - told in Core

        def value(self, kind: str, draw: Callable[[], Any]) -> Any: ...  # noqa: D102 - told in Core

        def rollback(  # noqa: D102 - told in Core
            self,
            to: str | int,
            *,
            reason: str,
            by: str,
            strategy: Any,
            branch_name: str | None = None,
            told: tuple[Draft, ...] = (),
            taken: tuple[int, ...] = (),
        ) -> Steps: ...

    def before_stop(self, *, reason: str) -> Steps:  # noqa: ARG002 - sessions with a policy use it
        """The records that go before the status of a session that a person stops."""
        yield from ()
        return []

    def stopped(self, name: str, *, reason: str) -> Steps:
        """Records that the run was asked to stop."""
        yield from self.commit(status(name, reason=reason))

    def whole(self) -> Steps:
        """All entries of the log, read once."""
        if self._whole is None:
            self._whole = yield ReadAll()
        return self._whole

    def take_whole(self, entries: list[Entry]) -> None:
        """These are all entries of the log; from now on they are kept in step with it."""
        self._whole = entries

    # --- leftovers ----------------------------------------------------------------------------------------------------

    def check_leftovers(
        self, what: What, *, parent: int | None, before: int | None = None, live: Call | None = None
    ) -> None:
        """Raises `DivergedError` when something recorded inside of `parent` has not been called again."""
        left = self.ledger.first_left(parent, before=before)
        if left is not None:
            raise self.leave(DivergedError(divergence(as_text(what), left, self._like(live), live)))
        if parent is None and live is None and self.ledger.messages:
            self._check_message(self.ledger.messages[0], what, before=before)

    def _check_message(self, message: Entry, what: What, *, before: int | None) -> None:
        if before is None or message.seq < before:
            raise self.leave(
                DivergedError(
                    f"the code came to {as_text(what)}, but the message of record {message.seq} was received here and "
                    "has not been received again; nothing was done. Make the code receive it as before"
                )
            )

    def siblings_first(self, what: What, *, before: int | None = None, live: Call | None = None) -> Steps:
        """Calls made beside this one claim what is recorded; then `check_leftovers`. Whether it had to wait."""
        parent, waited = self.parent, False
        if not self.ledger.has_more(parent):
            return False
        while self.ledger.first_left(parent, before=before) is not None and (yield AwaitSiblings()):
            waited = True
            self.go_on()
        self.check_leftovers(what, parent=parent, before=before, live=live)
        return waited

    def _like(self, live: Call | None) -> Action | None:
        if live is None:
            return None
        return next((a for a in self.ledger.leftovers(self.parent) if a.name == live.name), None)


def as_text(what: What) -> str:
    """What the code came to, for people."""
    return what if isinstance(what, str) else what()
