"""A sealed store runs the whole suite, around every store of ours; what takes long of it around one, unless asked."""

from __future__ import annotations

import os
from pathlib import Path

from perdure.stores import Store, file, memory, open_store, sqlite
from perdure.testing.conformance import DurableStoreConformance, StoreConformance
from perdure.testing.conformance.durability import DurabilityChecks

KEY = bytes(range(32))
FULL = os.environ.get("PERDURE_STORM") == "full"


class TestSealedSqlite(DurableStoreConformance if FULL else StoreConformance):
    if not FULL:
        test_a_body_of_64_megabytes = None
        test_ten_thousand_records = None
        test_killed_inside_a_fork_it_has_no_fork = DurabilityChecks.test_killed_inside_a_fork_it_has_no_fork
        test_many_processes_make_one_place = DurabilityChecks.test_many_processes_make_one_place
        test_of_many_processes_each_append_is_kept = DurabilityChecks.test_of_many_processes_each_append_is_kept

    def open(self, place: Path) -> Store:
        return open_store(place / "agents.db", keys=KEY)

    def bare(self, place: Path) -> Store:
        return sqlite.open_url(str(place / "agents.db"))


class TestSealedFile(DurableStoreConformance if FULL else StoreConformance):
    if not FULL:
        test_a_body_of_64_megabytes = None
        test_ten_thousand_records = None

    def open(self, place: Path) -> Store:
        return open_store(f"file:{place / 'agents'}", keys=KEY)

    def bare(self, place: Path) -> Store:
        return file.open_url(str(place / "agents"))


class TestSealedMemory(StoreConformance):
    if not FULL:
        test_a_body_of_64_megabytes = None
        test_ten_thousand_records = None

    def open(self, place: Path) -> Store:
        return open_store(f"memory:{place}", keys=KEY)

    def bare(self, place: Path) -> Store:
        return memory.open_url(str(place))
