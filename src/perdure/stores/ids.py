"""What may be the id of a session: text that looks the same to every store, file system, terminal and person.

Slashes, dots and letters of any script are plain characters; case counts. It must not know any store.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache
from typing import Final

from perdure import limits
from perdure.errors import SessionIdError

ERASED: Final = "perdure:erased"
SCHEDULE: Final = "perdure:schedule"
HOUSE: Final = frozenset({ERASED, SCHEDULE})
"""The sessions in which a store remembers how it was kept: no listing shows them."""

_WORDS_CHARS_MAX: Final = 40
"""So long is an id that is made from a text."""

_REFUSED: Final = {
    "Cc": "a control character",
    "Cs": "half a character (a lone surrogate)",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}


def check_session_id(session: str) -> str:
    """The same id, if it is a valid one: 1 to 200 characters of normalised text (NFC).

    Refused with `SessionIdError`, which offers the cleaned id where one is left: control characters, lone surrogates,
    line separators, white space at either end, nothing but dots.
    """
    if not isinstance(session, str):
        raise SessionIdError(f"a session's id is text, not {type(session).__name__}")
    fault = _fault(session)
    if fault is None:
        return session
    clean = _cleaned(session)
    offer = f"; use {clean!r}" if clean and _fault(clean) is None else ""
    raise SessionIdError(f"{session[: limits.ID_CHARS_MAX]!r} is no session id: {fault}{offer}")


@lru_cache(maxsize=4096)
def _fault(session: str) -> str | None:
    """What is wrong with an id, or None."""
    if not 1 <= len(session) <= limits.ID_CHARS_MAX:
        return f"it has {len(session):,} characters, 1 to {limits.ID_CHARS_MAX} are allowed"
    is_plain = session.isascii() and session.isprintable()  # then it has none of what is refused, and is normalised
    for place, character in enumerate(() if is_plain else session):
        if refused := _REFUSED.get(unicodedata.category(character)):
            return f"character {place} is {refused}"
    if session != session.strip():
        return "it begins or ends with white space"
    if not session.strip("."):
        return "it consists of dots"
    normal = is_plain or unicodedata.is_normalized("NFC", session)
    return None if normal else "it is not normalised (NFC), so another id could look the same"


def _cleaned(session: str) -> str:
    kept = "".join(character for character in session if unicodedata.category(character) not in _REFUSED)
    return unicodedata.normalize("NFC", kept).strip()[: limits.ID_CHARS_MAX].strip()


def id_of_words(text: str, *, kind: str) -> str:
    """The id of the session of a text: its first words. The same text has the same.

    Of a text without a plain letter it is a digest behind `kind`.
    """
    words, chosen = re.findall(r"[a-z0-9]+", text.lower()), ""
    for word in words:
        if chosen and len(chosen) + 1 + len(word) > _WORDS_CHARS_MAX:
            break
        chosen = f"{chosen}-{word}" if chosen else word[:_WORDS_CHARS_MAX]
    return chosen or f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
