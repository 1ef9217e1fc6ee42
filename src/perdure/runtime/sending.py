"""What other processes say to a session: a message, an answer, a pause, an end.

All of it goes through the session's inbox. Whoever runs the session notices; where nobody does, it takes effect at once
(messages wait until they are received).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure import faults, limits, values
from perdure.errors import RefusedError, UndecidedError
from perdure.log.marks import answer_mark
from perdure.session.keeping.delivery import deliver
from perdure.session.keeping.lease import new_owner
from perdure.session.keeping.opening import find
from perdure.session.rules import item as items
from perdure.session.rules import schema
from perdure.session.rules.item import Sent
from perdure.session.rules.status import OVER
from perdure.stores import refusals
from perdure.stores.ids import check_session_id

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.runtime.deciding import Deciding
    from perdure.runtime.listed import SessionInfo
    from perdure.stores.contract import Store as Backend


def message(store: Deciding, session: str, content: Any, *, key: str | None, by: str) -> bool:
    """Sends a message; False when one with this key was sent before."""
    _check_not_over(store, session)
    sent = Sent(items.MESSAGE, values.encode(content, at="message"), by, key)
    return _send(store, session, sent)


def waiting(store: Backend, session: str) -> int:
    """How many messages lie in a session's inbox."""
    return sum(items.opened(item, session=session).what == items.MESSAGE for item in store.inbox(session))


def command(store: Deciding, session: str, what: str, *, reason: str, by: str) -> None:
    """Pauses or cancels a session, or asks it for a snapshot."""
    _check_not_over(store, session)
    if what == items.PAUSE:
        _check_pausable(store.info(session))
    _send(store, session, Sent(what, values.encode(reason), by))
    deliver(store.keeper, session, owner=new_owner(), lease_s=limits.LEASE_S)


def rollback(store: Deciding, session: str, back: dict[str, Any], *, by: str) -> None:
    """Asks a session that runs to go back; `back` tells where to and why (`session.rules.item`)."""
    _check_not_over(store, session)
    _send(store, session, Sent(items.ROLLBACK, values.encode(back, at="rollback"), by))


def save(store: Deciding, session: str, *, reason: str, by: str) -> bool:
    """Asks for a snapshot; False when nobody runs the session."""
    if not store.info(session).owner:
        _check_not_over(store, session)
        return False
    command(store, session, items.SAVE, reason=reason, by=by)
    return True


def answer(store: Deciding, session: str, question: int | str, said: Any, *, by: str) -> None:
    """Answers a question, once."""
    asked = _asked(store, check_session_id(session), question)
    _check_answer(session, asked, said)
    sent = Sent(items.ANSWER, values.encode(said, at="answer"), by, asked["key"], asked.seq)
    answered = _is_answered(store, session, asked)
    if not answered:
        _check_not_over(store, session)
    is_new = not answered and _send(store, session, sent)
    deliver(store.keeper, session, owner=new_owner(), lease_s=limits.LEASE_S)  # also what failed half-way before
    if not is_new:
        raise UndecidedError(f"{session}: question {asked.seq} is answered already")


def _is_answered(store: Deciding, session: str, asked: Entry) -> bool:
    return bool(store.backend.find(session, answer_mark(asked.seq)))


def decision(store: Deciding, session: str, sent: Sent) -> None:
    """Tells a session that runs what was decided about an action."""
    _send(store, session, sent)
    deliver(store.keeper, session, owner=new_owner(), lease_s=limits.LEASE_S)


def _send(store: Deciding, session: str, sent: Sent) -> bool:
    allowed = items.screened(sent, store.backend.guard)
    content = items.content_of(allowed, session=session, codec=store.backend.protocol)
    is_new = store.backend.send(session, content, mark=items.mark_of(sent)) is not None
    faults.reach("send.after")
    return is_new


def _check_not_over(store: Deciding, session: str) -> None:
    summary = find(store.backend, check_session_id(session))
    if summary is None:
        raise refusals.unknown(session, url=store.url)
    if summary.status in OVER:
        raise RefusedError(
            f"{session} is {summary.status}: it takes nothing any more. To take it back: perdure rollback {session} "
            "POINT"
        )


def _check_pausable(info: SessionInfo) -> None:
    """What is not run and does not go on by itself cannot be held. A status that says why it ended is kept."""
    if info.owner:
        return
    if info.form == "handle":
        raise RefusedError(
            f"{info.id} is a handle that nobody has open ({info.status}): there is nothing to pause, its own code goes "
            f"on with it. To end it: perdure cancel {info.id}"
        )
    if info.status == "failed":
        raise RefusedError(
            f"{info.id} is failed, and nobody runs it: there is nothing to pause. To go on: perdure retry {info.id}, "
            f"or perdure resume {info.id} once its cause is mended; to end it: perdure cancel {info.id}"
        )


def _asked(store: Deciding, session: str, question: int | str) -> Entry:
    asked = [entry for entry in store.log(session) if entry.kind == "asked"]
    found = [entry for entry in asked if question in (entry.seq, entry["key"])]
    if not found:
        known = ", ".join(str(entry.seq) for entry in asked)
        raise UndecidedError(f"{session} asked no question {question!r}; it asked: {known or 'none'}")
    return found[-1]


def _check_answer(session: str, asked: Entry, said: Any) -> None:
    if asked["choices"] is not None and said not in asked["choices"]:
        raise UndecidedError(f"{session}: {said!r} is no answer to {asked['prompt']!r}; it takes {asked['choices']}")
    if why := schema.fault(asked["schema"], said):
        raise UndecidedError(f"{session}: {values.describe(said)} is no answer to {asked['prompt']!r}: {why}")
