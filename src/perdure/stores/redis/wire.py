"""What we use of a connection of the driver: whole commands out, whole answers in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from perdure.stores.redis.scripts import Word


class Wire(Protocol):
    """One connection; for one thread at a time, but that one may send while another reads."""

    def connect(self) -> None:
        """Makes it, if it is not made."""

    def disconnect(self) -> None:
        """Gives it up; the next use makes another."""

    def pack_commands(self, commands: Iterable[tuple[Word, ...]]) -> Sequence[bytes]:
        """Commands as they are sent."""

    def send_packed_command(self, command: Sequence[bytes]) -> None:
        """Sends them."""

    def send_command(self, *words: Word) -> None:
        """Sends one."""

    def can_read(self, timeout: float) -> bool:
        """Waits up to so many seconds for something to read."""

    def read_response(self) -> Any:
        """The next answer; raises the server's errors."""
