"""What the sessions of a family share beside their chunks: who belongs to it, the envelope, the generation of chunks.

Where there is no such object, the family has its founder alone, no envelope, and nothing of it was ever swept. Forks
are not listed: their bases know them. It is changed on condition of what was seen, as heads are.
"""

from __future__ import annotations

from dataclasses import dataclass

import ormsgpack


@dataclass(frozen=True, slots=True)
class Family:
    """`members` are keys of sessions; one of them may not be there yet, or never come to be."""

    members: tuple[str, ...]
    generation: int = 0
    envelope: bytes | None = None


class FamilyCodec:
    """How it is written: one array of MessagePack."""

    def encoded(self, value: Family) -> bytes:
        """See `cell.Codec`."""
        return ormsgpack.packb([value.members, value.generation, value.envelope])

    def decoded(self, content: bytes) -> Family:
        """See `cell.Codec`."""
        members, generation, envelope = ormsgpack.unpackb(content)
        return Family(tuple(members), generation, envelope)


class ValueCodec:
    """How one value of the store itself is written: its incarnation, its envelope."""

    def encoded(self, value: int | bytes) -> bytes:
        """See `cell.Codec`."""
        return ormsgpack.packb(value)

    def decoded(self, content: bytes) -> int | bytes:
        """See `cell.Codec`."""
        found = ormsgpack.unpackb(content)
        if not isinstance(found, int | bytes):
            raise TypeError("neither a number nor bytes")
        return found
