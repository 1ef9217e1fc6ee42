"""Effects that are those of a whole store (`scope="store"`): what a session has to know of them.

Who makes them happen, and where that is written down, is not known here.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from perdure.session.face import Face
    from perdure.session.rules.call import Call

SESSION, STORE = "session", "store"
"""Where a key is one effect."""

PREFIX: Final = "key/"
"""What the ids of the sessions begin with in which such effects are journaled, one for each key."""

UNSHARE: Final = "perdure:undo_shared"
"""The undo of a call whose effect is one in the whole store."""


def session_of(key: bytes) -> str:
    """The session in which the effect with this key (encoded) is journaled."""
    return PREFIX + sha256(key).hexdigest()[:32]


def session_of_mark(mark: bytes) -> str:
    """The same, of the mark by which the records about a key can be looked up; "" for any other mark."""
    return PREFIX + mark[1:].hex() if mark[:1] == b"k" else ""


class Commons(Protocol):
    """Whoever makes such effects happen."""

    def call(self, face: Face, call: Call) -> Call:
        """The call as a session makes it: it asks, and is told what came of it, whoever made it happen."""

    def undo(self, face: Face, key: bytes) -> None:
        """Undoes the effect, if it happened on behalf of this session. Raises `RecordedError` when it stands."""
