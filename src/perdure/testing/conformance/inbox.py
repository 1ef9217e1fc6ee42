"""The inbox: what is sent is there once, in order, and goes exactly when the record is written that takes it."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from perdure.errors import ConflictError, FencedError, HeldError
from perdure.stores import Batch, Item
from perdure.testing.conformance.tools import BODIES, Log, Place, interrupted, refused, same, together


class InboxChecks(Place):
    """Sending, taking, and writing without a lease."""

    def test_what_is_sent_is_there_in_order(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store, self.open(tmp_path) as other:
            Log(store), Log(store, "S")
            same([other.send("s", body) for body in BODIES], [*range(1, len(BODIES) + 1)])
            same(other.send("S", b"elsewhere"), 1)
            items = [Item(number, body) for number, body in enumerate(BODIES, 1)]
            same((store.inbox("s"), store.inbox("s", after=3), store.inbox("s", after=99)), (items, items[3:], []))
            same(store.inbox("S"), [Item(1, b"elsewhere")])

    def test_an_item_is_there_when_opened_again(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            store.send("s", b"1", mark=b"m")
            store.send("s", b"2")
            log.append(b"r", taken=(1,))
        with self.open(tmp_path) as store:
            same(
                (store.inbox("s"), store.send("s", b"1", mark=b"m"), store.send("s", b"3")), ([Item(2, b"2")], None, 3)
            )

    def test_an_item_goes_with_the_record_that_takes_it(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            for body in (b"1", b"2", b"3"):
                store.send("s", body)
            log.append(b"r", taken=(2,))
            same([item.number for item in store.inbox("s")], [1, 3])
            for taken in ((2,), (4,), (3, 2)):
                with refused(ConflictError, naming="s"):
                    log.attempt(Batch(log.next(b"again"), taken=taken))
            with refused(ValueError):
                log.attempt(Batch(log.next(b"twice"), taken=(1, 1)))
            same((log.content()[1], [item.number for item in store.inbox("s")]), (log.records, [1, 3]))
            log.append(b"r", taken=(3, 1))
            same((store.inbox("s"), store.send("s", b"4")), ([], 4))

    def test_an_item_stays_when_its_record_is_refused(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            store.send("s", b"1")
            with refused(ConflictError):
                log.attempt(Batch((replace(log.next(b"r")[0], seq=6),), taken=(1,)), head=5)
            with refused(FencedError):
                log.attempt(Batch(log.next(b"r"), taken=(1,)), epoch=9)
            with interrupted("append.inside"), refused(InterruptedError):
                log.attempt(Batch(log.next(b"r"), taken=(1,)))
            same((store.inbox("s"), store.head("s").seq), ([Item(1, b"1")], 0))
            log.append(b"r", taken=(1,))
            same(store.inbox("s"), [])

    def test_a_mark_makes_an_item_once_for_ever(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            Log(store, "S")
            same([store.send("s", b"1", mark=b"m"), store.send("s", b"2", mark=b"m")], [1, None])
            same([store.send("s", b"3", mark=b"n"), store.send("S", b"1", mark=b"m")], [2, 1])
            log.append(b"r", taken=(1, 2))
            same([store.send("s", b"4", mark=b"m"), store.send("s", b"5", mark=b"\0m")], [None, 3])
            same(store.inbox("s"), [Item(3, b"5")])

    def test_a_writer_hears_of_its_inbox(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store, self.open(tmp_path) as other:
            log = Log(store)
            heard = [store.append("s", Batch(()), epoch=1, head=0)]
            other.send("s", b"1")
            other.send("s", b"2")
            heard.append(store.append("s", Batch(log.next(b"r")), epoch=1, head=0))
            heard.append(store.append("s", Batch((), taken=(1, 2)), epoch=1, head=1))
            same(heard, [0, 2, 2])

    def test_anybody_may_send(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            store.release(log.lease)
            store.send("s", b"1")
            log.lease = store.claim("s", owner="next", seen=store.lease("s"))
            store.send("s", b"2")
            same(store.lease("s"), log.lease)
            log.append(b"r", taken=(1, 2))

    def test_threads_that_send_lose_nothing(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            Log(store)
            numbers = together(8, lambda n: [store.send("s", b"%d-%d" % (n, i)) for i in range(5)])
            marked = together(8, lambda n: store.send("s", b"%d" % n, mark=b"one"))
            same(sorted(number for some in numbers for number in some), [*range(1, 41)])
            same(sorted(number or 0 for number in marked), [0] * 7 + [41])
            same([item.number for item in store.inbox("s")], [*range(1, 42)])

    def test_a_deleted_session_takes_its_inbox_along(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            Log(store), Log(store, "S")
            store.send("s", b"gone", mark=b"m")
            store.send("S", b"kept", mark=b"m")
            store.delete("s")
            same(store.inbox("S"), [Item(1, b"kept")])

    def test_without_a_lease_one_writes_only_while_nobody_has_it(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            with refused(HeldError, naming="writer"):
                store.append("s", Batch(log.next(b"1")), epoch=None, head=0)
            with refused(HeldError, naming="writer"):
                store.put_chunks("s", {b"d" * 32: b"c"}, epoch=None)
            store.release(log.lease)
            first = log.next(b"1")
            store.append("s", Batch(first), epoch=None, head=0)
            with refused(ConflictError):
                store.append("s", Batch(first), epoch=None, head=0)
            log.records += first
            store.put_chunks("s", {b"d" * 32: b"c"}, epoch=None)
            same((log.content()[1], store.chunks("s", [b"d" * 32])), (log.records, {b"d" * 32: b"c"}))
            log.lease = store.claim("s", owner="next", seen=store.lease("s"))
            with refused(HeldError, naming="next"):
                store.append("s", Batch(log.next(b"2")), epoch=None, head=1)
            log.append(b"2")

    def test_without_a_lease_one_of_many_appends(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            store.release(log.lease)

            def attempt(number: int) -> int:
                try:
                    store.append("s", Batch(log.next(b"%d" % number)), epoch=None, head=0)
                except ConflictError:
                    return 0
                return 1

            same((sum(together(8, attempt)), store.head("s").seq), (1, 1))
