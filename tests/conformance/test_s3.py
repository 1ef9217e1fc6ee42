"""An S3-compatible server runs the whole suite, plain and sealed; and what only an object store can meet."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from perdure.stores import Store, open_store
from perdure.stores.address import Address
from perdure.stores.s3 import open_url
from perdure.testing.conformance import DurableStoreConformance
from perdure.testing.conformance.durability import DurabilityChecks

KEY = bytes(range(32))
FULL = os.environ.get("PERDURE_STORM") == "full"


class OnS3(DurableStoreConformance):
    """Places are told apart by the folder that the check was given. Read by processes that the check starts, too."""

    keys: bytes | None = None

    @pytest.fixture(autouse=True)
    def server(self, s3_server) -> None:
        self.at = s3_server.url("conformance")

    def open(self, place: Path) -> Store:
        return open_store(self.url(place), keys=self.keys)

    def bare(self, place: Path) -> Store:
        return open_url(Address.of(self.url(place)))

    def url(self, place: Path) -> str:
        name = hashlib.sha256(str(place).encode()).hexdigest()[:16]
        return self.at.replace("/agents?", f"/{name}?")


class TestS3(OnS3):
    pass


class TestSealedS3(OnS3):
    keys = KEY
    if not FULL:
        test_a_body_of_64_megabytes = None
        test_ten_thousand_records = None
        test_a_lease_that_moved_is_young_again = None


if not FULL:  # a process that it starts takes seconds, and what it shows is shown by the plain store
    for name in vars(DurabilityChecks):
        if "killed" in name or "processes" in name or "elsewhere" in name:
            setattr(TestSealedS3, name, None)
