"""MongoDB runs the whole suite, plain and sealed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from perdure.stores import Store, open_store
from perdure.stores.address import Address
from perdure.stores.mongo import open_url
from perdure.testing.conformance import DurableStoreConformance
from perdure.testing.conformance.durability import DurabilityChecks

KEY = bytes(range(32))
FULL = os.environ.get("PERDURE_STORM") == "full"


class OnMongo(DurableStoreConformance):
    """A database for each folder that a check is given. Read by processes that the check starts, too."""

    keys: bytes | None = None

    @pytest.fixture(autouse=True)
    def server(self, mongo_server) -> None:
        self.at = mongo_server.start().url("place")

    def open(self, place: Path) -> Store:
        return open_store(self.url(place), keys=self.keys)

    def bare(self, place: Path) -> Store:
        return open_url(Address.of(self.url(place)))

    def url(self, place: Path) -> str:
        return self.at.replace("place?", hashlib.sha256(str(place).encode()).hexdigest()[:16] + "?")


class TestMongo(OnMongo):
    pass


class TestSealedMongo(OnMongo):
    keys = KEY
    if not FULL:
        test_a_body_of_64_megabytes = None
        test_ten_thousand_records = None


if not FULL:  # a process that it starts takes seconds, and what it shows is shown by the plain store
    for name in vars(DurabilityChecks):
        if "killed" in name or "processes" in name or "elsewhere" in name:
            setattr(TestSealedMongo, name, None)
