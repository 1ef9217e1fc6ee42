"""A way to a server on which one message is lost: a reply, after what was asked was done, or a request before it is."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self

_BYTES = 1 << 16


class Proxy:
    """Listens on a port of its own. `lose` says which message goes astray; its connection ends there."""

    def __init__(self, port: int, *, host: str = "127.0.0.1") -> None:
        self._to = (host, port)
        self._listener = socket.create_server((host, 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._astray, self._left = "", 0
        self.replies = 0
        """So many were let through."""
        threading.Thread(target=self._serve, daemon=True).start()

    def lose(self, what: str, number: int) -> None:
        """Loses the `number`th "reply" or "request" from now on."""
        with self._lock:
            self._astray, self._left = what, number

    @property
    def lost(self) -> bool:
        """Whether it happened."""
        return self._left == 0

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                there = socket.create_connection(self._to)
                for source, target, what in ((here, there, "request"), (there, here, "reply")):
                    threading.Thread(target=self._pass, args=(source, target, what), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, what: str) -> None:
        with suppress(OSError):
            while (message := source.recv(_BYTES)) and not self._goes_astray(what):
                target.sendall(message)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()

    def _goes_astray(self, what: str) -> bool:
        with self._lock:
            self.replies += what == "reply"
            if what != self._astray or not self._left:
                return False
            self._left -= 1
            return not self._left

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
