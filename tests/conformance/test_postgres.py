"""The whole suite on a real PostgreSQL; and by other ways to it, what is different there."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from perdure.stores import Store, open_store
from perdure.stores.address import Address
from perdure.stores.postgres import PostgresStore, open_url
from perdure.testing.conformance import DurableStoreConformance
from perdure.testing.conformance.conditions import ConditionChecks
from perdure.testing.conformance.envelopes import EnvelopeChecks
from perdure.testing.conformance.forks import ForkChecks
from perdure.testing.conformance.inbox import InboxChecks
from perdure.testing.conformance.keeping import KeepingChecks
from perdure.testing.conformance.openings import OpeningChecks
from perdure.testing.conformance.records import RecordChecks
from perdure.testing.conformance.together import TogetherChecks
from perdure.testing.conformance.tools import Place
from perdure.testing.conformance.waiting import WaitChecks

FULL = os.environ.get("PERDURE_STORM") == "full"


class OnPostgres(Place):
    """A schema for each folder."""

    keys: bytes | None = None
    options = ""
    server_url = ""

    @pytest.fixture(autouse=True)
    def _server(self, postgres_server) -> None:
        self.server_url = postgres_server.start().url("")

    def url(self, place: Path) -> str:
        return f"{self.server_url}c{sha256(bytes(place)).hexdigest()[:24]}{self.options}"

    def open(self, place: Path) -> Store:
        return open_store(self.url(place), keys=self.keys)

    def bare(self, place: Path) -> Store:
        return open_url(Address.of(self.url(place)))


class TestPostgres(OnPostgres, DurableStoreConformance):
    pass


WHOLE = (DurableStoreConformance,)
"""All of it, unless there is little time: then what differs by these ways."""


class TestSealedPostgres(OnPostgres, *(WHOLE if FULL else (RecordChecks, EnvelopeChecks, OpeningChecks))):
    keys = bytes(range(32))
    if not FULL:
        test_a_body_of_64_megabytes = None
        test_ten_thousand_records = None


class TestPartitions(OnPostgres, *(WHOLE if FULL else (KeepingChecks, ForkChecks))):
    options = "&partitions=4"


class TestPooler(OnPostgres, *(WHOLE if FULL else (ConditionChecks, InboxChecks, TogetherChecks, WaitChecks))):
    """Through a pooler, whose transactions each run on another connection of the server."""

    @pytest.fixture(autouse=True)
    def _server(self, pooler_server) -> None:
        self.server_url = pooler_server.start().url("")

    def test_it_is_found_out(self, tmp_path: Path) -> None:
        with self.bare(tmp_path) as store:
            assert isinstance(store, PostgresStore)
            assert store._server.pooled is True


def test_without_a_pooler_that_is_found_out_too(postgres_server) -> None:
    with open_url(Address.of(postgres_server.start().fresh_url())) as store:
        assert store._server.pooled is False
