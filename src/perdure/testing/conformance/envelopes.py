"""Envelopes: what is kept beside a family and beside the store, changed by whoever saw it last, and gone with it."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from perdure.errors import ConflictError, PerdureError, SessionErasedError, SessionExistsError, SessionUnknownError
from perdure.stores import Batch, Store
from perdure.testing.conformance.forks import fork, source
from perdure.testing.conformance.tools import Log, Place, interrupted, records_after, refused, same, together

_OLD, _NEW = b"perdure old envelope " + bytes(range(256)), b"perdure new envelope " + bytes(reversed(range(256)))
_FILE_BYTES_MAX: Final = 1 << 26


class EnvelopeChecks(Place):
    """What `envelope` and `put_envelope` do."""

    def bare(self, place: Path) -> Store:
        """The store itself, where `open` gives one around it that has the envelopes for itself."""
        return self.open(place)

    def test_an_envelope_is_of_its_family(self, tmp_path: Path) -> None:
        with self.bare(tmp_path) as store:
            log = source(store)
            fork(log, "f", 3)
            store.create("member", owner="me", family="s")
            store.create("other", owner="me")
            sessions = ("s", "f", "member", "other")
            same([store.envelope(session) for session in sessions], [None] * 4)
            store.put_envelope("f", _OLD, seen=None)
            same([store.envelope(session) for session in sessions], [_OLD, _OLD, _OLD, None])
            store.put_envelope("s", _NEW, seen=_OLD)
            same([store.envelope(session) for session in sessions], [_NEW, _NEW, _NEW, None])
        with self.bare(tmp_path) as store:
            same([store.envelope(session) for session in sessions], [_NEW, _NEW, _NEW, None])
            same(list(store.read("s")), log.records)

    def test_the_store_has_one_of_its_own(self, tmp_path: Path) -> None:
        with self.bare(tmp_path) as store:
            same(store.envelope(), None)
            store.put_envelope(None, _OLD, seen=None)
            Log(store).append(b"1")
            same((store.envelope(), store.envelope("s")), (_OLD, None))
            store.put_envelope("s", _NEW, seen=None)
            store.delete("s")
            same(store.envelope(), _OLD)
        with self.bare(tmp_path) as store:
            same((store.envelope(), store.heads()), (_OLD, []))

    def test_an_envelope_is_replaced_by_who_saw_it(self, tmp_path: Path) -> None:
        with self.bare(tmp_path) as store:
            Log(store).append(b"1")
            for session in ("s", None):
                with refused(ConflictError):
                    store.put_envelope(session, _NEW, seen=_OLD)
                store.put_envelope(session, _OLD, seen=None)
                for seen in (None, _NEW, b""):
                    with refused(ConflictError):
                        store.put_envelope(session, _NEW, seen=seen)
                same(store.envelope(session), _OLD)

    def test_of_many_who_put_one_at_once_one_does(self, tmp_path: Path) -> None:
        with self.bare(tmp_path) as store:
            Log(store).append(b"1")

            def put(number: int) -> bytes | None:
                try:
                    store.put_envelope("s", b"%d" % number, seen=None)
                except ConflictError:
                    return None
                return b"%d" % number

            same([found for found in together(8, put) if found is not None], [store.envelope("s")])

    def test_an_interrupted_change_of_an_envelope_changes_nothing(self, tmp_path: Path) -> None:
        with self.bare(tmp_path) as store:
            Log(store).append(b"1")
            store.put_envelope("s", _OLD, seen=None)
            for session in ("s", None):
                before = store.envelope(session)
                with interrupted("envelope.inside"), refused(InterruptedError):
                    store.put_envelope(session, _NEW, seen=before)
                same(store.envelope(session), before)

    def test_an_opening_brings_the_envelope_of_the_family_that_it_founds(self, tmp_path: Path) -> None:
        with self.bare(tmp_path) as store:
            batch = Batch(records_after([], "s", (b"1",), kind="note"), envelope=_OLD)
            with interrupted("append.inside"), refused(InterruptedError):
                store.open("s", batch, owner="me", seen=None)
            with refused(SessionUnknownError):
                store.envelope("s")
            store.open("s", replace(batch, envelope=_NEW), owner="me", seen=None)
            same(store.envelope("s"), _NEW)
            with refused(SessionExistsError):
                store.open("s", batch, owner="me", seen=None)
            store.create("member", owner="me", family="t")
            store.put_envelope("member", _OLD, seen=None)
            with refused(ConflictError):
                other = Batch(records_after([], "t", (b"1",), kind="note"), envelope=_NEW)
                store.open("t", other, owner="me", seen=None)
            same((store.envelope("s"), store.envelope("member")), (_NEW, _OLD))
            same([head.session for head in store.heads()], ["member", "s"])

    def test_an_envelope_belongs_to_a_session_that_is_there(self, tmp_path: Path) -> None:
        with self.bare(tmp_path) as store:
            Log(store, "gone")
            store.delete("gone")
            refusals: dict[str, type[PerdureError]] = {"gone": SessionErasedError, "nobody": SessionUnknownError}
            for session, error in refusals.items():
                with refused(error):
                    store.envelope(session)
                with refused(error):
                    store.put_envelope(session, _NEW, seen=None)

    def test_no_byte_stays_of_an_envelope_that_is_gone(self, tmp_path: Path) -> None:
        with self.bare(tmp_path) as store:
            Log(store, "s").append(b"1")
            Log(store, "member", family="s").append(b"1")
            Log(store, "other").append(b"1")
            store.put_envelope("s", _OLD, seen=None)
            store.put_envelope("s", _NEW, seen=_OLD)
            same(_found(tmp_path, _OLD), [])
            store.delete("s")
            same(store.envelope("member"), _NEW)
            store.delete("member")
            store.create("again", owner="me", family="s")
            same(store.envelope("again"), None)
            same(_found(tmp_path, _NEW), [])


def _found(place: Path, content: bytes) -> list[Path]:
    """The files that hold these bytes."""
    files = [path for path in place.rglob("*") if path.is_file() and path.stat().st_size < _FILE_BYTES_MAX]
    return [path for path in files if content[:48] in path.read_bytes()]
