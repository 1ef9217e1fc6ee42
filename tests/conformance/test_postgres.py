"""The whole suite on a real PostgreSQL, and what only a server can meet."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from perdure.stores import Store, open_store
from perdure.stores.address import Address
from perdure.stores.postgres import open_url
from perdure.testing.conformance import DurableStoreConformance


class OnPostgres(DurableStoreConformance):
    """A schema for each folder."""

    options = ""
    server_url = ""

    @pytest.fixture(autouse=True)
    def _server(self, postgres_server) -> None:
        self.server_url = postgres_server.start().url("")

    def url(self, place: Path) -> str:
        return f"{self.server_url}c{sha256(bytes(place)).hexdigest()[:24]}{self.options}"

    def open(self, place: Path) -> Store:
        return open_store(self.url(place))

    def bare(self, place: Path) -> Store:
        return open_url(Address.of(self.url(place)))


class TestPostgres(OnPostgres):
    pass
