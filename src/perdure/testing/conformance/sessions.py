"""Sessions come, are told apart, and go for ever; handles on one place show the same."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from pathlib import Path
from typing import Final

from perdure.errors import (
    ClosedError,
    DamageError,
    FencedError,
    SessionErasedError,
    SessionError,
    SessionExistsError,
    SessionIdError,
    SessionUnknownError,
)
from perdure.log import GENESIS
from perdure.stores import Head, Lease, Point
from perdure.testing.conformance.tools import BODIES, Log, Place, every_use, refused, same

IDS: Final = (
    *("a", "A", "a/b", "a/b/c", "a//b", "/a", "a/", "a.b", ".a", "a.", "a..b", "../a", "a b", "a%62", "%61", "a\\b"),
    *(
        "a'b",
        'a"b',
        "a;b",
        "a*",
        "a?",
        "a_",
        "a%",
        "a:b",
        "~a",
        "-a",
        "CON",
        "con",
        "nul.txt",
        "é",
        "日本語",
        "😀",
        "ß",
    ),
    *("ss", "\u0130", "i", "\u03a3", "\u03c3", "\u03c2", "\u200ba", "x" * 200, "0", "None"),
)
"""Ids that must all be kept apart."""

BAD_IDS: Final = ("", ".", "..", "...", " a", "a ", "a\n", "\ta", "a\0b", "a\x7f", "\ud83d", "e\u0301", "x" * 201, 7)
"""What is no id."""


class SessionChecks(Place):
    """Ids, creation, deletion, opening and closing."""

    def test_a_new_session_is_empty_and_held(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            same(store.create("s", owner="me"), Lease("s", 1, "me", 0))
            same(store.lease("s"), Lease("s", 1, "me", 0))
            same(store.head("s"), Head("s", "s", 0, GENESIS, 1, b""))
            same([store.points("s"), store.keyframes("s"), list(store.read("s")), store.find("s", b"m")], [[]] * 4)

    def test_a_session_may_begin_in_a_later_epoch(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            same(store.create("s", owner="me", epoch=41), Lease("s", 41, "me", 0))
            same((store.lease("s"), store.head("s").epoch), (Lease("s", 41, "me", 0), 41))
            same(store.claim("s", owner="other", seen=store.lease("s")).epoch, 42)

    def test_a_session_is_created_once(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            Log(store).append(b"1")
            with refused(SessionExistsError, naming="s"):
                store.create("s", owner="other")
            same(store.lease("s").owner, "writer")

    def test_ids_that_look_alike_are_kept_apart(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            for session in IDS:
                Log(store, session).append(session.encode())
            for session in IDS:
                same([record.body for record in store.read(session)], [session.encode()])
            same({head.session for head in store.heads()}, set(IDS))

    def test_what_is_no_id_is_refused(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            for session in BAD_IDS:
                with refused(SessionIdError):
                    store.create(session, owner="me")  # type: ignore[arg-type]
            same(store.heads(), [])

    def test_what_is_no_id_is_never_found(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            Log(store).append(b"1")
            for session in BAD_IDS:
                for use in every_use(store, Lease(str(session), 1, "me", 0)):
                    with refused(SessionError):
                        use()
            same((store.heads(prefix="\ud83d"), store.find("s", b"\xed\xa0\xbd")), ([], []))

    def test_an_unknown_session_is_named(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            for use in every_use(store, Lease("nobody", 1, "me", 0), lambda: store.delete("nobody")):
                with refused(SessionUnknownError, naming="nobody"):
                    use()

    def test_a_deleted_session_is_gone_for_ever(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log, other = Log(store), Log(store, "S")
            other.append(b"kept", points=(Point(1, 0, 1, "kept", 0),), marks=((b"m", 1),), keyframes=((1, 1),))
            log.append(b"gone", points=(Point(1, 0, 1, "gone", 0),), marks=((b"m", 1),), keyframes=((1, 1),))
            kept = other.content()
            store.delete("s")
            for use in every_use(store, log.lease, lambda: store.create("s", owner="me")):
                with refused(SessionErasedError, naming="s"):
                    use()
            store.release(log.lease)
            store.delete("s")
            same(([head.session for head in store.heads()], other.content()), (["S"], kept))

    def test_chunks_go_with_the_last_of_a_family(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            for session in ("root", "fork"):
                store.create(session, owner="me", family="root")
            store.put_chunks("root", {b"d" * 32: b"content"}, epoch=1)
            store.delete("root")
            same(store.chunks("fork", [b"d" * 32]), {b"d" * 32: b"content"})
            store.delete("fork")
            store.create("late", owner="me", family="root")
            with refused(DamageError):
                store.chunks("late", [b"d" * 32])

    def test_two_handles_see_one_another_at_once(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store, self.open(tmp_path) as other:
            log = Log(store)
            for n in range(1, 4):
                log.append(b"%d" % n, points=(Point(n, n - 1, 1, None, n),))
                same((list(other.read("s")), len(other.points("s")), other.head("s").seq), (log.records, n, n))
            newer = other.claim("s", owner="other", seen=store.lease("s"))
            with refused(FencedError):
                log.append(b"late")
            same(store.lease("s"), newer)

    def test_what_was_written_is_there_when_opened_again(self, tmp_path: Path) -> None:
        with self.open(tmp_path) as store:
            log = Log(store)
            log.append(*BODIES, points=(Point(2, 1, 1, "n", 3),), marks=((b"m", 1),), keyframes=((2, 3),), summary=b"s")
            store.put_chunks("s", {b"d" * 32: b"c"}, epoch=1)
            before = log.content()
        for _ in range(2):
            with self.open(tmp_path) as log.store:
                same(log.content(), before)
                same((log.store.chunks("s", [b"d" * 32]), log.store.lease("s")), ({b"d" * 32: b"c"}, log.lease))

    def test_a_closed_store_says_so(self, tmp_path: Path) -> None:
        store = self.open(tmp_path)
        lease = store.create("s", owner="me")
        store.close()
        store.close()
        for use in every_use(store, lease, store.heads, lambda: store.delete("s"), lambda: store.release(lease)):
            with refused(ClosedError):
                use()
