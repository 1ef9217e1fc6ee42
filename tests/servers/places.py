"""Every durable store, as values for `parametrize`: a test that must hold in all of them takes the fixture `place`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.servers.server import Server


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of store. `fixture` is that of the server it needs, "" for none; `at` makes the URL of a fresh place."""

    name: str
    fixture: str
    at: Callable[[Path, Server | None], str]

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Place:
    """A fresh place of one kind, and the server that it is on."""

    kind: str
    url: str
    server: Server | None


def _on_server(_: Path, server: Server | None) -> str:
    assert server is not None
    return server.fresh_url()


SQLITE = Kind("sqlite", "", lambda folder, _: f"sqlite:///{folder}/agents.db")
FILE = Kind("file", "", lambda folder, _: f"file://{folder}/agents")
POSTGRES = Kind("postgres", "postgres_server", _on_server)
POOLER = Kind("pooler", "pooler_server", _on_server)
REDIS = Kind("redis", "redis_server", _on_server)
S3 = Kind("s3", "s3_server", _on_server)
MONGO = Kind("mongo", "mongo_server", _on_server)


def _two_tiers(folder: Path, _: Server | None) -> str:
    return f"tiered:?hot=sqlite%3A%2F%2F%2F{folder}/hot.db&cold=file%3A%2F%2F{folder}/agents&mode=behind"


TIERED = Kind("tiered", "", _two_tiers)

LOCAL = [SQLITE, FILE, TIERED]
"""On the disk of this machine."""

SERVERS = [POSTGRES, REDIS, S3, MONGO]
"""On a server, with nothing between it and the store."""

DURABLE = [*LOCAL, *SERVERS]
"""Every one."""
