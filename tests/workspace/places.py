"""A place of chunks that outlives the process."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from perdure.workspace import Manifest, Workspace


class FolderPlace:
    """Chunks as files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def put(self, chunks: Mapping[bytes, bytes]) -> None:
        for digest, frame in chunks.items():
            temporary = self.folder / f"{digest.hex()}.{os.getpid()}"
            temporary.write_bytes(frame)
            temporary.rename(self.folder / digest.hex())

    def get(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        return {digest: (self.folder / digest.hex()).read_bytes() for digest in digests}

    def one(self, digest: bytes) -> bytes:
        return self.get([digest])[digest]

    def known(self) -> Collection[bytes]:
        return {bytes.fromhex(path.name) for path in self.folder.iterdir() if "." not in path.name}


def captured(workspace: Workspace) -> Manifest:
    found = workspace.capture()
    assert isinstance(found, Manifest), found
    return found
