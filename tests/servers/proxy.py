"""A way to a server that breaks where it is told to: before a request, after it with its reply lost, in its middle."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self

BEFORE, AFTER, HALF = "before", "after", "half"
"""The connection breaks before a request reaches the server; when its reply is on the way; in the middle of it."""

BREAKS = (BEFORE, AFTER, HALF)
_PART = 1 << 20


class Proxy:
    """Hands on what comes, on any number of connections. `requests` counts parts that came from clients.

    Once armed it breaks one connection, at one request, and then hands on again; or, if it `stays` broken, all of them
    until it is mended.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._at, self._how, self._stays = 0, "", False
        self.requests, self.down = 0, False
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, at: int, how: str, *, stays: bool = False) -> None:
        """Breaks at request number `at` from now, counted from 1."""
        with self._lock:
            self.requests, self._at, self._how, self._stays = 0, at, how, stays

    def mend(self) -> None:
        """Hands on again, whatever was or is to be broken."""
        self.arm(0, "")
        self.down = False

    @property
    def fired(self) -> bool:
        """Whether it has broken what it was to break."""
        with self._lock:
            return not self._at

    def close(self) -> None:
        """No new connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.down:
                    client.close()
                    continue
                try:
                    server = socket.create_connection(self._server)
                except OSError:
                    client.close()
                    continue
                _Way(self, client, server).begin()

    def due(self) -> str:
        """What happens to the request that has just come."""
        with self._lock:
            self.requests += 1
            if self.requests != self._at:
                return BEFORE if self.down else ""
            self._at, self.down = 0, self._stays
            return self._how

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Way:
    """One connection, in both directions."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._loses_reply = False

    def begin(self) -> None:
        for pump in (self._requests, self._replies):
            threading.Thread(target=self._until_closed, args=(pump,), daemon=True).start()

    def _until_closed(self, pump: object) -> None:
        assert callable(pump)
        with suppress(OSError):
            pump()
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _requests(self) -> None:
        while part := self._client.recv(_PART):
            how = self._proxy.due()
            if how == BEFORE:
                return
            if how == HALF:
                self._server.sendall(part[: len(part) // 2])
                return
            self._loses_reply = self._loses_reply or how == AFTER
            self._server.sendall(part)

    def _replies(self) -> None:
        while part := self._server.recv(_PART):
            if self._loses_reply:
                return
            self._client.sendall(part)
