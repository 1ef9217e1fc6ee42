"""What is refused and leaves nothing: another head, an old epoch, a lease that moved, a batch that does not fit."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from perdure.errors import ConflictError, FencedError, HeldError
from perdure.stores import Batch, Lease, Point
from perdure.testing.conformance.tools import Log, Place, interrupted, refused, same


class ConditionChecks(Place):
    """Head, epoch, lease, and all or nothing."""

    def test_an_append_must_know_the_head(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"1", b"2")
            before = log.content()
            for head in (0, 1, 3):
                record = replace(log.next(b"x")[0], seq=head + 1)
                with refused(ConflictError, naming="2"):
                    log.attempt(Batch((record,)), head=head)
                with refused(ConflictError):
                    log.attempt(Batch((), summary=b"x"), head=head)
            same(log.content(), before)

    def test_a_batch_must_fit(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"1")
            before = log.content()
            two, three = log.next(b"2", b"3")
            for records in (
                (three,),
                (two, two),
                (three, two),
                (replace(two, session="t"),),
                (replace(two, kind="?"),),
            ):
                with refused(ValueError):
                    log.attempt(Batch(records))
            for parts in ({"points": (Point(3, 0, 1, None, 0),)}, {"marks": ((b"m", 3),)}, {"keyframes": ((0, 1),)}):
                with refused(ValueError):
                    log.attempt(Batch((two,), **parts))
            same(log.content(), before)

    def test_an_old_epoch_is_fenced(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"1")
            newer = store.claim("s", owner="other", seen=store.lease("s"))
            before = log.content()
            for epoch, head in ((1, 1), (1, 0), (newer.epoch + 1, 1)):
                record = replace(log.next(b"late")[0], seq=head + 1)
                with refused(FencedError, naming="s"):
                    log.attempt(Batch((record,), points=(Point(1, 0, 1, "late", 0),)), epoch=epoch, head=head)
                with refused(FencedError):
                    store.put_chunks("s", {b"d" * 32: b"c"}, epoch=epoch)
            with refused(FencedError):
                store.renew(log.lease)
            same(log.content(), before)

    def test_a_released_session_is_not_written(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            store.release(log.lease)
            same((store.lease("s").epoch, store.lease("s").owner), (1, ""))
            for use in (lambda: log.append(b"1"), lambda: store.renew(log.lease)):
                with refused(FencedError):
                    use()
            log.lease = store.claim("s", owner="next", seen=store.lease("s"))
            log.append(b"1")
            same((store.head("s").epoch, store.head("s").seq), (2, 1))

    def test_a_claim_must_have_seen_the_newest_lease(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            seen = store.create("s", owner="me")
            for stale in (
                replace(seen, counter=9),
                replace(seen, owner="x"),
                replace(seen, epoch=0),
                replace(seen, epoch=2),
            ):
                with refused(HeldError, naming="s"):
                    store.claim("s", owner="other", seen=stale)
            renewed = store.renew(seen)
            same(renewed, Lease("s", 1, "me", 1))
            with refused(HeldError):
                store.claim("s", owner="other", seen=seen)
            same(store.claim("s", owner="other", seen=renewed), store.lease("s"))
            same((store.lease("s").epoch, store.lease("s").owner), (2, "other"))

    def test_of_many_leases_those_that_hold_are_renewed(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            leases = [store.create(f"s{number}", owner="me") for number in range(120)]
            store.release(leases[1])
            newer = store.claim("s2", owner="other", seen=leases[2])
            store.delete("s3")
            never = Lease("never", 1, "me", 0)
            held = [leases[0], *leases[4:]]
            renewed = [replace(lease, counter=1) for lease in held]
            same(store.renew_all([never, *leases]), renewed)
            same([store.lease(lease.session) for lease in held], renewed)
            same((store.lease("s1").owner, store.lease("s2")), ("", newer))
            same(store.renew_all(renewed[:1]), [replace(leases[0], counter=2)])

    def test_a_late_release_takes_nothing_away(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            old = store.create("s", owner="me")
            newer = store.claim("s", owner="me", seen=old)
            store.release(old)
            same(store.lease("s"), newer)
            store.release(newer)
            released = store.lease("s")
            store.release(newer)
            same(store.lease("s"), released)

    def test_nobody_cannot_hold_a_session(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            with refused(ValueError):
                store.create("s", owner="")
            lease = store.create("s", owner="me")
            with refused(ValueError):
                store.claim("s", owner="", seen=lease)
            same(store.lease("s"), lease)

    def test_an_interrupted_append_leaves_nothing(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(b"1", summary=b"old")
            before = log.content()
            parts: dict[str, Any] = {"points": (Point(2, 1, 1, "n", 0),), "marks": ((b"m", 2),), "keyframes": ((2, 3),)}
            with interrupted("append.inside"), refused(InterruptedError):
                log.attempt(Batch(log.next(b"2", b"3"), summary=b"new", **parts))
            same(log.content(), before)
            log.append(b"2", b"3", summary=b"new", **parts)
            same(log.content()[1:], (log.records, [Point(2, 1, 1, "n", 0)], [(2, 3)], [2]))
