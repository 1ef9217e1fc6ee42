"""One store in front of another runs the whole suite, in both modes, plain and sealed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from urllib.parse import quote

import pytest

from perdure.stores import Store, open_store
from perdure.stores.opening import open_bare
from perdure.testing.conformance import DurableStoreConformance, StoreConformance
from perdure.testing.conformance.durability import DurabilityChecks
from perdure.testing.conformance.forks import ForkChecks
from perdure.testing.conformance.keeping import KeepingChecks
from perdure.testing.conformance.openings import OpeningChecks

KEY = bytes(range(32))
FULL = os.environ.get("PERDURE_STORM") == "full"


def url(hot: str, cold: str, mode: str) -> str:
    return f"tiered:?hot={quote(hot, safe='')}&cold={quote(cold, safe='')}&mode={mode}&copy_s=0.001"


class MemoryBeforeSqlite:
    mode = "through"

    def url(self, place: Path) -> str:
        return url(f"memory:{place}-hot", f"sqlite:///{place / 'cold.db'}", self.mode)

    def open(self, place: Path) -> Store:
        return open_store(self.url(place))

    def bare(self, place: Path) -> Store:
        return open_bare(self.url(place))


class TestThrough(MemoryBeforeSqlite, DurableStoreConformance if FULL else StoreConformance):
    # both tiers reach "append.inside", so a count of it is none of appends; tests/tiered kills at each of its points
    test_killed_inside_an_append_it_keeps_what_it_acknowledged = None
    test_killed_while_many_sessions_append_each_keeps_what_it_acknowledged = None
    if not FULL:
        test_a_body_of_64_megabytes = None
        test_ten_thousand_records = None
        test_killed_at_any_moment = DurabilityChecks.test_killed_at_any_moment_it_keeps_what_it_acknowledged
        test_of_many_processes_each_append_is_kept = DurabilityChecks.test_of_many_processes_each_append_is_kept


class TestBehind(MemoryBeforeSqlite, StoreConformance):
    mode = "behind"
    if not FULL:
        test_a_body_of_64_megabytes = None
        test_ten_thousand_records = None

    def test_it_says_that_it_is_not_durable(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            assert not store.durable


class SqliteBeforeSqlite(MemoryBeforeSqlite):
    mode = "behind"

    def url(self, place: Path) -> str:
        return url(f"sqlite:///{place / 'hot.db'}", f"sqlite:///{place / 'cold.db'}", self.mode)


class TestDurableBehind(SqliteBeforeSqlite, DurableStoreConformance if FULL else OpeningChecks):
    test_killed_inside_an_append_it_keeps_what_it_acknowledged = None
    test_killed_while_many_sessions_append_each_keeps_what_it_acknowledged = None
    if not FULL:
        test_killed_at_any_moment = DurabilityChecks.test_killed_at_any_moment_it_keeps_what_it_acknowledged
        test_killed_inside_an_opening = DurabilityChecks.test_killed_inside_an_opening_it_is_as_before
        test_of_many_processes_each_append_is_kept = DurabilityChecks.test_of_many_processes_each_append_is_kept
        test_of_many_processes_one_claims = DurabilityChecks.test_of_many_processes_one_claims


class TestSealedThrough(MemoryBeforeSqlite, StoreConformance):
    if not FULL:
        test_a_body_of_64_megabytes = None
        test_ten_thousand_records = None

    def open(self, place: Path) -> Store:
        return open_store(self.url(place), keys=KEY)


class TestSealedBehind(TestSealedThrough):
    mode = "behind"


class Some(OpeningChecks, ForkChecks, KeepingChecks):
    """What of the suite goes deepest into both tiers."""


class TestRedisBeforePostgres(MemoryBeforeSqlite, StoreConformance if FULL else Some):
    mode = "behind"

    @pytest.fixture(autouse=True)
    def servers(self, redis_server, postgres_server) -> None:
        self.hot, self.cold = redis_server.url(""), postgres_server.url("")

    def url(self, place: Path) -> str:
        name = "t" + hashlib.sha256(str(place).encode()).hexdigest()[:16]
        return url(self.hot + name, self.cold + name, self.mode)


class TestSqliteBeforeS3(MemoryBeforeSqlite, StoreConformance if FULL else Some):
    mode = "behind"

    @pytest.fixture(autouse=True)
    def server(self, s3_server) -> None:
        self.at = s3_server

    def url(self, place: Path) -> str:
        name = hashlib.sha256(str(place).encode()).hexdigest()[:16]
        return url(f"sqlite:///{place / 'hot.db'}", self.at.url("t" + name), self.mode)
