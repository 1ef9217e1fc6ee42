"""What the code is doing at this moment: the calls in flight, and those whose result it has not been handed yet.

It decides nothing: the core does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Flight:
    """One beginning of a call, told from others by what it is, not by what it says. `stack`: the calls around it."""

    __slots__ = ("key", "seq", "stack")

    def __init__(self, seq: int, key: bytes | None, stack: tuple[int, ...]) -> None:
        self.seq, self.key, self.stack = seq, key, stack


class Flights:
    """The calls of one entry that have begun and not ended. Calls are named by the number of their action."""

    def __init__(self) -> None:
        self.open: dict[int, object] = {}
        """Made in a parallel block that is not joined, and their result not handed to the code; with the block."""
        self.moves = 0
        """Grows whenever something happens that another call may have waited for."""
        self._calls: dict[int, Flight] = {}
        self._left: set[Flight] = set()
        self._loose: set[int] = set()

    def begin(self, seq: int, *, key: bytes | None, block: object, stack: tuple[int, ...]) -> None:
        """A call begins; `block`: what waits for it, if anything does; `stack`: the calls that it is inside of."""
        self._calls[seq] = Flight(seq, key, stack)
        if block is not None:
            self.open[seq] = block
        elif not stack:
            self._loose.add(seq)

    def of(self, seq: int) -> Flight | None:
        """What tells this beginning of a call from another one."""
        return self._calls.get(seq)

    def end(self, seq: int, flight: Flight | None = None) -> None:
        """It is known how the call ended, or that it will not: as it began with `flight`, if that is given."""
        if flight is not None and flight in self._left:
            self._left.discard(flight)
        else:
            self._calls.pop(seq, None)
            self._loose.discard(seq)
        self.moves += 1

    def leave(self, seq: int) -> None:
        """The time of this call is over: what is inside of it goes on by itself, and nobody waits for that."""
        left = [self._calls.pop(each) for each in self.inside(seq)]
        self._left.update(left)
        self.moves += bool(left)

    def goes_on(self, seq: int) -> bool:
        """Whether an attempt at this call goes on by itself, for all that is known."""
        return any(flight.seq == seq for flight in self._left)

    def inside(self, seq: int) -> set[int]:
        """The calls in flight that this one is around."""
        return {each for each, flight in self._calls.items() if seq in flight.stack}

    def joined(self, block: object) -> None:
        """A block has ended: whatever came of its calls, the code has it."""
        self.open = {seq: other for seq, other in self.open.items() if other is not block}

    def with_key(self, key: bytes) -> int | None:
        """The call in flight that has this key."""
        return next((seq for seq, flight in self._calls.items() if flight.key == key), None)

    def around(self, stack: Iterable[int]) -> set[int]:
        """The calls in flight but these, which the asking code is inside of."""
        return set(self._calls).difference(stack)

    @property
    def has_loose(self) -> bool:
        """Whether there are any that no block waits for."""
        return bool(self._loose)

    def loose(self, stack: Iterable[int]) -> set[int]:
        """Those of the calls in flight that no block waits for, but these."""
        return self._loose.difference(stack)
