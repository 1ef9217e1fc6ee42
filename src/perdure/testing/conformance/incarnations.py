"""Incarnations: once a place was taken back to an older copy of itself, no epoch is given a second time."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from perdure.errors import ConflictError, FencedError, HeldError
from perdure.stores import Batch, Lease
from perdure.stores.conditions import INCARNATION_BITS, incarnation_of
from perdure.testing.conformance.tools import Log, Place, refused, same

_FIRST, _SECOND, _THIRD = 1 << INCARNATION_BITS, 2 << INCARNATION_BITS, 3 << INCARNATION_BITS


class IncarnationChecks(Place):
    """What `incarnation` and `begin_incarnation` do, and what they mean for epochs."""

    def test_a_place_begins_in_its_first_life(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            same(store.incarnation(), 0)
            lease = store.create("s", owner="me")
            same((lease.epoch, store.claim("s", owner="you", seen=lease).epoch), (1, 2))

    def test_an_incarnation_stays_and_never_falls(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"1")
            for number, there in ((1, 1), (3, 3), (2, 3), (3, 3)):
                store.begin_incarnation(number)
                same(store.incarnation(), there)
            same(list(store.read("s")), log.records)
            same(store.lease("s"), log.lease)
        with self.open(tmp_path) as store:
            same(store.incarnation(), 3)

    def test_epochs_are_those_of_the_incarnation(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            seen = store.create("before", owner="me")
            store.begin_incarnation(1)
            same(store.create("after", owner="me").epoch, _FIRST + 1)
            for epoch in (_FIRST + 1, _FIRST + 2):
                seen = store.claim("before", owner="me", seen=seen)
                same((seen.epoch, store.lease("before"), store.head("before").epoch), (epoch, seen, epoch))
            same(incarnation_of(seen.epoch), 1)
            store.begin_incarnation(2)
            same(store.claim("before", owner="me", seen=seen).epoch, _SECOND + 1)
            same(store.create("from elsewhere", owner="me", epoch=7).epoch, _SECOND + 1)
            same(store.create("from further", owner="me", epoch=_THIRD + 5).epoch, _THIRD + 5)

    def test_an_opening_is_in_the_incarnation(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"1")
            old, new = log.next(b"2")[0], replace(log.next(b"2")[0], epoch=_FIRST + 1)
            store.begin_incarnation(1)
            first = replace(new, session="new", seq=1)
            with refused(ConflictError):
                store.open("new", Batch((replace(first, epoch=1),)), owner="me", seen=None)
            with refused(ConflictError):
                store.open("s", Batch((old,)), owner="me", seen=log.lease)
            same([head.session for head in store.heads()], ["s"])
            same(store.lease("s"), log.lease)
            same(store.open("new", Batch((first,)), owner="me", seen=None).lease.epoch, _FIRST + 1)
            same(store.open("s", Batch((new,)), owner="me", seen=log.lease).lease, Lease("s", _FIRST + 1, "me", 0))
            same(list(store.read("s")), [*log.records, new])

    def test_who_was_there_before_is_fenced_by_a_claim(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"1")
            old = replace(log.lease, epoch=5)  # of a life of the place that this copy of it does not know
            store.begin_incarnation(1)
            mine = store.claim("s", owner="me", seen=log.lease)
            for epoch in (log.lease.epoch, old.epoch):
                with refused(FencedError):
                    log.attempt(Batch(log.next(b"2")), epoch=epoch)
            with refused(HeldError):
                store.claim("s", owner="writer", seen=old)
            same(store.renew(mine), Lease("s", _FIRST + 1, "me", mine.counter + 1))

    def test_without_a_lease_nobody_writes_in_an_incarnation_that_is_over(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"1")
            store.release(log.lease)
            store.begin_incarnation(1)
            store.release(store.claim("s", owner="me", seen=store.lease("s")))
            (late,) = log.next(b"2")
            with refused(ConflictError):
                store.append("s", Batch((late,)), epoch=None, head=1)
            same(list(store.read("s")), log.records)
            mine = replace(late, epoch=_FIRST + 1)
            store.append("s", Batch((mine,)), epoch=None, head=1)
            same(list(store.read("s")), [*log.records, mine])
