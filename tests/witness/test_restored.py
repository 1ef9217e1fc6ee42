"""A copy that was restored on purpose: accepted on the record, in a new incarnation in which no epoch comes twice."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import perdure
from perdure import faults
from perdure.cli.app import main
from perdure.errors import (
    ConflictError,
    FencedError,
    RefusedError,
    SessionErasedError,
    SessionUnknownError,
    WitnessError,
)
from perdure.ops.restored import Accepted
from perdure.stores.conditions import incarnation_of
from perdure.testing.lives import forked
from tests.witness.test_compared import KINDS, Place


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A store that was put back: `s` is shorter, `late` not there, `gone` there again, and `other` as it was."""
    found = Place(tmp_path, request.param)
    for session in ("s", "gone", "other"):
        found.save(session, turn=1)
    copy = found.copy("old")
    found.save("s", turn=2)
    found.save("late", turn=1)
    with found.open() as store:
        store.erase("gone")
    found.copy("newest")
    found.restore(copy)
    return found


def test_it_is_accepted_on_the_record(place: Place) -> None:
    with place.open() as store:
        assert store.accept_restored("the disk died", by="ada") == Accepted(1, ("other", "s"), ("late",), ("gone",))
        assert store.state_at("s") == {"turn": 1}
        note = next(entry for entry in store.log("s") if entry.kind == "note")
        assert {name: note[name] for name in ("topic", "incarnation", "reason", "by")} == {
            "topic": "restored",
            "incarnation": 1,
            "reason": "the disk died",
            "by": "ada",
        }
        assert note["told"]["seq"] > note.seq - 2
        assert incarnation_of(note.epoch) == 1
    with place.open() as store:
        assert store.state_at("s") == {"turn": 1}
        assert store.state_at("other") == {"turn": 1}
        with pytest.raises(SessionUnknownError):
            store.state_at("late")
        with pytest.raises(SessionErasedError):
            store.state_at("gone")
        assert {info.id: info.status for info in store.sessions()} == {"s": "idle", "other": "idle"}
        assert store.doctor().ok
        assert all(store.verify(info.id, read_data=True).ok for info in store.sessions())


def test_what_is_lost_may_be_made_anew_in_epochs_of_its_own(place: Place) -> None:
    with place.open() as store:
        store.accept_restored("the disk died")
        with store.session("late") as s:
            s.state["turn"] = 7
        assert incarnation_of(store.backend.lease("late").epoch) == 1
        fork = store.fork("s", into="f")
        assert incarnation_of(store.backend.lease(fork.session).epoch) == 1
        with store.session("f") as s:
            assert s.state["turn"] == 1
    with place.open() as store:
        assert store.state_at("late") == {"turn": 7}
        assert all(store.verify(info.id, read_data=True).ok for info in store.sessions())


def test_the_store_that_was_left_is_known_as_such(place: Place) -> None:
    with place.open() as store:
        store.accept_restored("the disk died")
    place.restore(place.folder / "newest")
    with place.open() as store:
        for session in ("s", "late"):
            with pytest.raises(WitnessError, match="of incarnation 0, and 1 was begun since"):
                store.state_at(session)


def test_an_older_copy_is_accepted_again(place: Place) -> None:
    with place.open() as store:
        store.accept_restored("the disk died")
    place.restore(place.folder / "old")
    with place.open() as store:
        with pytest.raises(WitnessError):
            store.state_at("s")
        assert store.accept_restored("it died again").incarnation == 2
        assert store.state_at("s") == {"turn": 1}


def test_who_lived_on_is_fenced(place: Place) -> None:
    """A process that held `s` after the copy was made, in an epoch that the copy would give next."""
    with perdure.open(place.url) as other:
        late = other.session("s")
        epoch, head = late._core.epoch, late._core.head
        late.close()
    place.restore(place.folder / "old")
    with place.open() as store:
        store.accept_restored("the disk died")
        s = store.session("s")
        while s._core.head < head:
            s.state["turn"] = s._core.head
            s.save()
        batch = _batch(store.backend, epoch, s._core.head)
        with pytest.raises(FencedError):
            store.backend.append("s", batch, epoch=epoch, head=s._core.head)
        s.close()
        head = store.backend.head("s").seq
        with pytest.raises(ConflictError, match="incarnation"):
            store.backend.append("s", _batch(store.backend, epoch, head), epoch=None, head=head)


def _batch(store: perdure.stores.Store, epoch: int, head: int) -> perdure.stores.Batch:
    record = perdure.log.chained(bytes(32), session="s", seq=head + 1, epoch=epoch, kind="note", time_us=0, body=b"")
    return perdure.stores.Batch((record,))


def test_without_a_witness_a_new_incarnation_begins(tmp_path: Path) -> None:
    with perdure.open(str(tmp_path / "a.db")) as store:
        with store.session("s") as s:
            s.state["turn"] = 1
        assert store.accept_restored("from a backup") == Accepted(1, ("s",))
        with store.session("s") as s:
            s.state["turn"] = 2
        assert incarnation_of(store.backend.lease("s").epoch) == 1
        assert store.verify("s", read_data=True).ok


def test_a_reason_is_needed(tmp_path: Path) -> None:
    with perdure.open(str(tmp_path / "a.db")) as store, pytest.raises(RefusedError, match="say why"):
        store.accept_restored(" ")


def test_what_somebody_holds_is_left(place: Place) -> None:
    with perdure.open(place.url, lease_s=0.05) as other, other.session("other") as held:
        with perdure.open(place.url, witness=place.witness, lease_s=0.5) as store:
            found = store.accept_restored("the disk died")
            assert (found.sessions, [session for session, _ in found.left]) == (("s",), ["other"])
            assert "is held by" in found.left[0][1]
            assert store.state_at("s") == {"turn": 1}
        held.state["turn"] = 2
    with place.open() as store:
        assert store.accept_restored("now it is given back").left == ()
        assert store.state_at("other") == {"turn": 2}


def test_what_is_damaged_is_left(tmp_path: Path) -> None:
    place = Place(tmp_path, "sqlite")
    place.save("s", turn=1)
    copy = place.copy("old")
    place.save("s", turn=2)
    place.restore(copy)
    with closing(sqlite3.connect(place.store, isolation_level=None)) as db:
        db.execute("UPDATE records SET body = zeroblob(length(body)) WHERE key & 255 = 2")
    with place.open() as store:
        found = store.accept_restored("the disk died")
        assert (found.sessions, [session for session, _ in found.left]) == ((), ["s"])
        with pytest.raises(WitnessError):
            store.state_at("s")


@pytest.mark.parametrize("point", [point for point in faults.POINTS if point.startswith("restored.")])
@pytest.mark.parametrize("times", [1, 2])
def test_killed_and_said_again(place: Place, point: str, times: int) -> None:
    def killed() -> bytes:
        left = [times]

        def hook(reached: str) -> None:
            left[0] -= reached == point
            if not left[0]:
                os._exit(9)

        faults.hook = hook
        with place.open() as store:
            store.accept_restored("the disk died")
        return b""

    ended = os.waitstatus_to_exitcode(forked(killed)[1])
    assert ended == (0 if point == "restored.begun" and times > 1 else 9)
    with place.open() as store:
        found = store.accept_restored("the disk died")
        assert set(found.sessions) == {"s", "other"}
        assert store.state_at("s") == {"turn": 1}
        with pytest.raises(SessionErasedError):
            store.state_at("gone")
        assert all(store.verify(info.id, read_data=True).ok for info in store.sessions())


def test_the_command(place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PERDURE_STORE", place.url)
    monkeypatch.setenv("PERDURE_WITNESS", str(place.witness))
    with pytest.raises(SystemExit) as ended:
        main(["verify"])
    assert ended.value.code == 20
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["verify", "--accept-restored", "the disk died", "--by", "ada"])
    told = capsys.readouterr().out
    assert ended.value.code == 0, told
    assert told.startswith("accepted: incarnation 1 of the store\n  not in this copy: late\n  erased again: gone\n")
    with pytest.raises(SystemExit) as ended:
        main(["verify"])
    assert ended.value.code == 0


CALLS: list[int] = []


@perdure.action(effect="once")
def pay(number: int) -> int:
    CALLS.append(number)
    return number


@perdure.agent
def asking(s: perdure.Session) -> list[int]:
    paid = [pay(1)]
    s.save()
    s.ask("Go on?", key="go")
    return [*paid, pay(2)]


@perdure.steps
def stepping(s: perdure.Session) -> None:
    if not s.state:
        s.state["todo"] = [11, 12]
    if s.state["todo"]:
        s.call(pay, s.state["todo"].pop(0))
        if s.state["todo"]:
            s.ask("Go on?", key="go")
    else:
        s.complete("done")


def test_a_run_goes_on_after_it(tmp_path: Path) -> None:
    """What is in the copy is answered, once; the note in the middle of a run is nothing to its code."""
    CALLS.clear()
    place = Place(tmp_path, "sqlite")
    with place.open() as store:
        assert [store.run(fn, fn.__name__).status for fn in (asking, stepping)] == ["waiting", "waiting"]
    copy = place.copy("old")
    place.save("late", turn=1)
    place.restore(copy)
    with place.open() as store:
        store.accept_restored("the disk died")
        for fn, result in ((asking, [1, 2]), (stepping, "done")):
            store.answer(fn.__name__, "go", "yes")
            assert store.run(fn, fn.__name__).result == result
            assert store.replay(fn.__name__, fn).same
            assert store.verify(fn.__name__, read_data=True).ok
    assert sorted(CALLS) == [1, 2, 11, 12]
