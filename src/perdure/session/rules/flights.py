"""What the code is doing at this moment: the calls in flight, and those whose result it has not been handed yet.

It decides nothing: the core does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Flights:
    """The calls of one entry that have begun and not ended. Calls are named by the number of their action."""

    def __init__(self) -> None:
        self.open: dict[int, object] = {}
        """Made in a parallel block that is not joined, and their result not handed to the code; with the block."""
        self.moves = 0
        """Grows whenever something happens that another call may have waited for."""
        self._keys: dict[int, bytes | None] = {}
        self._loose: set[int] = set()

    def begin(self, seq: int, *, key: bytes | None, block: object, inner: bool) -> None:
        """A call begins; `block`: what waits for it, if anything does; `inner`: inside of another call."""
        self._keys[seq] = key
        if block is not None:
            self.open[seq] = block
        elif not inner:
            self._loose.add(seq)

    def end(self, seq: int) -> None:
        """It is known how the call ended, or that it will not."""
        self._keys.pop(seq, None)
        self._loose.discard(seq)
        self.moves += 1

    def joined(self, block: object) -> None:
        """A block has ended: whatever came of its calls, the code has it."""
        self.open = {seq: other for seq, other in self.open.items() if other is not block}

    def with_key(self, key: bytes) -> int | None:
        """The call in flight that has this key."""
        return next((seq for seq, other in self._keys.items() if other == key), None)

    def around(self, stack: Iterable[int]) -> set[int]:
        """The calls in flight but these, which the asking code is inside of."""
        return set(self._keys).difference(stack)

    @property
    def has_loose(self) -> bool:
        """Whether there are any that no block waits for."""
        return bool(self._loose)

    def loose(self, stack: Iterable[int]) -> set[int]:
        """Those of the calls in flight that no block waits for, but these."""
        return self._loose.difference(stack)
