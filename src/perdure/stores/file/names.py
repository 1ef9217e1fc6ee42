"""From a session's id to the name of its folder, and back: readable, and apart on every file system.

Names have no capitals and no letters that a file system might fold, so that ids which differ in case, or in nothing
but how they are normalised, never meet in one folder. It knows no files.
"""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256
from typing import Final

NAME_BYTES_MAX: Final = 200
"""A longer name is cut, and ends in a digest of the id."""

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.+=@,")
_CUT_BYTES: Final = 120
_ESCAPED: Final = re.compile(r"\^([a-z])|((?:%[0-9a-f]{2})+)")


def folder_name(session: str) -> str:
    """The name: `q-42` stays, `Q/42 é` is `^q%2f42%20%c3%a9`."""
    name = "".join(map(_shown, session))
    if name.startswith("."):
        name = "%2e" + name[1:]
    if name.endswith("."):
        name = name[:-1] + "%2e"
    if len(name.encode()) <= NAME_BYTES_MAX:
        return name
    return name.encode()[:_CUT_BYTES].decode(errors="ignore") + "~" + tomb_name(session)


def session_id(name: str) -> str | None:
    """The id that has this name; None if none has it, or a digest stands for its end."""
    try:
        session = _ESCAPED.sub(_unescaped, name)
    except UnicodeDecodeError:
        return None
    return session if session and folder_name(session) == name else None


def is_cut(name: str) -> bool:
    """Whether a digest stands for the end of the id."""
    return re.search(r"~[0-9a-f]{64}$", name) is not None


def tomb_name(session: str) -> str:
    """What stays of a session that is deleted: that its id was here, not the id."""
    return sha256(session.encode(errors="surrogatepass")).hexdigest()


def _shown(character: str) -> str:
    if character in _PLAIN:
        return character
    if "A" <= character <= "Z":
        return "^" + character.lower()
    if unicodedata.category(character) == "Lo" and _is_same_everywhere(character):
        return character
    return "".join(f"%{byte:02x}" for byte in character.encode())


def _is_same_everywhere(character: str) -> bool:
    """Whether no file system takes another character for it: it has no case and no other form."""
    return character == unicodedata.normalize("NFKD", character) == character.casefold()


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        return found[1].upper()
    return bytes.fromhex(found[2].replace("%", "")).decode()
