"""What goes over the wire between a store and its server, counted: a relay in between, on this machine's loopback.

A *round trip* is a turn of a connection: something is sent after something was received, so that who sends has had to
wait. It understands no protocol, so all servers are counted alike.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from perdure.errors import StoreUrlError
from perdure.stores.address import Address

_PORTS: Final = {"postgresql": 5432, "redis": 6379, "mongodb": 27017}
_CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Traffic:
    """Round trips, and bytes in both directions."""

    trips: int = 0
    sent: int = 0
    received: int = 0

    def __sub__(self, before: Traffic) -> Traffic:
        return Traffic(self.trips - before.trips, self.sent - before.sent, self.received - before.received)


class Relay:
    """Hands everything on to one server, and counts it."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._lock = threading.Lock()
        self._traffic = Traffic()
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, name="perdure-bench-relay", daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    @property
    def traffic(self) -> Traffic:
        """Of all connections so far."""
        with self._lock:
            return self._traffic

    def close(self) -> None:
        """Ends all connections."""
        with self._lock:
            ends = [self._listener, *self._ends]
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self._ends += [client, server]
                turn = _Turn()
                for way in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._hand_on, args=(*way, turn), daemon=True).start()

    def _hand_on(self, source: socket.socket, target: socket.socket, is_sent: bool, turn: _Turn) -> None:  # noqa: FBT001
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                self._count(len(data), is_sent=is_sent, turn=turn)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def _count(self, size: int, *, is_sent: bool, turn: _Turn) -> None:
        with self._lock:
            t = self._traffic
            if is_sent:
                self._traffic = Traffic(t.trips + (not turn.is_sending), t.sent + size, t.received)
            else:
                self._traffic = replace(t, received=t.received + size)
            turn.is_sending = is_sent


@dataclass(slots=True)
class _Turn:
    is_sending: bool = False


@contextmanager
def counted(url: str) -> Iterator[tuple[Relay, str]]:
    """A relay before the server of this store, and the URL that goes through it. Raises `StoreUrlError`."""
    address = Address.of(url)
    endpoint = dict(address.options).get("endpoint")
    if endpoint is not None:
        host, port = urlsplit(endpoint).hostname or "", urlsplit(endpoint).port or 80
    else:
        host, _, number = address.hosts.rpartition(":") if ":" in address.hosts else (address.hosts, "", "")
        port = int(number or _PORTS.get(address.scheme, 0))
    if not host or not port or "," in host or (endpoint or "").startswith("https"):
        raise StoreUrlError(f"{address.shown}: counted is what goes to one server, named by host and port, in clear")
    relay = Relay(host, port)
    try:
        yield relay, _through(url, relay.port, endpoint=endpoint, hosts=address.hosts)
    finally:
        relay.close()


def _through(url: str, port: int, *, endpoint: str | None, hosts: str) -> str:
    if endpoint is not None:
        return url.replace(endpoint, f"http://127.0.0.1:{port}")
    before, _, behind = url.partition(f"{hosts}")
    return f"{before}127.0.0.1:{port}{behind}"
