"""SecantusDB as PyPI brings it: MongoDB's wire protocol in front of WiredTiger, each commit on the disk when answered.

It shows itself as a replica set of one, as a server must that takes transactions. What it does not prove stands in
docs/testing.md.
"""

from __future__ import annotations

from typing import ClassVar

import pymongo
import pymongo.common
from pymongo.errors import PyMongoError

from tests.servers.server import Server, program

pymongo.common.MIN_HEARTBEAT_INTERVAL = 0.02  # of a broken connection it takes 0.5 s, and here hundreds are broken


class MongoServer(Server):
    """One server, a database per place."""

    name: ClassVar[str] = "MongoDB"
    package: ClassVar[str] = "pip install secantusdb"

    def prepare(self) -> None:
        program(MongoServer, "secantusd-py")

    def command(self) -> list[str]:
        place = ["--host", self.host, "--port", str(self.port), "--storage-path", str(self.folder / "data")]
        return [program(MongoServer, "secantusd-py"), *place, "--sync-on-commit", "--log-level", "WARNING"]

    def answers(self) -> bool:
        url = f"mongodb://{self.host}:{self.port}/?directConnection=true"
        try:
            with pymongo.MongoClient[dict[str, object]](url, serverSelectionTimeoutMS=500) as client:
                return bool(client.admin.command("ping")["ok"])
        except PyMongoError:
            return False

    def url(self, name: str, *, port: int | None = None) -> str:
        return f"mongodb://{self.host}:{port or self.port}/{name}?directConnection=true&serverMonitoringMode=poll"
