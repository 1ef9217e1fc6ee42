"""The large leaves of bodies, each in a chunk of its own: the very chunk that a keyframe would make of the leaf.

So a leaf that an action returns, that the code then puts into the state, and that a keyframe holds is stored once. It
knows no store: whoever writes the body writes the chunks with it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from perdure import limits
from perdure.values.frame import Blob, Dictionary, address, seal
from perdure.values.leaves import large
from perdure.values.messagepack import encode, packed

TRIED_BYTES_MAX: Final = 2 * limits.DICTIONARY_BYTES
"""A body up to this size may be stored already but for what changed in it: in its dictionary."""

NEWS: Final = 8
"""It is, if it takes less than this part of its size: then nothing of it is stored apart."""


def has_large_leaf(value: Any) -> bool:
    """Whether something in `value`, or all of it, would be stored apart in a body. Raises as `encode` does."""
    return bool(large(packed({"": encode(value, at="$")}), least=limits.BLOB_BYTES_MIN))


class Blobs:
    """Seals the bodies of one writer. `new` are the chunks that its frames need and that nobody has taken yet.

    Not for several threads at once. It remembers the last `limits.BLOB_BYTES_KEPT` of chunks.
    """

    __slots__ = ("_kept", "new")

    def __init__(self) -> None:
        self.new: dict[bytes, bytes] = {}
        self._kept: dict[bytes, tuple[bytes, bytes]] = {}

    def seal(self, data: bytes, *, codec: str, dictionary: Dictionary | None = None) -> bytes:
        """A frame around an encoded body; its large leaves are in chunks. Raises LimitError as `frame.seal` does."""
        if len(data) < limits.BLOB_BYTES_MIN or codec != "msgpack":
            return seal(data, codec=codec, dictionary=dictionary)
        leaves = large(data, least=limits.BLOB_BYTES_MIN)
        if not leaves:
            return seal(data, codec=codec, dictionary=dictionary)
        if dictionary is not None and len(data) <= TRIED_BYTES_MAX:
            whole = seal(data, codec=codec, dictionary=dictionary)
            if len(whole) * NEWS <= len(data):
                return whole
        found = [Blob(begin, end - begin, self._stored(data[begin:end])) for begin, end in leaves]
        return seal(data, codec=codec, dictionary=dictionary, blobs=found)

    def take(self) -> dict[bytes, bytes]:
        """The chunks by address, which must be durable before a frame that was sealed since the last time."""
        new, self.new = self.new, {}
        return new

    def _stored(self, leaf: bytes) -> bytes:
        """The address of a leaf's chunk, which is among the new ones from now on."""
        key = sha256(leaf).digest()
        found = self._kept.pop(key, None)
        if found is None:
            chunk = seal(leaf, codec="msgpack", chunk=True)
            found = address(chunk), chunk
        self._kept[key] = found
        while len(self._kept) > 1 and sum(len(chunk) for _, chunk in self._kept.values()) > limits.BLOB_BYTES_KEPT:
            del self._kept[next(iter(self._kept))]
        self.new[found[0]] = found[1]
        return found[0]
