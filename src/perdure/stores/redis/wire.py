"""What we use of a connection of the driver: whole commands out, whole answers in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from perdure.stores.redis.scripts import Word, plain

_COPIED_BYTES_MAX: Final = 1 << 20
"""A longer command is not copied once more to be sent at once."""


class Wire(Protocol):
    """One connection; for one thread at a time, but that one may send while another reads."""

    def connect(self) -> None:
        """Makes it, if it is not made."""

    def disconnect(self) -> None:
        """Gives it up; the next use makes another."""

    def pack_commands(self, commands: Iterable[Sequence[Word]]) -> Sequence[bytes]:
        """Commands as they are sent."""

    def send_packed_command(self, command: Sequence[bytes]) -> None:
        """Sends them."""

    def send_command(self, *words: Word) -> None:
        """Sends one."""

    def can_read(self, timeout: float) -> bool:
        """Waits up to so many seconds for something to read."""

    def read_response(self) -> Any:
        """The next answer; raises the server's errors."""


def packed(command: Sequence[Word]) -> bytes | None:
    """A command as it is sent, in one piece: how many words, and of each its length and itself. None: it is long."""
    words = plain(command)
    told: list[Any] = [None] * (2 * len(words))
    told[::2], told[1::2] = map(len, words), words
    return _form(len(words)) % tuple(told) if sum(told[::2]) <= _COPIED_BYTES_MAX else None


@lru_cache(maxsize=256)
def _form(count: int) -> bytes:
    return b"*%d\r\n" % count + b"$%d\r\n%b\r\n" * count
