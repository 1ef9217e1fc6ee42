"""Keeping house: bodies that are dropped on the record, chunks that nothing needs, space that is given back."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from perdure.errors import ConflictError, DamageError, HeldError
from perdure.log import GENESIS, stub, verified
from perdure.stores import Batch, Change, Lease, Point, Store
from perdure.testing.conformance.tools import Log, Place, interrupted, refused, same

_DIGESTS: Final = (b"d" * 32, b"e" * 32, b"f" * 32)
_FREED_BYTES: Final = 1 << 18


class KeepingChecks(Place):
    """What `amend`, `drop_chunks` and `give_back` do, and when they must not."""

    def test_an_amendment_is_found_again(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = filled(store)
            amend(log, Change(bodies=((4, b""), (2, b"short")), points=(2, 4), keyframes=(2,), marks=((b"m", 2),)))
        with self.open(tmp_path) as store:
            same([record.body for record in store.read("s")], [b"1", b"short", b"3", b"", b"5", b"amended"])
            same([record.chain for record in store.read("s")], [record.chain for record in log.records])
            same([point.seq for point in store.points("s")], [1, 3, 5])
            same((store.keyframes("s"), store.find("s", b"m")), ([(3, 4)], [3]))
            head = store.head("s")
            same((head.seq, head.chain, head.summary), (6, log.records[-1].chain, b"after"))

    def test_a_stub_keeps_the_chain_whole(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = filled(store)
            amend(log, Change(bodies=tuple((record.seq, stub(record.body)) for record in log.records[:4])))
            same(len(list(verified(store.read("s"), session="s", after=0, previous=GENESIS))), 6)

    def test_an_amended_session_is_written_on(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = filled(store)
            amend(log, Change(bodies=((1, b""),), points=(1,)))
            log.lease = store.claim("s", owner="next", seen=store.lease("s"))
            log.append(b"7", points=(Point(7, 5, 1, None, 7),))
            same([point.seq for point in store.points("s")], [2, 3, 4, 5, 7])
            same(store.read_at("s", [1, 7])[0].body, b"")

    def test_an_amendment_needs_what_was_seen(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = filled(store)
            change = Change(bodies=((1, b""),), points=(1,), chunks={_DIGESTS[2]: b"new"})
            seen, before = store.lease("s"), everything(store, log)
            for stale in (Lease("s", 1, "writer", seen.counter), Lease("s", 1, "", 7), Lease("s", 0, "", seen.counter)):
                with refused(HeldError, naming="s"):
                    amend(log, change, seen=stale)
            for head in (4, 6):
                with refused(ConflictError, naming="5"):
                    store.amend("s", Batch(()), change, seen=seen, head=head, family=["s"])
            for family in ([], ["s", "t"], ["t"]):
                with refused(ConflictError):
                    amend(log, change, family=family)
            store.claim("s", owner="other", seen=seen)
            with refused(HeldError, naming="other"):
                amend(log, change, seen=seen)
            store.release(store.lease("s"))
            now = everything(store, log)
            same((now[0], *now[3:]), (before[0], *before[3:]))

    def test_an_amendment_must_fit(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = filled(store)
            before = everything(store, log)
            for change in (
                Change(bodies=((6, b""),)),
                Change(bodies=((0, b""),)),
                Change(bodies=((1, b""), (1, b"x"))),
                Change(points=(9,)),
                Change(keyframes=(-1,)),
                Change(marks=((b"m", 6),)),
            ):
                with refused(ValueError):
                    amend(log, change)
            same(everything(store, log), before)

    def test_an_amendment_knows_its_family(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = filled(store)
            store.create("t", owner="me", family="s")
            store.create("u", owner="me")
            with refused(ConflictError):
                amend(log, Change(bodies=((1, b""),)))
            amend(log, Change(bodies=((1, b""),)), family=["t", "s"])
            same(store.read_at("s", [1])[0].body, b"")

    def test_an_amendment_leaves_listings_as_they_are(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = filled(store)
            Log(store, "t").append(b"1")
            amend(log, Change(bodies=((1, b""),)))
            same([head.session for head in store.heads()], ["t", "s"])

    def test_an_amendment_takes_items(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = filled(store)
            first, second = store.send("s", b"one") or 0, store.send("s", b"two") or 0
            with refused(ConflictError):
                amend(log, Change(bodies=((1, b""),)), taken=(first, second + 1))
            same([item.number for item in store.inbox("s")], [first, second])
            amend(log, Change(bodies=((1, b""),)), taken=(first,))
            same([item.number for item in store.inbox("s")], [second])
            store.purge("s")
            same([item.content for item in store.inbox("s")], [b"two"])
            same(store.read_at("s", [1])[0].body, b"")

    def test_an_interrupted_amendment_leaves_nothing(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = filled(store)
            before = everything(store, log)
            change = Change(((1, b""),), points=(1,), keyframes=(2,), marks=((b"m", 2),), chunks={_DIGESTS[2]: b"x"})
            with interrupted("amend.inside"), refused(InterruptedError):
                amend(log, change)
            now = everything(store, log)
            same(now[1:], before[1:])
            same({digest: now[0][digest] for digest in before[0]}, before[0])  # one that nothing names may be there

    def test_chunks_that_nothing_needs_are_dropped(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = filled(store)
            store.create("u", owner="me")
            store.put_chunks("u", {_DIGESTS[0]: b"of another"}, epoch=1)
            same(store.chunk_sizes("s"), {_DIGESTS[0]: 3, _DIGESTS[1]: 4})
            store.drop_chunks([_DIGESTS[0], _DIGESTS[2]], seen=seen_of(store, "s"))
            same(store.chunk_sizes("s"), {_DIGESTS[1]: 4})
            with refused(DamageError, naming=_DIGESTS[0].hex()):
                store.chunks("s", [_DIGESTS[0]])
            same(store.chunks("u", [_DIGESTS[0]]), {_DIGESTS[0]: b"of another"})
            amend(log, Change(chunks={_DIGESTS[0]: b"back"}))
            same(store.chunks("s", [_DIGESTS[0]]), {_DIGESTS[0]: b"back"})

    def test_chunks_are_dropped_only_as_all_was_seen(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            filled(store)
            seen = seen_of(store, "s")
            (lease,) = seen
            refusals: list[tuple[type[Exception], dict[Lease, int]]] = [
                (ConflictError, {lease: 4}),
                (HeldError, {Lease("s", 1, "writer", lease.counter): 5}),
            ]
            for error, stale in refusals:
                with refused(error):
                    store.drop_chunks(_DIGESTS, seen=stale)
            other = Log(store, "t", family="s")
            store.release(other.lease)
            with refused(ConflictError):
                store.drop_chunks(_DIGESTS, seen=seen)
            both = seen | seen_of(store, "t")
            with interrupted("sweep.inside"), refused(InterruptedError):
                store.drop_chunks(_DIGESTS, seen=both)
            same(len(store.chunk_sizes("s")), 2)
            store.drop_chunks(_DIGESTS, seen=both)
            same(store.chunk_sizes("s"), {})

    def test_what_was_freed_is_given_back_in_steps(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = filled(store)
            log.lease = store.claim("s", owner="me", seen=store.lease("s"))
            for _ in range(8):
                log.append(*[bytes([n]) * 4000 for n in range(100)])
            store.release(log.lease)
            amend(log, Change(bodies=tuple((record.seq, stub(record.body)) for record in log.records)))
            steps, left = 0, store.give_back(bytes_max=_FREED_BYTES)
            while left:
                now = store.give_back(bytes_max=_FREED_BYTES)
                if not (now < left and steps < 100):
                    raise AssertionError(f"after {steps} steps there are {now} bytes to give back, before {left}")
                steps, left = steps + 1, now
            same(len(list(verified(store.read("s"), session="s", after=0, previous=GENESIS))), 806)


def filled(store: Store) -> Log:
    """A session that nobody holds, with five records, points, marks, keyframes and chunks."""
    log = Log(store)
    points = tuple(Point(seq, seq - 1, 1, None, seq) for seq in range(1, 6))
    marks = ((b"m", 2), (b"m", 3))
    log.append(*(b"%d" % n for n in range(1, 6)), points=points, marks=marks, keyframes=((2, 3), (3, 4)), summary=b"s")
    store.put_chunks("s", {_DIGESTS[0]: b"one", _DIGESTS[1]: b"more"}, epoch=1)
    store.release(log.lease)
    return log


def amend(
    log: Log, change: Change, *, seen: Lease | None = None, family: Any = ("s",), taken: tuple[int, ...] = ()
) -> None:
    """One amendment with its record; what was appended is in the log afterwards."""
    records = log.next(b"amended", kind="amended")
    batch = Batch(records, summary=b"after", taken=taken)
    log.store.amend("s", batch, change, seen=seen or log.store.lease("s"), head=len(log.records), family=family)
    log.records += records


def seen_of(store: Store, session: str) -> dict[Lease, int]:
    """What `drop_chunks` must be told of a session."""
    return {store.lease(session): store.head(session).seq}


def everything(store: Store, log: Log) -> tuple[Any, ...]:
    """All that the store has of the session: the sizes of its chunks, its lease, and the rest."""
    return store.chunk_sizes("s"), store.lease("s"), *log.content(), sorted(store.marks("s"))
