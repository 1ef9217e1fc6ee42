"""The keys of a store's objects: which belong to a session, to a family, to the store.

A session's objects are named by a digest of its id, so that nothing but that is left of one that is erased; only an
entry of the listing has the id in its name, and goes with it. It asks no server.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

MARK: Final = "perdure.json"
INCARNATION: Final = "incarnation"
ENVELOPE: Final = "envelope"
CLOCK: Final = "clock"
TRIAL: Final = "trial"
HEADS: Final = "heads"
IDS: Final = "ids"
PARTS: Final = "parts"
FAMILIES: Final = "families"

_NAME_BYTES_MAX: Final = 400
_CUT_BYTES: Final = 240
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
_ESCAPED: Final = re.compile(r"(?:![0-9a-f]{2})+")


def key_of(session: str) -> str:
    """The digest that stands for an id: 64 hexadecimal digits."""
    return sha256(session.encode(errors="surrogatepass")).hexdigest()


def head(key: str) -> str:
    """Where a log ends."""
    return f"{HEADS}/{key}"


def part(key: str, name: str) -> str:
    """A part of a log, or a long item of its inbox."""
    return f"{PARTS}/{key}/{name}"


def family(key: str) -> str:
    """What the sessions of a family share, but chunks."""
    return f"{FAMILIES}/{key}/family"


def chunks(key: str) -> str:
    """The folder of a family's chunks."""
    return f"{FAMILIES}/{key}/chunks"


def chunk(key: str, generation: int, digest: bytes) -> str:
    """One chunk, as it was put in this generation."""
    return f"{chunks(key)}/{generation:08d}/{digest.hex()}"


def entry(session: str) -> str:
    """The session's entry in the listing."""
    return f"{IDS}/{entry_name(session)}"


def entry_name(session: str) -> str:
    """The name of an entry: letters, digits and `-_.` stay, other bytes are `!` and two digits; a long one is cut."""
    plain = shown(session)
    return plain if len(plain) <= _NAME_BYTES_MAX else f"{plain[:_CUT_BYTES]}!~{key_of(session)}"


def shown(text: str) -> str:
    """The text in characters that every server takes. The beginning of an id gives the beginning of its name."""
    name = "".join(chr(byte) if byte in _PLAIN else f"!{byte:02x}" for byte in text.encode(errors="surrogatepass"))
    return "!2e" + name[1:] if name.startswith(".") else name


def range_of(prefix: str) -> str:
    """How the names of all ids that begin so begin, cut ones included."""
    return shown(prefix)[:_CUT_BYTES]


def id_of(name: str) -> str | None:
    """The id that has this name; None if its end is cut off, or no id has it."""
    if "!~" in name:
        return None
    try:
        session = _ESCAPED.sub(lambda found: bytes.fromhex(found[0].replace("!", "")).decode(), name)
    except UnicodeDecodeError:
        return None
    return session if session and entry_name(session) == name else None
