"""A store as those see it who decide and command: what waits for them, what sessions are told, where they go back to.

What runs hears of it through the session's inbox (`sending.py`); what nobody runs is written to at once.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from perdure.errors import HeldError, RefusedError, UndecidedError
from perdure.log.action import Actions
from perdure.runtime import kin, sending
from perdure.runtime.outcome import Outcome, Question
from perdure.runtime.resulting import checked
from perdure.session.keeping.opening import append_one, find
from perdure.session.rules import call as calls
from perdure.session.rules import lost, settling
from perdure.session.rules.shared import session_of
from perdure.session.rules.status import OVER
from perdure.stores.ids import check_session_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.log.entry import Entry
    from perdure.runtime import operator
    from perdure.runtime.listed import SessionInfo
    from perdure.session.keeping.lease import Keeper
    from perdure.session.rules.request import Draft
    from perdure.session.table import Table
    from perdure.stores.contract import Store as Backend


SETTLED = tuple(settling.TOLD)
"""What a person says about an action in doubt."""


class Deciding:
    """The part of `AgentStore` by which people take the wheel."""

    backend: Backend
    keeper: Keeper
    _lease_s: float

    if TYPE_CHECKING:  # of the other parts

        @property
        def _owner(self) -> str: ...
        @property
        def url(self) -> str: ...  # noqa: D102 - told in AgentStore

        def info(self, session: str) -> SessionInfo: ...  # noqa: D102 - told in AgentStore
        def log(self, session: str, *, after: int = 0) -> Iterator[Entry]: ...  # noqa: D102
        def sessions(  # noqa: D102
            self, *, status: str | None = None, prefix: str = "", parent: str | None = None
        ) -> Table[SessionInfo]: ...
        def entry_of(self, session: str) -> Callable[..., Any]: ...  # noqa: D102
        def resume(self, session: str, *, accept_change: bool = False, wait_s: float = 0.0) -> Outcome: ...  # noqa: D102

    # --- deciding -----------------------------------------------------------------------------------------------------

    def questions(self, session: str) -> tuple[Question, ...]:
        """What waits for a person in this session, and in those that it started."""
        found = list(self._own_questions(session))
        for child in self.sessions(parent=session, status="waiting"):
            found += self.questions(child.id)
        return tuple({(question.session, question.seq): question for question in found}.values())

    def _own_questions(self, session: str) -> tuple[Question, ...]:
        summary = find(self.backend, check_session_id(session))
        if summary is None or not summary.waits:
            return ()
        actions, asked = self._decidable(session)
        found = []
        for seq in summary.waits:
            if seq in asked and summary.status not in OVER:  # nobody waits for an answer any more
                found.append(_question(asked[seq], session))
            elif seq in actions and (of_key := self._questions_of_key(actions, seq)):
                found += of_key
            elif seq in actions:
                key = actions[seq].idempotency_key
                doubt = _doubt(actions, seq)
                found.append(Question(seq, "doubt", doubt, list(SETTLED), session=session, idempotency_key=key))
        return tuple(found)

    def _questions_of_key(self, actions: Actions, seq: int) -> tuple[Question, ...]:
        """What waits in the session of the key of an effect that is one in the whole store."""
        effect = actions[actions[seq].undoes or seq]
        if effect.key is None or actions[seq].effect != "idempotent":  # which never waits for anybody itself
            return ()
        return self._own_questions(session_of(effect.key))

    def settle(
        self,
        session: str,
        seq: int,
        how: str,
        *,
        result: Any = None,
        by: str = "",
        why: str = "",
        unchecked: bool = False,
    ) -> None:
        """Decides about an action in doubt.

        `done` (its call is answered with `result`), `not-done` (it runs again) or `abandoned` (it is never run, its
        call raises `AbandonedError`). Durable on return. Whoever runs the session takes the decision as it does an
        answer, if the action is still in doubt then. The note of lost records is settled as `not-done` to say that no
        effect in them counts.

        Where the function of the action is known here (declared, or loaded in the module that the session runs) and
        says what it returns, the `result` must be that: JSON is made into it, what cannot be is refused; `unchecked`
        takes it as it is. Raises `UndecidedError`; `HeldError` when somebody runs it, for such a note, or an action
        that has an outcome.
        """
        if how not in SETTLED:
            raise UndecidedError(f"settle as {how!r}: it is done, not-done or abandoned")
        actions, _ = self._decidable(session)
        action = actions.get(seq)
        if action is None and how == "not-done" and lost.is_note(self.log(session, after=seq - 1), seq):
            return self._write(session, lost.decided(by=by, why=why))
        if action is None:
            raise UndecidedError(
                f"{session}: record {seq} is not the start of an action; perdure show {session} lists what is in doubt"
            )
        if action.known and how != "abandoned" and action.known.how not in ("unstorable", "error"):
            raise UndecidedError(f"{session}: {_doubt(actions, seq)} is not in doubt: {action.known.how}")
        if how == "done" and not unchecked:
            summary = find(self.backend, session)
            result = checked(session, summary.entry if summary is not None else "", action.name, result)
        decided = settling.decision(how, result=result, why=why, guard=self.backend.guard)
        try:
            self._write(session, settling.settlement(actions, seq, decided, by=by))
        except HeldError:
            if action.known is not None:
                raise
            sending.decision(self, session, settling.sent(seq, decided, by=by))

    def answer(self, session: str, question: int | str, answer: Any, *, by: str = "") -> None:
        """Answers a question, by its number or key, once; a session that runs gets it, too. Durable on return.

        Raises `UndecidedError` when it does not fit the question or there is an answer already.
        """
        sending.answer(self, session, question, answer, by=by)

    # --- telling a session --------------------------------------------------------------------------------------------

    def send(self, session: str, message: Any, *, key: str | None = None, by: str = "") -> bool:
        """Sends a message, which `s.receive()` hands to the session's code once, in order. Durable on return.

        A `key` makes it one message however often it is sent: False when it was sent before. Raises `RefusedError` for
        a session that is over, `SessionUnknownError`, `UnstorableError`.
        """
        return sending.message(self, session, message, key=key, by=by)

    def save(self, session: str, *, reason: str = "", by: str = "") -> bool:
        """Asks whoever runs the session for a snapshot of its state as it is now, to look at: at its next call or save.

        False when nobody runs it: then the newest snapshot is all there is. Nothing goes on from such a snapshot. What
        is durable on return is the wish. Raises `RefusedError` for a session that is over.
        """
        return sending.save(self, session, reason=reason, by=by)

    def pause(self, session: str, *, reason: str = "", by: str = "") -> None:
        """Pauses a session: one that runs at its next action, save or wait, else at once. It goes on when it is run.

        So are the sessions that it started. Durable on return. Raises `RefusedError` for a session that is over, one
        that failed, and a handle that nobody has open: they do not go on by themselves.
        """
        sending.command(self, session, "pause", reason=reason, by=by)
        self._command_children(session, "pause", reason=reason, by=by)

    def cancel(self, session: str, *, reason: str = "", by: str = "") -> None:
        """Ends a session for good, as `pause` does, and those that it started; what they did is kept.

        It can only be rolled back.
        """
        under = [child for child in kin.descendants(self.backend, session) if not kin.is_over(self.backend, child)]
        if not (under and self.info(session).status == "cancelled"):  # else what was begun is brought to its end
            sending.command(self, session, "cancel", reason=reason, by=by)
        self._cancel_children(session, reason=reason, by=by)

    def _cancel_children(self, session: str, *, reason: str, by: str) -> None:
        self._command_children(session, "cancel", reason=reason, by=by)

    def _command_children(self, session: str, what: str, *, reason: str, by: str) -> None:
        why = f"with {session}" + (f": {reason}" if reason else "")
        for child in kin.descendants(self.backend, session):
            if not kin.is_over(self.backend, child):
                with contextlib.suppress(RefusedError):  # it has come to its end meanwhile
                    sending.command(self, child, what, reason=why, by=by)

    # --- points -------------------------------------------------------------------------------------------------------

    def checkpoint(self, session: str, name: str, *, at: int | str = -1, by: str = "") -> int:
        """Names a restore point that is there (see `operator.checkpoint`). Its number. Durable on return."""
        from perdure.runtime import operator

        return operator.checkpoint(self, session, name, at=at, by=by)

    def rollback(
        self,
        session: str,
        to: int | str,
        *,
        reason: str = "",
        by: str = "operator",
        branch: str | None = None,
        strategy: Any = None,
    ) -> operator.Rollback:
        """Goes back to a restore point (see `operator.rollback`). Durable on return.

        Whoever runs the session is asked, and goes back at the next action, save or wait of its code.

        `branch` is a name for the branch that begins there, `strategy` what the code is told by `s.strategy`; without
        one, code under a failure policy goes on with the one in force, and other code finds None. The
        sessions that it started after that point are cancelled, those that run through their inbox; what they did
        stands, and is told when the session is opened.
        """
        from perdure.runtime import operator

        done = operator.rollback(self, session, to, reason=reason, by=by, branch=branch, strategy=strategy)
        for child in operator.left_children(self, session, done):
            if not kin.is_over(self.backend, child):
                self.cancel(child, reason="its parent was rolled back", by=session)
        return done

    def retry(
        self,
        session: str,
        *,
        strategy: Any = None,
        at: int | str = -1,
        reason: str = "",
        by: str = "operator",
        accept_change: bool = False,
        wait_s: float = 0.0,
    ) -> Outcome:
        """Takes a session back to a point, gives it a strategy to try (`s.strategy`), and runs it on from there.

        `at` as for `rollback`: the newest restore point. Raises as `rollback` and `resume` do, `HeldError` for a
        session that runs: that is asked to go back by `rollback`; and `RefusedError` for one that is over.
        """
        info = self.info(session)
        if info.owner:
            raise HeldError(f"{session} is being run by {info.owner}: ask it to go back, with rollback and a strategy")
        if info.status in OVER:
            raise RefusedError(
                f"{session} is {info.status}: there is nothing to try again. If it is to be done once more after all: "
                f"perdure rollback {session} POINT, then perdure resume {session}"
            )
        self.entry_of(session)  # before anything is written
        self.rollback(session, at, reason=reason, by=by, strategy=strategy)
        return self.resume(session, accept_change=accept_change, wait_s=wait_s)

    def _decidable(self, session: str) -> tuple[Actions, dict[int, Entry]]:
        read = list(self.log(session))
        return Actions(read), {e.seq: e for e in read if e.kind == "asked"}

    def _write(self, session: str, draft: Draft) -> None:
        """Appends a record of a person to a session that nobody runs."""
        append_one(self.keeper, session, draft, owner=self._owner, lease_s=self._lease_s)


def _question(asked: Entry, session: str) -> Question:
    why = f" (the answer before was refused: {asked['refused']})" if asked["refused"] else ""
    return Question(asked.seq, "question", asked["prompt"] + why, asked["choices"], asked["schema"], session)


def _doubt(actions: Actions, seq: int) -> str:
    action = actions[seq]
    if action.is_perhaps_done:
        return (
            f"{calls.call_text(action.name, action.args)} may have happened in records that cannot be read. Look, then "
            f"settle it. ({lost.HINT})"
        )
    return (
        f"{calls.call_text(action.name, action.args)} was started and may or may not have happened. Look, then settle "
        "it. (If running it twice does no harm, declare it: @perdure.action(effect='repeatable'))"
    )
