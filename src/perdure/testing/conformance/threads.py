"""Many threads on one store: one wins where one may, none is lost, no reader sees half a batch."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import threading
from pathlib import Path

from perdure.errors import ConflictError, HeldError
from perdure.log import GENESIS, verified
from perdure.stores import Batch, Point, Store
from perdure.testing.conformance.tools import Log, Place, outcome, same, together


class ThreadChecks(Place):
    """Races within a process."""

    def test_of_many_threads_one_appends(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            for head in range(10):
                results = together(8, lambda n: outcome(lambda: log.attempt(Batch(log.next(b"%d" % n)))))
                same(sorted(results, key=str), sorted([None] + [ConflictError] * 7, key=str))
                same((store.head("s").seq, len(list(store.read("s")))), (head + 1, head + 1))
                log.records = list(store.read("s"))

    def test_of_many_threads_one_claims(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            seen = store.create("s", owner="me")
            results = together(8, lambda n: outcome(lambda: store.claim("s", owner=f"t{n}", seen=seen)))
            same(sorted(results, key=str), sorted([None] + [HeldError] * 7, key=str))
            same(store.lease("s").epoch, 2)

    def test_sessions_of_many_threads_do_not_mix(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:

            def write(number: int) -> Log:
                log = Log(store, f"s{number}")
                for n in range(20):
                    log.append(b"%d-%d" % (number, n), marks=((b"m", n + 1),), points=(Point(n + 1, n, 1, None, 0),))
                return log

            for log in together(6, write):
                same((list(store.read(log.session)), store.find(log.session, b"m")), (log.records, [*range(1, 21)]))

    def test_a_reader_sees_whole_batches_only(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log, ended = Log(store), threading.Event()

            def work(number: int) -> None:
                if number:
                    while not ended.is_set():
                        read_whole_batches(store)
                    return
                for n in range(1, 121, 3):
                    log.append(b"a", b"b", b"c", points=(Point(n + 2, n, 1, None, 0),))
                ended.set()

            together(3, work)
            read_whole_batches(store)


def read_whole_batches(store: Store) -> None:
    """Fails if a batch of three is seen in part, or the index is ahead of the records."""
    points = len(store.points("s"))
    records = list(verified(store.read("s"), session="s", after=0, previous=GENESIS))
    if len(records) % 3 or len(records) < 3 * points:
        raise AssertionError(f"a reader saw {len(records)} records in batches of 3, and before that {points} points")
