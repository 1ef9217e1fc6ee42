"""Reading the chunks of a keyframe ahead, as each look at a place on a server is a round trip."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from perdure.errors import DamageError
from perdure.state import keyframe

if TYPE_CHECKING:
    from perdure.session.keeping.snapshot import Reader

READ_AHEAD_COUNT: Final = 16
"""Chunks that are read together: a few megabytes, in one look at the place."""


class Ahead:
    """The chunks of a keyframe, asked for one at a time and read some ahead: a restore meets them in this order."""

    def __init__(self, reader: Reader, manifest: keyframe.Manifest) -> None:
        self._reader, self._manifest = reader, manifest
        self._order: list[bytes] = []
        self._read: dict[bytes, bytes] = {}

    def __call__(self, digest: bytes) -> bytes:
        """See `Reader.chunk`."""
        if digest not in self._read:
            self._read = self._from(digest)
        return self._read[digest]

    def _from(self, digest: bytes) -> dict[bytes, bytes]:
        if not self._order:
            self._order = list(dict.fromkeys([*keyframe.addresses(self._manifest)][::-1]))
        if digest in self._order:
            place = self._order.index(digest)
            with contextlib.suppress(DamageError):  # of one of them: whoever asks for that one is told
                return self._reader.chunks(self._order[place : place + READ_AHEAD_COUNT])
        return {digest: self._reader.chunk(digest)}
