"""Appends that are under way at the same time: whatever they share, each is acknowledged and judged by itself."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path

from perdure.errors import ClosedError, ConflictError, FencedError, PerdureError
from perdure.stores import Batch, Point
from perdure.testing.conformance.tools import Log, Place, outcome, refused, same, together


class TogetherChecks(Place):
    """Futures and threads."""

    def test_a_future_that_is_done_is_written(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store, self.open(tmp_path) as other:
            logs = [Log(store, f"s{number}") for number in range(8)]
            for log, future in [(log, submitted(log, b"1", b"2")) for log in logs]:
                same((future.result(), other.head(log.session).seq), (0, 2))
                same(list(other.read(log.session)), list(log.next(b"1", b"2")))

    def test_each_of_those_who_come_together_has_a_verdict_of_its_own(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            logs = [Log(store, f"s{number}") for number in range(12)]
            odd: tuple[dict[str, int], ...] = ({}, {"epoch": 9}, {}, {"head": 1})
            told = [submitted(log, b"1", **odd[number % 4]) for number, log in enumerate(logs)]
            verdicts = [outcome(future.result) for future in told]
            same(verdicts, [None, FencedError, None, ConflictError] * 3)
            same([store.head(log.session).seq for log in logs], [1, 0, 1, 0] * 3)

    def test_of_many_threads_each_has_a_verdict_of_its_own(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:

            def write(number: int) -> list[type[PerdureError] | None]:
                log = Log(store, f"s{number}")
                told: list[type[PerdureError] | None] = []
                for n in range(15):
                    epoch = 9 if (n + number) % 3 == 0 else 1
                    batch = Batch(log.next(b"%d" % n), points=(Point(len(log.records) + 1, 0, 1, None, 0),))
                    told.append(outcome(partial(log.attempt, batch, epoch=epoch)))
                    log.records += batch.records if epoch == 1 else ()
                same((list(store.read(log.session)), store.head(log.session).seq), (log.records, 10))
                return told

            for number, told in enumerate(together(6, write)):
                same(told, [FencedError if (n + number) % 3 == 0 else None for n in range(15)])

    def test_what_is_submitted_for_one_session_is_written_in_that_order(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log, told = Log(store), []
            for n in range(30):
                told.append(submitted(log, b"%d" % n))
                log.records += log.next(b"%d" % n)
            same([outcome(future.result) for future in told], [None] * 30)
            same(list(store.read("s")), log.records)

    def test_what_was_cancelled_is_not_written(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            logs = [Log(store, f"s{number}") for number in range(30)]
            told = [submitted(log, b"1") for log in logs]
            withdrawn = [future.cancel() for future in reversed(told)][::-1]
            same([outcome(future.result) for future in told if not future.cancelled()], [None] * withdrawn.count(False))
        with self.open(tmp_path) as store:
            same([store.head(log.session).seq == 0 for log in logs], withdrawn)

    def test_a_closed_store_takes_no_more(self, tmp_path: Path) -> None:
        store = self.open(tmp_path)
        log = Log(store)
        told = submitted(log, b"1")
        store.close()
        same(outcome(told.result), None)
        with refused(ClosedError):
            submitted(log, b"2", head=1).result()


def submitted(log: Log, *bodies: bytes, **odd: int) -> Future[int]:
    """The future of an append to this log; of one with another epoch or head."""
    head = odd.get("head", len(log.records))
    records = log.next(*bodies)
    moved = tuple(replace(record, seq=record.seq - len(log.records) + head) for record in records)
    return log.store.submit(log.session, Batch(moved), epoch=odd.get("epoch", 1), head=head)
