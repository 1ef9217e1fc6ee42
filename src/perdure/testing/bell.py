"""How the process of a life tells the one that watches it that the moment for a command has come, and waits for it.

The watching process says it: what kills the other one does not touch it, so a command is said once, and its sender
knows that it was.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

What: TypeAlias = Literal["pause", "cancel", "save", "message", "answer"]

WAITING: Final = ""
"""The moment at which the session waits for something to come."""


@dataclass(frozen=True, slots=True)
class Command:
    """What is said to a session while it runs, once in a life.

    `during` is the name of an action, while whose function runs for the `time`-th time it is said; without it, when the
    session waits for something to come (`wait_s=`), one command each time. A "message" has a `value`; "answer" answers
    by the script whatever the session asks at that moment.
    """

    what: What
    during: str = WAITING
    time: int = 1
    value: Any = None


class Bell:
    """A pair of ends, made before the fork: `ring` is for the process of the life, `heard` for the one that watches."""

    def __init__(self) -> None:
        self.here, self._there = socket.socketpair()

    def ring(self, number: int) -> None:
        """Asks for this command; it is said when this returns."""
        self._there.sendall(bytes([number]))
        self._there.recv(1)

    def heard(self, say: Callable[[int], None]) -> None:
        """Says what is asked for. Called when there is something to read."""
        asked = self.here.recv(1)
        if asked:
            say(asked[0])
            with contextlib.suppress(OSError):  # it was killed meanwhile
                self.here.sendall(asked)

    def close(self) -> None:
        """Gives both ends back."""
        self.here.close()
        self._there.close()


class Moments:
    """In the process of a life: rings for each command once its moment comes, unless it was `said` in one before."""

    def __init__(self, commands: Sequence[Command], said: Collection[int], bell: Bell) -> None:
        self._left = {number: one for number, one in enumerate(commands) if number not in said}
        self._bell, self._lock = bell, threading.Lock()

    def entered(self, name: str, *, times: Callable[[], int]) -> None:
        """An action of this name is entered, for the so-manieth time in this life."""
        with self._lock:
            if any(one.during == name for one in self._left.values()):
                now = times()
                self._say([n for n, one in self._left.items() if one.during == name and one.time <= now])

    def waits(self) -> None:
        """The session waits for something to come."""
        with self._lock:
            self._say([n for n, one in self._left.items() if one.during == WAITING][:1])

    def _say(self, numbers: list[int]) -> None:
        for number in numbers:
            del self._left[number]
            self._bell.ring(number)
