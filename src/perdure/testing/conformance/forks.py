"""A fork shows what its base had up to its place, and what it made itself; neither sees more of the other."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure.errors import (
    ConflictError,
    DamageError,
    FencedError,
    HasForksError,
    SessionErasedError,
    SessionExistsError,
    SessionIdError,
    SessionUnknownError,
)
from perdure.log import GENESIS, Base, verified
from perdure.stores import Batch, Head, Lease, Point, Store
from perdure.testing.conformance.tools import Log, Place, interrupted, records_after, refused, same


def source(store: Store, session: str = "s") -> Log:
    """A session of five records, with rows in every index."""
    log = Log(store, session)
    for n in range(1, 6):
        log.append(
            b"%d" % n,
            points=(Point(n, n - 1, 1, f"p{n}", n),),
            marks=((b"m", n), (b"only %d" % n, n)),
            keyframes=((n, n),),
        )
    return log


def fork(log: Log, session: str, at: int, *bodies: bytes, base: Base | None = None, **parts: Any) -> Log:
    """A fork of it at this record, taken by a writer."""
    made = Log.__new__(Log)
    made.store, made.session, made.records = log.store, session, log.records[:at]
    records = records_after(made.records, session, bodies or (b"first",), kind="opened")
    batch = Batch(records, **parts)
    log.store.fork(session, batch, base=base or Base(log.session, at), epoch=1)
    made.records += records
    made.lease = log.store.claim(session, owner="writer", seen=Lease(session, 1, "", 0))
    return made


class ForkChecks(Place):
    """Forks."""

    def test_a_fork_begins_with_its_base(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = source(store)
            records = records_after(log.records[:3], "f", (b"first",), kind="opened")
            batch = Batch(records, (Point(4, 3, 2, "own", 9),), ((b"m", 4),), ((4, 4),), b"mine")
            store.fork("f", batch, base=Base("s", 3), epoch=7)
            same(store.lease("f"), Lease("f", 7, "", 0))
            same(store.head("f"), Head("f", "s", 4, records[0].chain, 7, b"mine", (Base("s", 3),)))
            same(list(store.read("f")), [*log.records[:3], *records])
            same([(p.seq, p.name) for p in store.points("f")], [(1, "p1"), (2, "p2"), (3, "p3"), (4, "own")])
            same(store.keyframes("f"), [(1, 1), (2, 2), (3, 3), (4, 4)])
            same((store.find("f", b"m"), store.find("f", b"only 4")), ([1, 2, 3, 4], []))
            same(sorted(seq for mark, seq in store.marks("f") if mark == b"m"), [1, 2, 3, 4])

    def test_the_chain_of_a_fork_goes_on_across_the_seam(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            made = fork(source(store), "f", 3)
            made.append(b"5", b"6")
            bases = store.head("f").bases
            found = list(verified(store.read("f"), session="f", after=0, previous=GENESIS, bases=bases))
            same(([r.session for r in found], found), (["s", "s", "s", "f", "f", "f"], made.records))
            with refused(DamageError, naming="1"):
                list(verified(store.read("f"), session="f", after=0, previous=GENESIS))

    def test_ranges_of_a_fork_are_read_across_the_seam(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            made = fork(source(store), "f", 3)
            made.append(b"5", b"6")
            for after in range(7):
                for upto in (None, *range(8)):
                    expected = made.records[after : 6 if upto is None else upto]
                    same(list(store.read("f", after=after, upto=upto)), expected)
            same(store.read_at("f", [6, 1, 4, 3]), [made.records[n - 1] for n in (6, 1, 4, 3)])
            for seq in (0, 7):
                with refused(DamageError, naming="record"):
                    store.read_at("f", [seq])

    def test_a_fork_and_its_base_go_on_apart(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = source(store)
            made, twin = fork(log, "f", 3), fork(log, "g", 3)
            log.append(b"6", points=(Point(6, 5, 1, None, 6),), marks=((b"m", 6),), keyframes=((3, 6), (2, 6)))
            made.append(b"5", points=(Point(5, 3, 1, None, 6),), marks=((b"m", 5),), keyframes=((2, 5),))
            same([list(store.read(one.session)) for one in (log, made, twin)], [o.records for o in (log, made, twin)])
            same(store.keyframes("f"), [(1, 1), (2, 5)])
            same((store.keyframes("g"), store.find("g", b"m")), ([(1, 1)], [1, 2, 3]))
            same((store.find("f", b"m"), store.find("s", b"m")), ([1, 2, 3, 5], [1, 2, 3, 4, 5, 6]))
            same([p.seq for p in store.points("f")], [1, 2, 3, 5])

    def test_a_fork_of_a_fork_has_both_bases(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            middle = fork(source(store), "f", 3)
            middle.append(b"5", b"6", marks=((b"m", 5),), points=(Point(5, 3, 1, "middle", 1),))
            leaf = fork(middle, "g", 5, marks=((b"m", 6),))
            leaf.append(b"7")
            same(list(store.read("g")), leaf.records)
            same([r.session for r in store.read("g")], ["s", "s", "s", "f", "f", "g", "g"])
            bases = (Base("s", 3), Base("f", 5))
            same((store.head("g").bases, store.head("g").family), (bases, "s"))
            same({head.session: head.bases for head in store.heads()}, {"g": bases, "f": bases[:1], "s": ()})
            same((store.find("g", b"m"), [p.name for p in store.points("g")][-1]), ([1, 2, 3, 5, 6], "middle"))

    def test_a_fork_is_of_a_record_that_its_base_wrote(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = source(store)
            middle = fork(log, "f", 3)
            for base in (Base("s", 6), Base("f", 3), Base("f", 5)):
                records = records_after([*middle.records, *log.records[4:]][: base.seq], "g", (b"x",), kind="opened")
                with refused(ValueError, naming="g"):
                    store.fork("g", Batch(records), base=base, epoch=1)
            with refused(ValueError):
                store.fork("g", Batch(()), base=Base("s", 3), epoch=1)
            with refused(ValueError):
                store.fork("g", Batch(records_after([], "g", (b"x",), kind="opened")), base=Base("s", 3), epoch=1)
            same([head.session for head in store.heads()], ["f", "s"])

    def test_a_fork_takes_a_new_id_and_a_base_that_is_there(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = source(store)
            Log(store, "gone")
            store.delete("gone")
            refusals = {"s": SessionExistsError, "gone": SessionErasedError, "": SessionIdError}
            for session, kind in refusals.items():
                with refused(kind):
                    store.fork(session, Batch(log.next(b"x")), base=Base("s", 5), epoch=1)
            batch = Batch(records_after(log.records, "f", (b"x",), kind="opened"))
            for base, absent in {"nobody": SessionUnknownError, "gone": SessionErasedError}.items():
                with refused(absent, naming=base):
                    store.fork("f", batch, base=Base(base, 5), epoch=1)
            same([head.session for head in store.heads()], ["s"])

    def test_a_fork_has_a_lease_and_a_head_of_its_own(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = source(store)
            made = fork(log, "f", 3)
            with refused(FencedError):
                made.attempt(Batch(made.next(b"x")), epoch=1)
            with refused(ConflictError):
                made.attempt(Batch(records_after(made.records[:3], "f", (b"x",), kind="note")), head=3)
            log.append(b"6")
            made.append(b"5")
            same((store.head("s").seq, store.head("f").seq, store.head("f").epoch), (6, 5, 2))

    def test_a_base_is_deleted_after_its_forks(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = source(store)
            store.put_chunks("s", {b"d" * 32: b"content"}, epoch=1)
            middle = fork(log, "f", 3)
            leaf = fork(middle, "g", 4)
            for session, fork_of_it in (("s", "f"), ("f", "g")):
                with refused(HasForksError, naming=fork_of_it):
                    store.delete(session)
            same(list(store.read("g")), leaf.records)
            for session in ("g", "f"):
                same(store.chunks(session, [b"d" * 32]), {b"d" * 32: b"content"})
                store.delete(session)
                with refused(SessionErasedError):
                    store.fork(session, Batch(tuple(middle.records[3:4])), base=Base("s", 3), epoch=1)
            same(log.content()[1], log.records)
            store.delete("s")
            same(store.heads(), [])

    def test_chunks_of_a_fork_are_those_of_its_family(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            made = fork(source(store), "f", 3)
            store.put_chunks("f", {b"d" * 32: b"content"}, epoch=made.lease.epoch)
            same(store.chunks("s", [b"d" * 32]), {b"d" * 32: b"content"})

    def test_a_fork_that_is_interrupted_is_not_there(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = source(store)
            records = records_after(log.records[:3], "f", (b"x",), kind="opened")
            batch = Batch(records, points=(Point(4, 3, 1, None, 1),), marks=((b"m", 4),), keyframes=((4, 4),))
            with interrupted("fork.inside"), refused(InterruptedError):
                store.fork("f", batch, base=Base("s", 3), epoch=1)
            with refused(SessionUnknownError):
                store.head("f")
            store.delete("s")
