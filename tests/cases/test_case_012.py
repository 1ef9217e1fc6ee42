"""Case 12: processes that open a missing store at the same moment; none fails, and it is made exactly once."""

from __future__ import annotations

import multiprocessing
import sqlite3
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from perdure.stores import open_store

PROCESSES, ROUNDS = 8, 20
SPAWN = multiprocessing.get_context("spawn")


def open_many(folder: Path, number: int, barrier: Barrier, results: Any) -> None:
    failed = []
    for turn in range(ROUNDS):
        barrier.wait(60)
        try:
            with open_store(folder / f"{turn}.db") as store:
                store.create(f"s{number}", owner="me")
        except Exception as error:  # noqa: BLE001 - told to the test
            failed.append(f"round {turn}: {error!r}")
    results.put(failed)


def test_eight_processes_open_a_missing_store_at_once(tmp_path: Path) -> None:
    barrier, results = SPAWN.Barrier(PROCESSES), SPAWN.Queue()
    processes = [SPAWN.Process(target=open_many, args=(tmp_path, n, barrier, results)) for n in range(PROCESSES)]
    for process in processes:
        process.start()
    assert [results.get(timeout=60) for _ in processes] == [[]] * PROCESSES
    for process in processes:
        process.join(60)
    for turn in range(ROUNDS):
        with open_store(tmp_path / f"{turn}.db") as store:
            assert len(store.heads()) == PROCESSES
        with closing(sqlite3.connect(tmp_path / f"{turn}.db")) as db:
            assert db.execute("SELECT count(*) FROM store").fetchone() == (1,)
            assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
