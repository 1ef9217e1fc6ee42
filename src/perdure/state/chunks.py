"""Chunks on their way in and out: values become frames with addresses, frames are checked and become values again.

Nothing here knows how a manifest is laid out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure import values
from perdure.errors import DamageError

Load = Callable[[bytes], bytes]
"""Finds a chunk's frame by its address; raises `DamageError` when there is none."""


def opened(digest: bytes, load: Load) -> Any:
    """The value in a chunk. Raises `DamageError` that names the chunk when its frame is not the one of this address."""
    frame = load(digest)
    if values.address(frame) != digest:
        raise DamageError(f"chunk {digest.hex()}: its bytes are not what was written")
    codec, data = values.unseal(frame)
    return values.decode(data, codec=codec)


def opened_as(kind: type, digest: bytes, load: Load) -> Any:
    """The value in a chunk, which must be of exactly this type."""
    value = opened(digest, load)
    if type(value) is not kind:
        raise DamageError(f"chunk {digest.hex()}: holds a {type(value).__name__}, not a {kind.__name__}")
    return value


class Chunks:
    """The chunks of one fold: read through `load`, new ones kept in `new` by their address."""

    def __init__(self, load: Load, known: set[bytes], *, codec: str = values.DEFAULT) -> None:
        self.load, self.known = load, known
        self.codec = values.DEFAULT if codec == values.PICKLE else codec  # what is shared is never unpickled
        self.new: dict[bytes, bytes] = {}

    def add(self, value: Any) -> tuple[bytes, int]:
        """Seals a value; its address, and how many bytes it has encoded. A chunk that is stored already is not new."""
        codec, data = values.DEFAULT, values.encode(value)
        if self.codec != codec:
            codec, data = values.fitted(values.tree_of(data), data, codec=self.codec)
        frame = values.seal(data, codec=codec, chunk=True)
        digest = values.address(frame)
        if digest not in self.known:
            self.new[digest] = frame
        return digest, len(data)
