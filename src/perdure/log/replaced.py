"""Bodies that were lawfully replaced: which ones the log says stand where others were.

A record whose body was replaced keeps its header, the digest of its first body and so its chain digest. Only an
`amended` record that has the digest of the new one makes it lawful; of several the last.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from perdure.log.record import frame_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.entry import Entry


def digest_of(body: bytes) -> bytes:
    """What an `amended` record says of a replaced body: SHA-256 of the frame in it."""
    return sha256(frame_of(body)).digest()


class Replaced:
    """The digests of the bodies that are there now, by record. `upto` bounds what may be spoken of."""

    def __init__(self, entries: Iterable[Entry] = (), *, upto: int | None = None) -> None:
        self._digests: dict[int, bytes] = {}
        for entry in entries:
            told = entry.body.get("replaced", ()) if entry.kind == "amended" else ()
            self._digests |= {seq: digest for seq, digest in told if upto is None or seq <= upto}

    def says(self, seq: int, digest: bytes) -> bool:
        """Whether the log says that the body of this record is now the one with this digest."""
        return self._digests.get(seq) == digest

    def __or__(self, other: Replaced) -> Replaced:
        both = Replaced()
        both._digests = self._digests | other._digests
        return both
