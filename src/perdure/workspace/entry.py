"""One name in a workspace as it was captured: a file, a folder, a link, or something that was left out and why.

Two entries are *alike* if restoring one over the other would change nothing: times do not count.
"""

from __future__ import annotations

import os
from typing import Any, Final, NamedTuple

from perdure.errors import DamageError

FILE, FOLDER, LINK, SKIPPED = "f", "d", "l", "x"
DIGEST_BYTES: Final = 32


class Piece(NamedTuple):
    """A part of a file: where in the file, how long, in which chunk, where in that; of several, its SHA-256."""

    at: int
    length: int
    chunk: bytes
    within: int
    digest: bytes = b""


class Entry(NamedTuple):
    """What is at a path. `path` is relative to the root, with `/`; bytes that are no UTF-8 as Python has them.

    `content` is the content address of a file: of its pieces that are not all zero; `detail` the target of a link, or
    why something was skipped.
    """

    path: str
    kind: str
    mode: int = 0
    size: int = 0
    mtime_ns: int = 0
    content: bytes = b""
    pieces: tuple[Piece, ...] = ()
    detail: str = ""

    @property
    def likeness(self) -> tuple[Any, ...]:
        """What restoring looks at."""
        return self.kind, self.mode, self.size, self.content, self.detail if self.kind == LINK else ""


def shown(path: str) -> str:
    """A path for people: bytes that are no UTF-8 are escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")


def alike(one: Entry | None, other: Entry | None) -> bool:
    """Whether these are the same to whoever restores; None: nothing is there."""
    if one is None or other is None:
        return one is other
    return one.likeness == other.likeness


def encoded(entry: Entry) -> list[Any]:
    """As it is stored in a leaf of the tree."""
    path, kind = os.fsencode(entry.path), entry.kind
    if kind == FILE:
        pieces = [list(piece if piece.digest else piece[:4]) for piece in entry.pieces]
        return [path, kind, entry.mode, entry.size, entry.mtime_ns, entry.content, pieces]
    if kind == FOLDER:
        return [path, kind, entry.mode]
    return [path, kind, os.fsencode(entry.detail)]


def decoded(stored: Any) -> Entry:
    """The entry that `encoded` made this of. Raises `DamageError`."""
    try:
        path, kind, *rest = stored
        if kind == FILE:
            mode, size, mtime_ns, content, pieces = rest
            found = Entry(checked_path(path), kind, mode, size, mtime_ns, content, tuple(Piece(*p) for p in pieces))
        elif kind == FOLDER:
            (mode,) = rest
            found = Entry(checked_path(path), kind, mode)
        elif kind in (LINK, SKIPPED):
            (detail,) = rest
            found = Entry(checked_path(path), kind, detail=os.fsdecode(detail))
        else:
            raise DamageError(f"a workspace with an entry of kind {kind!r}")
    except (TypeError, ValueError) as error:
        raise DamageError(f"a workspace with an entry that is none: {error}") from error
    return found


def checked_path(path: bytes) -> str:
    """A stored path, which must lead to a place below the root."""
    if not path or b"\0" in path or any(part in (b"", b".", b"..") for part in path.split(b"/")):
        raise DamageError(f"a workspace with a path that is none: {path!r}")
    return os.fsdecode(path)
