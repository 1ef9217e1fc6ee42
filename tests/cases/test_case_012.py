"""Case 12: processes that open a missing store at the same moment; none fails, and it is made exactly once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from perdure.stores import open_store
from perdure.testing.processes import FRESH, begun
from tests.servers import places

PROCESSES, ROUNDS = 8, 20
PROCESSES_THERE, ROUNDS_THERE = 4, 2
"""At the places of each other kind."""


def open_many(urls: list[str], number: int, barrier: Barrier, results: Any) -> None:
    failed = []
    for turn, url in enumerate(urls):
        barrier.wait(60)
        try:
            with open_store(url) as store:
                store.create(f"s{number}", owner="me")
        except Exception as error:  # noqa: BLE001 - told to the test
            failed.append(f"round {turn}: {error!r}")
    results.put(failed)


def opened_at_once(urls: list[str], *, count: int) -> None:
    barrier, results = FRESH.Barrier(count), FRESH.Queue()
    processes = [begun(open_many, urls, n, barrier, results) for n in range(count)]
    assert [results.get(timeout=60) for _ in processes] == [[]] * count
    for process in processes:
        process.join(60)
    for url in urls:
        with open_store(url) as store:
            assert len(store.heads()) == count


def test_eight_processes_open_a_missing_file_at_once(tmp_path: Path) -> None:
    opened_at_once([f"{tmp_path}/{turn}.db" for turn in range(ROUNDS)], count=PROCESSES)
    for turn in range(ROUNDS):
        with closing(sqlite3.connect(tmp_path / f"{turn}.db")) as db:
            assert db.execute("SELECT count(*) FROM store").fetchone() == (1,)
            assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_processes_open_a_missing_place_of_each_other_kind_at_once(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    urls = []
    for kind in places.DURABLE:
        server = request.getfixturevalue(kind.fixture).start() if kind.fixture else None
        for turn in range(ROUNDS_THERE):
            folder = tmp_path / f"{kind.name}{turn}"
            folder.mkdir()
            urls.append(kind.at(folder, server))
    opened_at_once(urls, count=PROCESSES_THERE)
