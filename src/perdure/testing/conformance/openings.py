"""A session is taken, or made, together with the first records of its owner: all of it or nothing."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from perdure.errors import ConflictError, HeldError, SessionErasedError, SessionExistsError, SessionUnknownError
from perdure.stores import Batch, Held, Lease, Point, Store
from perdure.testing.conformance.tools import Log, Place, interrupted, outcome, records_after, refused, same, together


def first(session: str = "s") -> Batch:
    """What an owner of a new session begins with."""
    records = records_after([], session, (b"1", b"2"), kind="note")
    parts: dict[str, Any] = {"points": (Point(2, 0, 1, "n", 0),), "marks": ((b"m", 1),), "keyframes": ((2, 2),)}
    return Batch(records, summary=b"sum", chunks={b"d" * 32: b"c"}, **parts)


def released(store: Store) -> Log:
    """A session of two records that nobody holds."""
    log = Log(store)
    log.append(b"1", b"2", summary=b"old")
    store.release(log.lease)
    return log


class OpeningChecks(Place):
    """`open`, and what it refuses."""

    def test_an_opening_makes_a_session_with_its_first_records(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            Log(store, "other")
            held = store.open("s", first(), owner="me", seen=None)
            same(held, Held(Lease("s", 1, "me", 0), 0))
            same((store.lease("s"), list(store.read("s"))), (held.lease, list(first().records)))
            head = store.head("s")
            same((head.seq, head.chain, head.family, head.epoch), (2, first().records[-1].chain, "s", 1))
            same((head.summary, head.bases), (b"sum", ()))
            same((store.points("s"), store.keyframes("s"), store.find("s", b"m")), ([*first().points], [(2, 2)], [1]))
            same(store.chunks("s", [b"d" * 32]), {b"d" * 32: b"c"})
            same([head.session for head in store.heads()], ["s", "other"])
            store.append("s", Batch(records_after([*first().records], "s", (b"3",), kind="note")), epoch=1, head=2)

    def test_an_opening_takes_a_session_with_its_next_records(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = released(store)
            Log(store, "other")
            store.send("s", b"1")
            store.send("s", b"2")
            records = log.next(b"3")
            batch = Batch(records, points=(Point(3, 0, 1, None, 0),), summary=b"new", taken=(2,))
            held = store.open("s", batch, owner="next", seen=store.lease("s"))
            same(held, Held(Lease("s", 2, "next", 0), 2))
            same(store.lease("s"), held.lease)
            log.records += records
            head = store.head("s")
            same((log.content()[1], head.seq, head.epoch, head.summary), (log.records, 3, 2, b"new"))
            same([item.number for item in store.inbox("s")], [1])
            same([head.session for head in store.heads()], ["s", "other"])
            log.lease = held.lease
            log.append(b"4")

    def test_an_opening_must_have_seen_the_newest_lease(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = released(store)
            seen, before = store.lease("s"), log.content()
            for stale in (
                replace(seen, counter=9),
                replace(seen, owner="x"),
                replace(seen, epoch=0),
                replace(seen, epoch=2),
            ):
                with refused(HeldError, naming="s"):
                    store.open("s", Batch(log.next(b"3")), owner="next", seen=stale)
            same((log.content(), store.lease("s")), (before, seen))

    def test_an_opening_must_know_the_head(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = released(store)
            seen, before = store.lease("s"), log.content()
            for seq in (1, 2, 4):
                with refused(ConflictError, naming="2"):
                    store.open("s", Batch((replace(log.next(b"x")[0], seq=seq),)), owner="next", seen=seen)
            with refused(ConflictError):
                store.open("s", Batch(log.next(b"3"), taken=(1,)), owner="next", seen=seen)
            same((log.content(), store.lease("s")), (before, seen))

    def test_an_opening_makes_only_what_is_new(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = released(store)
            before = log.content(), store.lease("s")
            with refused(SessionExistsError, naming="s"):
                store.open("s", first(), owner="next", seen=None)
            same((log.content(), store.lease("s")), before)
            with refused(SessionUnknownError, naming="never"):
                store.open("never", first("never"), owner="next", seen=Lease("never", 1, "", 0))
            store.delete("s")
            for seen in (None, before[1]):
                with refused(SessionErasedError, naming="s"):
                    store.open("s", first(), owner="next", seen=seen)

    def test_an_opening_must_fit(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            later = records_after([*first().records], "s", (b"3",), kind="note")
            for batch in (Batch(()), Batch(later), first("t"), Batch(first().records[::-1])):
                with refused(ValueError):
                    store.open("s", batch, owner="me", seen=None)
            with refused(ValueError):
                store.open("s", first(), owner="", seen=None)
            same(store.heads(), [])

    def test_an_interrupted_opening_leaves_nothing(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            with interrupted("append.inside"), refused(InterruptedError):
                store.open("s", first(), owner="me", seen=None)
            same(outcome(lambda: store.head("s")), SessionUnknownError)
            log = released(store)
            seen, before = store.lease("s"), log.content()
            with interrupted("append.inside"), refused(InterruptedError):
                store.open("s", Batch(log.next(b"3"), summary=b"new"), owner="next", seen=seen)
            same((log.content(), store.lease("s")), (before, seen))
            store.open("s", Batch(log.next(b"3"), summary=b"new"), owner="next", seen=seen)

    def test_of_many_that_open_one_takes(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = released(store)
            seen, records = store.lease("s"), log.next(b"3")
            for session, batch, lease, refusals in (
                # Of a sealed store it may be the family's envelope that came first.
                ("new", first("new"), None, {SessionExistsError, ConflictError}),
                ("s", Batch(records), seen, {HeldError}),
            ):

                def attempt(number: int, session: str = session, batch: Batch = batch, lease: Any = lease) -> Any:
                    return outcome(lambda: store.open(session, batch, owner=f"t{number}", seen=lease))

                told = together(8, attempt)
                same((told.count(None), {*told} - {None} - refusals), (1, set()))
                same(store.lease(session).owner, f"t{told.index(None)}")
