"""Asking all that runs through a store object to stop, as a service does before it ends."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from perdure.runtime.store import AgentStore
    from perdure.session.face import Face

F = TypeVar("F", bound="Face")


class Open:
    """The sessions that are open here. Nothing of it waits: it is used in signal handlers."""

    def __init__(self) -> None:
        self._faces: dict[int, weakref.ref[Face]] = {}
        self._reason = ""

    def add(self, face: F) -> F:
        """One more, for as long as anybody refers to it."""
        key = id(face)
        self._faces[key] = weakref.ref(face, lambda _: self._faces.pop(key, None))
        if self._reason:
            face.stop(self._reason)
        return face

    def stop(self, reason: str) -> None:
        """Asks all of them, and what is opened later."""
        self._reason = reason
        for known in list(self._faces.values()):
            if (face := known()) is not None:
                face.stop(reason)


class Stopping:
    """The part of `AgentStore` that asks what runs to stop."""

    _open_here: Open

    def stop(self, reason: str) -> None:
        """Asks every run and handle that this object has open to stop at its next action, save or step, resumable.

        Its outcome is `paused`, with this reason; a handle raises `StoppedError`. What is begun later through this
        object stops at once, too. Returns at once; safe to call from a signal handler and from any thread. In other
        processes nothing is asked: that is `pause`.
        """
        self._open_here.stop(reason)


class AsyncStopping:
    """The same for `AsyncStore`: nothing in it waits, so nothing of it is awaited."""

    _store: AgentStore

    def stop(self, reason: str) -> None:
        """See `AgentStore.stop`."""
        self._store.stop(reason)
