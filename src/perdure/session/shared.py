"""Effects that are those of a whole store (`scope="store"`): what a session has to know of them.

Who makes them happen, and where that is written down, is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from perdure.session.call import Call
    from perdure.session.face import Face

SESSION, STORE = "session", "store"
"""Where a key is one effect."""

UNSHARE: Final = "perdure:undo_shared"
"""The undo of a call whose effect is one in the whole store."""


class Commons(Protocol):
    """Whoever makes such effects happen."""

    def call(self, face: Face, call: Call) -> Call:
        """The call as a session makes it: it asks, and is told what came of it, whoever made it happen."""

    def undo(self, face: Face, key: bytes) -> None:
        """Undoes the effect, if it happened on behalf of this session. Raises `RecordedError` when it stands."""
