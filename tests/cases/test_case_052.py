"""Case 52: a freeze leaves one file of the store empty; damage must stay in the session that owns it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import perdure
from perdure import values
from perdure.errors import DamageError, PerdureError
from perdure.session.keeping.keyframer import Keyframer

SESSIONS = ("a", "b", "c")


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, bytes]]:
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 3)  # type: ignore[index]
    return tmp_path / "store", fill(f"file:{tmp_path / 'store'}")


def fill(url: str) -> dict[str, bytes]:
    """Three sessions with keyframes, so with chunks: the newest state of each."""
    states = {}
    with perdure.open(url) as store:
        for name in SESSIONS:
            with store.session(name) as s:
                for n in range(8):
                    s.state["n"], s.state["text"] = n, f"{name} {n} " * 300
                    s.save()
                    s._keyframer._join()
                states[name] = values.encode(dict(s.state))
    return states


def owner(path: Path) -> str:
    """The session that a file belongs to, "" for what all share."""
    return path.parent.name if path.parent.parent.name in ("sessions", "families") else ""


@pytest.mark.parametrize("how", ["empty", "zeros", "half", "gone"])
def test_each_file_is_damaged_in_turn_and_the_others_load(filled: tuple[Path, dict[str, bytes]], how: str) -> None:
    place, states = filled
    files = sorted(path for path in place.rglob("*") if path.is_file())
    assert {owner(path) for path in files} == {*SESSIONS, ""}
    assert any(path.suffix == ".chunk" for path in files)
    copy = place.with_name("copy")
    for path in files:
        shutil.copytree(place, copy)
        harm(copy / path.relative_to(place), how)
        check_others(f"file:{copy}", states, owner(path))
        shutil.rmtree(copy)


def harm(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "zeros": bytes(len(content)), "half": content[: len(content) // 2]}[how])


def check_others(url: str, states: dict[str, bytes], harmed: str) -> None:
    """Sessions that own no damage load, verify and go on; the one that owns it loads right or says what is wrong."""
    try:
        store = perdure.open(url)
    except PerdureError as error:
        if harmed:
            raise AssertionError(f"a file of {harmed} keeps the whole store shut") from error
        return
    with store:
        assert {info.id for info in store.sessions()} | {harmed} == {*SESSIONS, harmed}
        for name, state in states.items():
            if name != harmed:
                assert values.encode(store.state_at(name)) == state
                assert store.verify(name, read_data=True).ok
                with store.session(name) as s:
                    s.state["more"] = 1
                    s.save()
            else:
                try:
                    assert values.encode(store.state_at(name)) == state
                except (DamageError, PerdureError):
                    assert (
                        not store.verify(name, read_data=True).ok
                        if name in {info.id for info in store.sessions()}
                        else True
                    )


ROWS = {
    "records": ("body", "key >> 32 = (SELECT number FROM sessions WHERE id = 'b')"),
    "chunks": ("content", "family = (SELECT family FROM sessions WHERE id = 'b')"),
    "sessions": ("summary", "id = 'b'"),
}
"""What in the default store is a session's own as a file is elsewhere: table → its content, and which rows they are."""


@pytest.mark.parametrize("table", ROWS)
@pytest.mark.parametrize("how", ["empty", "zeros", "gone"])
def test_in_sqlite_each_row_is_damaged_in_turn(
    table: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 3)  # type: ignore[index]
    path, copy = tmp_path / "agents.db", tmp_path / "copy.db"
    states = fill(str(path))
    column, mine = ROWS[table]
    content = f"zeroblob(length({column}))" if how == "zeros" else "zeroblob(0)"
    harm = f"DELETE FROM {table}" if how == "gone" else f"UPDATE {table} SET {column} = {content}"  # noqa: S608
    with closing(sqlite3.connect(path)) as db:
        numbers = [number for (number,) in db.execute(f"SELECT rowid FROM {table} WHERE {mine}")]  # noqa: S608
    assert numbers
    for number in numbers:
        shutil.copyfile(path, copy)
        with closing(sqlite3.connect(copy)) as db, db:
            assert db.execute(f"{harm} WHERE rowid = ?", (number,)).rowcount == 1
        check_others(str(copy), states, "b")
        copy.unlink()
