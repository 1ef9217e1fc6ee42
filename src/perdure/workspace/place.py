"""Where a workspace's chunks are kept: who captures and restores is given one, and knows nothing else of a store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from perdure.errors import MissingError


class Place(Protocol):
    """A place of content-addressed chunks."""

    def put(self, chunks: Mapping[bytes, bytes]) -> None:
        """Keeps frames under their addresses; durable on return."""

    def get(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """These frames. Raises `MissingError`, which names the first that is not there."""

    def known(self) -> Collection[bytes]:
        """The addresses of those that are there, and stay there while who asks holds the place."""


class Shelf:
    """A place in memory."""

    def __init__(self) -> None:
        self.kept: dict[bytes, bytes] = {}

    def put(self, chunks: Mapping[bytes, bytes]) -> None:
        """See `Place.put`."""
        self.kept.update(chunks)

    def get(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """See `Place.get`."""
        found = {}
        for digest in digests:
            if digest not in self.kept:
                raise MissingError(f"chunk {digest.hex()} is missing")
            found[digest] = self.kept[digest]
        return found

    def known(self) -> Collection[bytes]:
        """See `Place.known`."""
        return self.kept.keys()
