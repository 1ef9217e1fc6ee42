"""The tree of sessions: which a session started. Told by their own openings, not by its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.session.keeping.opening import summary_of

if TYPE_CHECKING:
    from perdure.stores.contract import Store


def children(store: Store, session: str) -> list[str]:
    """The sessions that this one started, in order of their ids. Raises `DamageError`."""
    found = store.heads(prefix=f"{session}/")
    return sorted(h.session for h in found if h.seq and summary_of(h, h.session).child_of == session)
