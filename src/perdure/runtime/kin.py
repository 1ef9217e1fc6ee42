"""What reaches the sessions under one: they are found through the tree, and asked how they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.log.action import Actions
from perdure.session.keeping.opening import summary_of
from perdure.session.keeping.snapshot import Reader
from perdure.session.keeping.tree import children
from perdure.session.rules import call as calls
from perdure.session.rules.children import CANCEL
from perdure.session.rules.status import OVER

if TYPE_CHECKING:
    from perdure.stores.contract import Store


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
