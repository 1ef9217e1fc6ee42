"""A value of a class that is not known here: inert, and saved again as exactly the bytes it came with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Opaque:
    """Stands for a stored value whose tag no registered or allowed class has.

    `payload` is the value's body as it was stored, in MessagePack. Nothing in it is run, imported or looked at. Saved
    again it is the same bytes, in both codecs; register the class, load again, and the value is back.
    """

    tag: str
    version: int
    payload: bytes

    def __repr__(self) -> str:
        return f"<Opaque {self.tag!r} version {self.version}, {len(self.payload)} bytes>"
