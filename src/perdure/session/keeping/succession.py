"""Which session goes on in the place of which: told by the opening of the one, and in the inbox of the other.

Nothing here writes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perdure import limits, values
from perdure.errors import DamageError, RestoreError, SessionErasedError, SessionUnknownError
from perdure.session.keeping.opening import opening_of
from perdure.session.keeping.snapshot import Reader
from perdure.session.rules import item as items
from perdure.session.rules.item import Sent

if TYPE_CHECKING:
    from perdure.stores.contract import Store

BY: Final = "restore"
"""Who is said to have done what a restore does."""

KEY: Final = "replaced by "
"""What the key of the command begins with that keeps the damaged one from going on, too."""

_NAMED: Final = re.compile(r"(?s)(.*)~r(\d+)\Z")


def next_id(session: str) -> str:
    """The id of the session that goes on in the place of this one: `q-42~r1` for `q-42`, then `q-42~r2`.

    Raises `RestoreError` for one that is too long.
    """
    made = _next(session)
    if len(made) > limits.ID_CHARS_MAX:
        raise RestoreError(
            f"{session}: its id is too long for another to be made of it; run: perdure doctor {session} --go-on NEW"
        )
    return made


def _next(session: str) -> str:
    named = _NAMED.match(session)
    return f"{named[1]}~r{int(named[2]) + 1}" if named else f"{session}~r1"


def predecessor(store: Store, session: str) -> str:
    """The damaged session in whose place this one goes on; "" for none, and for one whose opening cannot be read."""
    try:
        origin = opening_of(Reader(store, session)).body.get("origin") or {}
    except (DamageError, SessionUnknownError, SessionErasedError):
        return ""
    return str(origin["session"]) if origin.get("replaces") else ""


def successor(store: Store, session: str) -> str:
    """The session that goes on in the place of this one; "" for none."""
    there = replaced_by(store, session) or _next(session)
    return there if predecessor(store, there) == session else ""


def replaced_by(store: Store, session: str) -> str:
    """The session that this one was cancelled for, as long as its code has not met that; "" for none."""
    for item in store.inbox(session):
        sent = items.opened(item, session=session)
        if sent.what == items.CANCEL and sent.by == BY and (sent.key or "").startswith(KEY):
            return (sent.key or "").removeprefix(KEY)
    return ""


def is_fenced(session: str, reason: str) -> bool:
    """Whether a session was cancelled, with this reason, for another that goes on in its place, or is to."""
    return reason == items.reason_of(Sent(items.CANCEL, values.encode(why(_next(session))), BY))


def why(into: str) -> str:
    """Why a session is cancelled in whose place another goes on."""
    return f"records of it could not be read, and {into} goes on in its place"
