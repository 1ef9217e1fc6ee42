"""A store with a witness: an older or another copy of it gives nothing, in whatever way it is read."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.cli.app import main
from perdure.errors import (
    DamageError,
    SessionErasedError,
    SessionUnknownError,
    WitnessError,
    WitnessFailedError,
)
from perdure.log import GENESIS
from perdure.runtime.store import AgentStore

KINDS = ("sqlite", "file")


class Place:
    """A store, its witness elsewhere, and copies of the store."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.store = folder / ("agents.db" if kind == "sqlite" else "agents")
        self.url = str(self.store) if kind == "sqlite" else f"file:{self.store}"
        self.witness = folder / "elsewhere" / "witness"
        self.witness.parent.mkdir()

    def open(self) -> AgentStore:
        return perdure.open(self.url, witness=self.witness)

    def save(self, session: str, **state: Any) -> None:
        with self.open() as store, store.session(session) as s:
            s.state.update(state)

    def copy(self, name: str) -> Path:
        """A complete copy of the store, of this moment."""
        to = self.folder / name
        if self.store.is_dir():
            shutil.copytree(self.store, to)
        else:
            shutil.copy2(self.store, to)
        return to

    def restore(self, copy: Path) -> None:
        """The copy in the place of the store."""
        if self.store.is_dir():
            shutil.rmtree(self.store)
            shutil.copytree(copy, self.store)
        else:
            shutil.copy2(copy, self.store)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.param)


@pytest.fixture
def older(place: Place) -> Place:
    """The store was put back to a copy in which `s` is shorter and `late` is not there."""
    place.save("s", turn=1)
    place.save("other", turn=1)
    copy = place.copy("old")
    place.save("s", turn=2)
    place.save("late", turn=1)
    place.restore(copy)
    return place


READS: dict[str, Callable[[AgentStore, str], Any]] = {
    "state_at": lambda store, session: store.state_at(session),
    "snapshots": lambda store, session: store.snapshots(session),
    "log": lambda store, session: list(store.log(session)),
    "detail": lambda store, session: store.detail(session),
    "action": lambda store, session: store.action(session, 1),
    "questions": lambda store, session: store.questions(session),
    "session": lambda store, session: store.session(session),
    "optimistic": lambda store, session: store.session(session, optimistic=True),
    "run": lambda store, session: store.run(agent, session),
    "resume": lambda store, session: store.resume(session),
    "replay": lambda store, session: store.replay(session, agent),
    "branches": lambda store, session: store.branches(session),
    "diff": lambda store, session: store.diff(session),
    "fork": lambda store, session: store.fork(session, into="f"),
    "rollback": lambda store, session: store.rollback(session, 0),
    "checkpoint": lambda store, session: store.checkpoint(session, "name"),
    "send": lambda store, session: store.send(session, "hello"),
    "pause": lambda store, session: store.pause(session),
    "answer": lambda store, session: store.answer(session, 1, "yes"),
    "settle": lambda store, session: store.settle(session, 1, "done"),
    "gc": lambda store, session: store.gc(session, keep_last=1),
    "erase": lambda store, session: store.erase(session),
    "export": lambda store, session: store.export_file(session, "exported"),
    "copy": lambda store, session: store.copy(session, perdure.open("memory:")),
    "drive": lambda store, session: store.drive(session, into="driven", fn=agent),
    "branch": lambda store, session: store.branch(session, 1),
    "preview_resume": lambda store, session: store.preview_resume(session),
    "preview_rollback": lambda store, session: store.preview_rollback(session, 0),
    "save": lambda store, session: store.save(session),
    "cancel": lambda store, session: store.cancel(session),
    "would_erase": lambda store, session: store.would_erase(session),
    "follow": lambda store, session: next(iter(store.follow(session))),
    "go_on": lambda store, session: store.go_on(session, into="mended"),
    "aio": lambda store, session: asyncio.run(store.aio.state_at(session)),
}


def agent(s: perdure.Session) -> int:
    return 1


@pytest.mark.parametrize("session", ["s", "late"])
def test_no_way_of_reading_an_older_copy_gives_anything(
    older: Place, session: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with older.open() as store:
        for name, read in READS.items():
            with pytest.raises(WitnessError) as caught:
                read(store, session)
            assert session in str(caught.value), name
            assert "perdure verify --accept-restored" in str(caught.value), name
        assert not (tmp_path / "exported").exists()
        listed = {info.id: info.status for info in store.sessions()}
        assert listed == {"s": "damaged", "late": "damaged", "other": "idle"}
        assert [problem.kind for problem in store.verify(session).problems] == ["witness"]
        found = store.doctor()
        assert {one.session for one in found.findings if one.kind == "witness"} == {"s", "late"}
        assert store.state_at("other") == {"turn": 1}
    place = older.folder / "old"
    assert place.exists()


@pytest.mark.parametrize(
    "command",
    [
        "show s",
        "log s",
        "state s",
        "diff s",
        "verify s",
        "verify",
        "replay s",
        "resume s",
        "checkpoint s name",
        "rollback s 0",
        "fork s --into f",
        "settle s 1 done",
        "answer s 1 yes",
        "send s hello",
        "pause s",
        "cancel s",
        "export s there.perdure",
        "copy agents.db other.db --session s",
        "gc s --keep-last 1",
        "erase s --yes",
        "doctor s --go-on mended",
    ],
)
def test_no_command_gives_anything(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    place = Place(tmp_path, "sqlite")
    place.save("s", said="turn 1")
    copy = place.copy("old")
    place.save("s", said="turn 2")
    place.restore(copy)
    monkeypatch.setenv("PERDURE_WITNESS", str(place.witness))
    monkeypatch.setenv("PERDURE_STORE", str(place.store))
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    told = capsys.readouterr()
    assert ended.value.code in (WitnessError.exit_status, DamageError.exit_status), told
    assert "the witness was told of record" in told.out + told.err
    assert "turn 1" not in told.out + told.err
    assert not (tmp_path / "there.perdure").exists()


def test_both_heads_are_named(older: Place) -> None:
    with perdure.open(older.url) as store:
        there = store.backend.head("s")
    with older.open() as store, pytest.raises(WitnessError) as caught:
        store.state_at("s")
    told = [line for line in older.witness.read_text().splitlines() if '"session":"s"' in line][-1]
    assert there.chain.hex()[:12] in str(caught.value)
    assert told.partition('"chain":"')[2][:12] in str(caught.value)


def test_without_the_witness_the_copy_is_a_store_like_any_other(older: Place) -> None:
    with perdure.open(older.url) as store:
        assert store.state_at("s") == {"turn": 1}


def test_a_copy_that_was_gone_on_with_is_another_log(place: Place) -> None:
    place.save("s", turn=1)
    copy = place.copy("old")
    place.save("s", turn=2)
    place.restore(copy)
    with perdure.open(place.url) as store:  # which knows no witness
        for turn in range(10, 14):
            with store.session("s") as s:
                s.state["turn"] = turn
    with place.open() as store, pytest.raises(WitnessError, match="another one"):
        store.state_at("s")


def test_what_was_written_without_the_witness_goes_on_from_what_it_knows(place: Place) -> None:
    place.save("s", turn=1)
    with perdure.open(place.url) as store, store.session("s") as s:
        s.state["turn"] = 2
    with place.open() as store:
        assert store.state_at("s") == {"turn": 2}
    place.save("s", turn=3)
    with place.open() as store:
        assert store.state_at("s") == {"turn": 3}


def test_a_store_that_goes_back_while_it_is_open(place: Place) -> None:
    place.save("s", turn=1)
    copy = place.copy("old")
    with place.open() as store:
        with store.session("s") as s:
            s.state["turn"] = 2
        assert store.state_at("s") == {"turn": 2}
        told = store.backend
        with perdure.open(str(copy) if copy.is_file() else f"file:{copy}") as old:
            inner, told.inner = told.inner, old.backend  # type: ignore[attr-defined]
            with pytest.raises(WitnessError):
                store.state_at("s")
            told.inner = inner  # type: ignore[attr-defined]


def test_an_erasure_is_told(place: Place) -> None:
    place.save("s", turn=1)
    copy = place.copy("old")
    with place.open() as store:
        store.erase("s")
        with pytest.raises(SessionErasedError):
            store.state_at("s")
    with place.open() as store:
        assert [*store.sessions()] == []
        with pytest.raises(SessionErasedError):
            store.session("s")
    place.restore(copy)
    with place.open() as store, pytest.raises(WitnessError, match="was erased, and is in this copy"):
        store.state_at("s")


def test_an_erased_session_is_not_made_again_in_a_copy_that_never_had_it(place: Place) -> None:
    place.save("other", turn=1)
    copy = place.copy("old")
    place.save("s", turn=1)
    with place.open() as store:
        store.erase("s")
    place.restore(copy)
    with place.open() as store:
        with pytest.raises(SessionErasedError):
            store.session("s")
        with pytest.raises(SessionErasedError):
            store.fork("other", into="s")
        assert {info.id for info in store.sessions()} == {"other"}


def test_an_erasure_behind_its_back(place: Place) -> None:
    place.save("s", turn=1)
    with perdure.open(place.url) as store:
        store.erase("s")
    with place.open() as store, pytest.raises(WitnessError, match="no erasure was told"):
        store.state_at("s")


def test_a_session_that_is_gone_is_not_begun_afresh(tmp_path: Path) -> None:
    place = Place(tmp_path, "sqlite")
    place.save("s", turn=1)
    with closing(sqlite3.connect(place.store, isolation_level=None)) as db:
        db.execute("DELETE FROM sessions")
        db.execute("DELETE FROM records")
    with place.open() as store:
        for make in (lambda: store.session("s"), lambda: store.run(agent, "s")):
            with pytest.raises(WitnessError, match="no erasure was told"):
                make()
        with pytest.raises(SessionUnknownError):
            store.state_at("never")


def test_a_tail_that_was_cut_with_its_head(tmp_path: Path) -> None:
    place = Place(tmp_path, "sqlite")
    place.save("s", turn=1)
    with closing(sqlite3.connect(place.store, isolation_level=None)) as db:
        head = db.execute("SELECT seq, chain, epoch, summary FROM sessions").fetchone()
        rest = db.execute("SELECT max(key) FROM records").fetchone()
        place.save("s", turn=2)
        db.execute("DELETE FROM records WHERE key > ?", rest)
        db.execute("DELETE FROM points WHERE key > ?", rest)
        db.execute("UPDATE sessions SET seq = ?, chain = ?, epoch = ?, summary = ?", head)
    with perdure.open(place.url) as store:
        assert store.verify("s", read_data=True).ok
    with place.open() as store, pytest.raises(WitnessError):
        store.state_at("s")


def test_a_store_that_was_there_before_its_witness_is_told_whole(place: Place) -> None:
    with perdure.open(place.url) as store, store.session("s") as s:
        s.state["turn"] = 1
    copy = place.copy("old")
    with perdure.open(place.url) as store, store.session("s") as s:
        s.state["turn"] = 2
    with place.open():
        pass
    place.restore(copy)
    with place.open() as store, pytest.raises(WitnessError):
        store.state_at("s")


@pytest.fixture
def memory() -> Iterator[tuple[list[str], AgentStore]]:
    """A store whose witness is an object."""
    kept = Kept()
    with perdure.open("memory:", witness=kept) as store:
        yield kept.lines, store


class Kept:
    """A witness in memory."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def tell(self, lines: Any, /) -> None:
        self.lines += lines

    def told(self) -> list[str]:
        return self.lines


def test_an_object_is_told_and_asked(memory: tuple[list[str], AgentStore]) -> None:
    lines, store = memory
    with store.session("s") as s:
        s.state["turn"] = 1
    assert len(lines) >= 1
    with perdure.open("memory:", witness=_kept(lines)) as other, pytest.raises(WitnessError):
        other.state_at("s")


def _kept(lines: list[str]) -> Kept:
    kept = Kept()
    kept.lines = list(lines)
    return kept


@pytest.mark.parametrize("change", ["flip", "cut", "foreign", "none"])
def test_a_line_that_was_not_told(memory: tuple[list[str], AgentStore], change: str) -> None:
    lines, store = memory
    with store.session("s") as s:
        s.state["turn"] = 1
    line = lines[-1]
    changed = {
        "flip": line.replace('"seq":', '"seq":1'),
        "cut": line[:-10],
        "foreign": "hello",
        "none": line.replace("head", "gone"),
    }[change]
    with pytest.raises(WitnessFailedError, match="not what was told"):
        perdure.open("memory:", witness=_kept([*lines[:-1], changed]))


def test_a_function_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    with perdure.open(str(tmp_path / "a.db"), witness=told.extend) as store, store.session("s") as s:
        s.state["turn"] = 1
        s.save()
    with perdure.open(str(tmp_path / "a.db")) as store:
        assert f'"chain":"{store.backend.head("s").chain.hex()}"' in told[-1]
        assert store.backend.head("s").chain != GENESIS
