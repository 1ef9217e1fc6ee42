"""Every store of ours runs the whole suite."""

from __future__ import annotations

from pathlib import Path

from perdure.stores import Store, file, memory, open_store, sqlite
from perdure.stores.witness import witnessed
from perdure.testing.conformance import DurableStoreConformance, StoreConformance


class TestSqlite(DurableStoreConformance):
    def open(self, place: Path) -> Store:
        return open_store(place / "agents.db")

    def bare(self, place: Path) -> Store:
        return sqlite.open_url(str(place / "agents.db"))


class TestFile(DurableStoreConformance):
    def open(self, place: Path) -> Store:
        return open_store(f"file:{place / 'agents'}")

    def bare(self, place: Path) -> Store:
        return file.open_url(str(place / "agents"))


class TestMemory(StoreConformance):
    def open(self, place: Path) -> Store:
        return open_store(f"memory:{place}")

    def bare(self, place: Path) -> Store:
        return memory.open_url(str(place))

    def test_it_says_that_it_is_not_durable(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            assert not store.durable


class TestWitnessed(StoreConformance):
    def open(self, place: Path) -> Store:
        return witnessed(open_store(f"memory:{place}"), place / "witness")

    def bare(self, place: Path) -> Store:
        return witnessed(memory.open_url(str(place)), place / "witness")
