"""MongoDB runs the whole suite, plain and sealed."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from perdure.stores import Store, open_store
from perdure.stores.address import Address
from perdure.stores.mongo import MongoStore
from perdure.testing.conformance import DurableStoreConformance


class OnMongo(DurableStoreConformance):
    """A database per folder that a check is given."""

    root: str

    @pytest.fixture(autouse=True)
    def _server(self, mongo_server):
        self.root = mongo_server.start().fresh_url()

    def url(self, place: Path) -> str:
        address, _, options = self.root.partition("?")
        return f"{address}{sha256(str(place).encode()).hexdigest()[:16]}?{options}"


class TestMongo(OnMongo):
    def open(self, place: Path) -> Store:
        return open_store(self.url(place))

    def bare(self, place: Path) -> Store:
        return MongoStore(Address.of(self.url(place)))
