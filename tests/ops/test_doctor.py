"""What `doctor` finds in a store, what it mends, and how one goes on from a damaged session."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import clock
from perdure.errors import DamageError, RefusedError
from perdure.runtime.store import open_agent_store
from perdure.session.keeping.lease import new_owner
from tests.crash.damage import OTHER, RESULT, SUBJECT, Subject, agent, opened_file, subject


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, dict[int, bytes]]]:
    made = subject(tmp_path_factory.mktemp("doctor"))
    made.close()
    return made.path.read_bytes(), made.truth


@pytest.fixture
def made(filled: tuple[bytes, dict[str, dict[int, bytes]]], tmp_path: Path) -> Iterator[Subject]:
    """A whole store of its own, whose rows can be changed past it."""
    path = tmp_path / "agents.db"
    store = opened_file(path, filled[0])
    raw = sqlite3.connect(path, isolation_level=None)
    yield Subject(path, store, raw, filled[1])
    raw.close()
    store.close()


def kinds(found: Any) -> list[str]:
    return [one.kind for one in found.findings]


def change(made: Subject, statement: str, *values: Any) -> None:
    with made.changing() as db:
        db.execute(statement, values)


def key(made: Subject, seq: int) -> int:
    return made.number(SUBJECT) << 32 | seq


def test_a_store_that_is_well(made: Subject) -> None:
    for deep in (False, True):
        found = made.store.doctor(deep=deep)
        assert (found.ok, found.sessions, [f for f in found.findings if f.severity != "note"]) == (True, 2, [])


def lose_a_point(made: Subject) -> None:
    change(made, "DELETE FROM points WHERE key = (SELECT min(key) FROM points WHERE key > ?)", key(made, 0))


def lose_a_mark(made: Subject) -> None:
    change(made, "DELETE FROM marks WHERE session = ?", made.number(SUBJECT))


def lose_a_keyframe(made: Subject) -> None:
    change(made, "DELETE FROM keyframes WHERE key BETWEEN ? AND ?", key(made, 0), key(made, 1000))


def a_strange_mark(made: Subject) -> None:
    change(made, "INSERT INTO marks (session, mark, seq) VALUES (?, ?, 3)", made.number(SUBJECT), b"kstrange")


def a_strange_point(made: Subject) -> None:
    change(made, "INSERT INTO points (key, parent, flags, name, time_us) VALUES (?, 0, 3, NULL, 0)", key(made, 1))


def a_wrong_point(made: Subject) -> None:
    change(made, "UPDATE points SET parent = 1 WHERE key = (SELECT max(key) FROM points WHERE key < ?)", key(made, 60))


def no_summary(made: Subject) -> None:
    change(made, "UPDATE sessions SET summary = x'00' WHERE id = ?", SUBJECT)


LOST = [lose_a_point, lose_a_mark, lose_a_keyframe, a_strange_mark, a_strange_point, a_wrong_point, no_summary]


@pytest.mark.parametrize("lose", LOST, ids=lambda lose: lose.__name__)
def test_what_is_derived_is_made_anew(made: Subject, lose: Any) -> None:
    lose(made)
    found = made.store.doctor(deep=lose is lose_a_keyframe)
    assert not found.ok
    assert {one.session for one in found.findings if one.severity == "error"} == {SUBJECT}
    assert all(one.mend == ("doctor", "--fix") for one in found.findings if one.severity == "error")
    mended = made.store.doctor(deep=True, fix=True)
    assert mended.ok
    assert [str(problem) for problem in made.store.verify(SUBJECT, read_data=True).problems] == []
    assert made.store.run(agent, SUBJECT).result == RESULT


def test_a_damaged_record_is_not_mended_but_gone_on_from(made: Subject) -> None:
    change(made, "UPDATE records SET body = zeroblob(40) WHERE key = ?", key(made, 20))
    before = made.records(SUBJECT)
    found = made.store.doctor(fix=True, deep=True)
    assert not found.ok
    assert found.findings[0].mend[:2] == ("doctor", SUBJECT)
    assert made.records(SUBJECT) == before
    with pytest.raises(DamageError):
        made.store.run(agent, SUBJECT, restore="exact")
    gone = made.store.go_on(SUBJECT, into="mended")
    assert (gone.at, gone.source) == (3, SUBJECT), "to which the rollback behind the damage went back"
    assert gone.newer > 20, "a keyframe between stands in for what is damaged"
    assert gone.standing
    assert made.store.verify("mended", read_data=True).ok
    assert made.store.state_at("mended", gone.snapshot) == made.store.state_at("mended")
    outcome = made.store.run(agent, "mended")
    while outcome.status == "waiting":
        for question in outcome.questions:
            if question.kind == "doubt":
                made.store.settle("mended", question.seq, "done", result="sent to here")
            else:
                made.store.answer("mended", question.seq, "yes")
        outcome = made.store.run(agent, "mended")
    assert outcome.result == RESULT
    with pytest.raises(DamageError, match="mended goes on in its place"):
        made.store.run(agent, SUBJECT)
    with pytest.raises(RefusedError, match="already"):
        made.store.go_on(SUBJECT, into="another")
    assert made.records(SUBJECT) == before
    assert not made.store.verify(SUBJECT, read_data=True).ok


def test_one_goes_on_only_from_damage(made: Subject) -> None:
    with pytest.raises(RefusedError, match="not damaged"):
        made.store.go_on(SUBJECT, into="mended")
    change(made, "UPDATE records SET body = x'00' WHERE key = ?", key(made, 1))
    with pytest.raises(DamageError, match="opening"):
        made.store.go_on(SUBJECT, into="mended")
    assert len(made.store.sessions()) == 2


def test_damage_of_one_is_not_anothers(made: Subject) -> None:
    change(made, "UPDATE records SET chain = zeroblob(32) WHERE key = ?", key(made, 20))
    found = made.store.doctor(deep=True)
    assert {one.session for one in found.findings if one.severity == "error"} == {SUBJECT}
    assert made.store.verify(OTHER, read_data=True).ok
    assert made.store.gc(keep_last=1, dry_run=False).sessions


def dead_owner() -> str:
    """An owner of this machine that is gone."""
    return json.dumps(json.loads(new_owner()) | {"started": "1"}, sort_keys=True)


def test_the_lease_of_the_dead_is_given_back(made: Subject) -> None:
    backend = made.store.backend
    backend.claim(OTHER, owner=dead_owner(), seen=backend.lease(OTHER))
    assert "owner" in kinds(made.store.doctor())
    assert made.store.doctor(fix=True).ok
    assert backend.lease(OTHER).owner == ""
    with made.store.session(OTHER):
        assert "owner" not in kinds(made.store.doctor(fix=True))
        assert backend.lease(OTHER).owner != ""


def test_chunks_that_nothing_needs_are_found_and_swept(made: Subject) -> None:
    backend = made.store.backend
    lease = backend.claim(OTHER, owner="me", seen=backend.lease(OTHER))
    backend.put_chunks(OTHER, {b"d" * 32: b"x"}, epoch=lease.epoch)
    backend.release(lease)
    (one,) = [found for found in made.store.doctor(deep=True).findings if found.kind == "orphans"]
    assert one.session == OTHER
    assert [found.mended for found in made.store.doctor(deep=True, fix=True).findings if found.kind == "orphans"] == [
        True
    ]
    assert "orphans" not in kinds(made.store.doctor(deep=True))


def test_what_is_odd_is_told(made: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = made.store.backend
    backend.release(backend.create("empty", owner="me"))
    now = clock.now_us()
    monkeypatch.setattr(clock, "now_us", lambda: now - 10 * 86_400 * 1_000_000)
    health = backend.health(deep=False)
    full = type(health)(("a page is twice in use",), used=9 << 30, unused=8 << 30, log=1 << 30, free=1 << 20)
    monkeypatch.setattr(backend, "health", lambda *, deep: full)
    found = made.store.doctor()
    assert not found.ok
    assert [(one.severity, one.kind) for one in found.findings if one.kind != "owner"] == [
        ("error", "place"),
        ("warning", "disk"),
        ("warning", "log"),
        ("warning", "clock"),
        ("warning", "clock"),
        ("note", "unused"),
        ("note", "empty"),
    ]


def test_memory_has_nothing_to_tell() -> None:
    with open_agent_store("memory:") as store:
        with store.session("s") as s:
            s.state["n"] = 1
        assert store.doctor(deep=True, fix=True).findings == ()


def test_a_file_that_sqlite_finds_damaged(made: Subject) -> None:
    change(made, "INSERT INTO points (key, parent, flags, name, time_us) VALUES (?, 0, 3, NULL, 0)", 1 << 60)
    assert made.store.doctor(deep=True).ok, "a row of no session is nobody's"
    made.store.close()
    made.raw.execute("PRAGMA writable_schema=ON")
    made.raw.execute("UPDATE sqlite_master SET rootpage = 3 WHERE name = 'tombstones'")
    with open_agent_store(str(made.path)) as again:
        assert "place" in kinds(again.doctor(deep=True))
    assert perdure.__version__
