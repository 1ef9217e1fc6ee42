"""What an agent is told about itself: whether it goes in circles. Recorded, so that a replay is told the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.errors import RefusedError
from perdure.recovery.loops import Circling, Progress

if TYPE_CHECKING:
    from perdure.session.face import Face

CIRCLING = "circling"
"""The kind of value that tells of it."""


def circling(session: Face) -> Circling | None:
    """What the session is in at this moment, None if it gets on. For sync and async sessions; a replay gets the same.

    Raises `RefusedError` for a session whose progress is not watched (`progress=ProgressPolicy()`).
    """

    def draw() -> Any:
        progress = session.progress
        if not isinstance(progress, Progress):
            raise RefusedError(f"{session.id}: its progress is not watched; declare it with progress=ProgressPolicy()")
        found = progress.circling
        return found and [found.kind, found.count, list(found.names), found.first, found.last]

    told = session.drawn(CIRCLING, draw)
    if told is None:
        return None
    kind, count, names, first, last = told
    return Circling(kind, count, tuple(names), first, last)
