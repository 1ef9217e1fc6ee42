"""Redis as Debian packages it: every write is in its append-only file, and on the disk, before it is answered."""

from __future__ import annotations

import socket
from typing import ClassVar

from tests.servers.server import Server, program


class RedisServer(Server):
    """One server without replicas."""

    name: ClassVar[str] = "Redis"
    package: ClassVar[str] = "apt-get install redis-server"
    settings: ClassVar[dict[str, str]] = {
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "rdbcompression": "no",  # so that tests find in its files what is there
        "databases": "16",
        "daemonize": "no",
        "protected-mode": "no",
    }

    def prepare(self) -> None:
        program(RedisServer, "redis-server")

    def command(self) -> list[str]:
        settings = {**self.settings, "bind": self.host, "port": str(self.port), "dir": str(self.folder)}
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        return [program(RedisServer, "redis-server"), *words]

    def answers(self) -> bool:
        with socket.create_connection((self.host, self.port), timeout=1) as link:
            link.sendall(b"PING\r\n")
            return link.recv(64).startswith(b"+PONG")

    def url(self, name: str, *, port: int | None = None) -> str:
        return f"redis://{self.host}:{port or self.port}/0?prefix={name}"
