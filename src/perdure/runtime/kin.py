"""The tree of sessions: which a session started, and what reaches them through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.log.action import Actions
from perdure.session import call as calls
from perdure.session.children import CANCEL
from perdure.session.delivery import OVER
from perdure.session.opening import summary_of
from perdure.session.snapshot import Reader

if TYPE_CHECKING:
    from perdure.stores.contract import Store


def children(store: Store, session: str) -> list[str]:
    """The sessions that this one started, in order of their ids. Raises `DamageError`."""
    found = store.heads(prefix=f"{session}/")
    return sorted(h.session for h in found if h.seq and summary_of(h, h.session).child_of == session)


def descendants(store: Store, session: str) -> list[str]:
    """Its children and theirs, each before those that it was started by."""
    found: list[str] = []
    for child in children(store, session):
        found += [*descendants(store, child), child]
    return found


def is_over(store: Store, session: str) -> bool:
    """Whether no command changes it any more."""
    return summary_of(store.head(session), session).status in OVER


def standing(store: Store, session: str) -> list[str]:
    """The effects of a session and of those under it that stand, on whatever branch, for people."""
    found: list[str] = []
    for one in [session, *descendants(store, session)]:
        actions = Actions(Reader(store, one).entries()).values()
        found += [
            f"{one} #{a.seq} {calls.call_text(a.name, a.args)}"
            for a in actions
            if a.standing and a.effect != "repeatable" and a.undo != CANCEL
        ]
    return found
