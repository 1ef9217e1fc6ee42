"""A value of a class that is not known here: inert, and saved again as exactly the bytes it came with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Opaque:
    """Stands for a stored value whose tag no registered or allowed class has.

    `payload` is the value's body as it was stored, in MessagePack. Nothing in it is run, imported or looked at. Saved
    again it is the same bytes, in every protocol; register the class, load again, and the value is back.
    """

    tag: str
    version: int
    payload: bytes

    @property
    def mend(self) -> str:
        """What brings the value back, with the line to write."""
        module, colon, name = self.tag.partition(":")
        if not colon:
            known = f", version={self.version}" if self.version > 1 else ""
            return (
                f'import the module with @perdure.storable("{self.tag}"{known}) before it is loaded; if the class has '
                f'another tag now, put aliases=["{self.tag}"] there'
            )
        tag = f"{module.partition('.')[0].strip('_')}.{name.rpartition('.')[2]}"
        return (
            f'call perdure.allow("{module}") before it is loaded; if the class has moved or has another name, put this '
            f'line above it: @perdure.storable("{tag}", aliases=["{self.tag}"])'
        )

    def __repr__(self) -> str:
        return f"<Opaque {self.tag!r} version {self.version}, {len(self.payload)} bytes>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"no {name!r}: the class of the stored {self.tag!r} is not known here; {self.mend}")
