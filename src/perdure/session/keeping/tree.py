"""The tree of sessions: which a session started. Told by their own openings, not by its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.errors import DamageError
from perdure.session.keeping.opening import summary_of
from perdure.session.keeping.succession import predecessor, successor
from perdure.session.rules.children import AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.stores.contract import Head, Store


def started(store: Store, session: str) -> list[str]:
    """The sessions whose opening says that this one started them, in order of their ids. Raises `DamageError`."""
    found = store.heads(prefix=f"{session}/")
    return sorted(h.session for h in found if h.seq and summary_of(h, h.session).child_of == session)


def homes(store: Store, session: str) -> list[str]:
    """The sessions whose children are now this one's: itself, and those in whose place it goes on.

    None, once another goes on in its own place.
    """
    if any(store.heads(prefix=f"{session}/")) and successor(store, session):
        return []
    found = [session]
    while (before := predecessor(store, found[-1])) and before not in found:
        found.append(before)
    return found


def children(store: Store, session: str) -> list[str]:
    """The children of this session, in order of their ids. Raises `DamageError`."""
    return sorted(child for home in homes(store, session) for child in started(store, home))


def begun(store: Store, session: str) -> Iterator[tuple[str, str, int]]:
    """(id, key, how often the key was used so far) of what may be a child of this one, by its id alone."""
    for home in homes(store, session):
        for head in store.heads(prefix=f"{home}/"):
            key, _, number = head.session.removeprefix(f"{home}/").partition(AGAIN)
            if head.seq and "/" not in key and (not number or number.isdigit()) and _may_be(head, home):
                yield head.session, key, int(number or 1)


def _may_be(head: Head, home: str) -> bool:
    try:
        return summary_of(head, head.session).child_of == home
    except DamageError:
        return True  # whose it is shows when it is opened
