"""`rekey` is killed at each instant that it names and at each transaction; done again, it comes to the same."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import limits, values
from perdure.errors import KeyNeededError, KeysError, KeyWrongError, PerdureError
from perdure.ops.doctor import Diagnosis
from perdure.ops.finding import Finding
from perdure.session.keeping.keyframer import Keyframer
from perdure.stores import open_store
from perdure.stores.sealed import SealedStore, resealing
from perdure.stores.sealed.family import generation_of
from tests.crash import killing
from tests.crash.killing import copy_of

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
POINTS = ("rekey.begun", "rekey.part", "amend.inside", "envelope.inside")


@pytest.fixture(params=["agents.db", "agents"], ids=["sqlite", "file"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with two families, one with a fork, whose data takes several transactions to be sealed anew."""
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 8)
    monkeypatch.setattr(limits, "SLICE_RECORDS", 7)
    found = Path(tmp_path, "here", request.param)
    found.parent.mkdir()
    with perdure.open(url_of(found), keys=OLD) as store:
        for session in ("s", "t"):
            with store.session(session) as s:
                for n in range(20 if session == "s" else 3):
                    s.state["log"] = [*s.state.get("log", []), os.urandom(100).hex()]
                    s.checkpoint(f"p{n}") if n % 5 == 0 else s.save()
                    s._keyframer._join()
        store.send("s", {"text": "waits"})
        store.fork("s", at="p15", into="f")
        with store.session("f") as s:
            s.state["more"] = os.urandom(100).hex()
    return found


def url_of(path: Path) -> str:
    return str(path) if path.suffix else f"file:{path}"


def states(path: Path, keys: Any = NEW) -> dict[tuple[str, int], bytes]:
    """What is there, each state as it is encoded; and all of it is whole."""
    with perdure.open(url_of(path), keys=keys) as store:
        found = {}
        for session in ("s", "f", "t"):
            assert [str(problem) for problem in store.verify(session, read_data=True).problems] == []
            for point in store.snapshots(session):
                found[session, point.seq] = values.encode(store.state_at(session, point.seq))
        return found


def chains(path: Path, keys: Any) -> list[bytes]:
    with perdure.open(url_of(path), keys=keys) as store:
        return [record.chain for record in store.backend.read("f")]


def generations(path: Path) -> set[int]:
    """Those of the data keys with which something is sealed."""
    with open_store(url_of(path), keys=[NEW, OLD]) as store:
        assert isinstance(store, SealedStore)
        inner, found = store.inner, set[int]()
        for session in ("s", "f", "t"):
            rows = [record.body for record in inner.read(session)]
            rows += inner.chunks(session, inner.chunk_sizes(session)).values()
            rows.append(inner.head(session).summary)
            found |= {generation_of(row, ("row", session, None)) for row in rows}
        return found


def rekey(path: Path, *, data: bool = True, kill: tuple[str, int] | None = None) -> Counter[str]:
    """Does it in a process of its own, which is killed when it comes to this point for the so-manieth time."""

    def work() -> None:
        with perdure.open(url_of(path), keys=[NEW, OLD]) as store:
            found = list(store.rekey(data=data))
        assert [one.why for one in found if one.why] == []

    return killing.reached(work, kill=kill)


def test_killed_anywhere_it_is_done_again(path: Path, tmp_path: Path) -> None:
    before, chain = states(path, OLD), chains(path, OLD)
    whole = copy_of(path, tmp_path / "whole")
    reached = rekey(whole)
    assert (states(whole), chains(whole, NEW), generations(whole)) == (before, chain, {2})
    assert all(reached[point] > 1 for point in POINTS), reached
    for kill in ((point, times) for point in (*POINTS, "purge.inside") for times in some(reached[point])):
        killed = copy_of(path, tmp_path / "-".join(map(str, kill)))
        rekey(killed, kill=kill)
        assert states(killed, [NEW, OLD]) == before
        rekey(killed)
        assert (states(killed), chains(killed, NEW)) == (before, chain)
        assert max(generations(killed)) - min(generations(killed)) <= 1, "a family that was done is done again"
        with perdure.open(url_of(killed), keys=NEW) as store, store.session("s") as s:
            assert s.receive(wait_s=0) == {"text": "waits"}


def some(count: int) -> list[int]:
    """The first, the last, and one in the middle, unless all are asked for."""
    if not count:
        return []
    return [*range(1, count + 1)] if os.environ.get("PERDURE_STORM") == "full" else sorted({1, count // 2 + 1, count})


def test_a_rotated_key_opens_what_the_old_one_closed(path: Path) -> None:
    before = states(path, OLD)
    with perdure.open(url_of(path), keys=[NEW, OLD]) as store:
        assert store.state_at("t")
        found = list(store.rekey())
    assert [(one.family, one.is_rewrapped, one.bodies, one.left) for one in found] == [
        ("s", True, 0, 0),
        ("t", True, 0, 0),
        ("", True, 0, 0),
    ]
    assert (states(path, NEW), generations(path)) == (before, {1})
    with pytest.raises(KeyWrongError):
        perdure.open(url_of(path), keys=OLD)
    with pytest.raises(KeyNeededError):
        perdure.open(url_of(path))
    with perdure.open(url_of(path), keys=NEW) as store:
        assert [one.is_rewrapped for one in store.rekey()] == [False] * 3


def about_keys(diagnosis: Diagnosis) -> list[Finding]:
    return [found for found in diagnosis.findings if found.kind == "keys"]


def test_the_doctor_says_what_is_left_of_a_rotation(path: Path) -> None:
    with perdure.open(url_of(path), keys=[NEW, OLD]) as store:
        (found,) = about_keys(store.doctor())
        assert (found.kind, found.severity, found.mend) == ("keys", "note", ("rekey",))
    rekey(path, kill=("rekey.part", 1))
    with perdure.open(url_of(path), keys=[NEW, OLD]) as store:
        mends = [found.mend for found in about_keys(store.doctor())]
        assert sorted(mends) == [("rekey",), ("rekey", "--data")]
        assert [one.why for one in store.rekey(data=True)] == [""] * 3
        assert about_keys(store.doctor(deep=True)) == []


def test_the_old_envelopes_are_nowhere(path: Path) -> None:
    with open_store(url_of(path), keys=OLD) as store:
        old = [store.envelope(session) for session in ("s", "t", None)]
    rekey(path, data=False)
    content = b"".join(file.read_bytes() for file in sorted(path.parent.rglob("*")) if file.is_file())
    assert [envelope for envelope in old if envelope is None or envelope[30:90] in content] == []


def test_somebody_who_has_only_the_old_key_says_what_is_missing(path: Path) -> None:
    with perdure.open(url_of(path), keys=OLD) as late:
        rekey(path, data=True)
        with pytest.raises(KeyWrongError, match=r"family|key"):
            late.state_at("s")


def test_others_read_and_write_meanwhile(path: Path) -> None:
    url, stop, failed = url_of(path), threading.Event(), list[PerdureError]()

    def write() -> None:
        try:
            with perdure.open(url, keys=[NEW, OLD]) as store, store.session("s") as s:
                while not stop.wait(0.01):
                    s.state["n"] = s.state.get("n", 0) + 1
                    s.save()
        except PerdureError as error:
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with perdure.open(url, keys=[NEW, OLD]) as store:
            first = [one for one in store.rekey(data=True) if one.family]
            reader = perdure.open(url, keys=[NEW, OLD])
            assert reader.state_at("s")["log"]
            reader.close()
    finally:
        stop.set()
        writer.join()
    assert failed == []
    assert [one.why for one in first] == ["", ""]
    with perdure.open(url, keys=NEW) as store:
        done = [one for one in store.rekey(data=True) if one.family]
        assert [(one.why, one.left) for one in done] == [("", 0), ("", 0)]
        assert store.verify("s", read_data=True).ok
    assert 1 not in generations(path)


def test_what_is_not_sealed_has_no_key_to_change(tmp_path: Path) -> None:
    with perdure.open(str(tmp_path / "plain.db")) as store, pytest.raises(KeysError, match="not sealed"):
        store.rekey()


@pytest.mark.parametrize("wrong", ["forgets the old key", "leaves chunks", "does not remember"])
def test_a_wrong_build_is_caught(wrong: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = states(path, OLD)
    if wrong == "forgets the old key":
        real = resealing.envelope.Secrets.next
        monkeypatch.setattr(
            resealing.envelope.Secrets, "next", lambda self: resealing.replace(real(self), data=real(self).data[-1:])
        )
    elif wrong == "leaves chunks":
        monkeypatch.setattr(resealing._Work, "chunks", lambda *_: 0)
    else:
        monkeypatch.setattr(resealing._Work, "session", lambda *_: 0)
    with pytest.raises((AssertionError, PerdureError)):  # noqa: PT012 - wherever it shows
        rekey(path, kill=("rekey.begun", 1) if wrong == "forgets the old key" else None)
        assert states(path, [NEW, OLD]) == before
        assert generations(path) == {2}
