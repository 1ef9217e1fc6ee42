"""`gc`, `erase` and `doctor` at the command line: nothing goes unsaid, nothing without `--yes`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

import perdure
from perdure.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a store of two sessions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    with perdure.open("perdure.db") as store:
        for session in ("a", "b"):
            with store.session(session) as s:
                for n in range(10):
                    s.state["text"] = f"{session} {n} " * 50
                    s.save()


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Status, stdout and stderr of a command."""
    status = 0
    try:
        main(list(words))
    except SystemExit as left:
        status = int(left.code or 0)
    out, err = capsys.readouterr()
    return status, out, err


def test_gc_tells_first_and_does_it_when_told(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "gc", "--keep-last", "2")
    assert status == 0
    assert "would go" in out
    assert "to do it, say --yes" in out
    dry = json.loads(run(capsys, "gc", "--keep-last", "2", "--json")[1])
    assert dry["dry_run"]
    done = json.loads(run(capsys, "gc", "--keep-last", "2", "--yes", "--json")[1])
    assert [one["snapshots"] for one in done["sessions"]] == [one["snapshots"] for one in dry["sessions"]] == [8, 8]
    status, out, _ = run(capsys, "log", "a")
    assert status == 0
    assert "retention, " in out
    assert " dropped " in out
    status, _, err = run(capsys, "state", "a", "--at", "3")
    assert (status, "retention" in err) == (46, True)
    assert run(capsys, "verify")[0] == 0


def test_gc_refuses_what_makes_no_sense(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ("--keep soon", "--keep-last -1", "--max-bytes much", "--yes --dry-run", "a --delete-ended 1d")
    for words in wrong:
        assert run(capsys, "gc", *words.split())[0] == 2


def test_gc_keeps_ten_unless_told_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    with perdure.open("perdure.db") as store, store.session("a") as s:
        for n in range(5):
            s.state["n"] = n
            s.save()
    told = json.loads(run(capsys, "gc", "--dry-run", "--json")[1])
    assert {one["session"]: (one["snapshots"], one["kept"]) for one in told["sessions"]} == {"a": (5, 10), "b": (0, 10)}
    assert run(capsys, "gc", "--yes")[0] == 0
    with perdure.open("perdure.db") as store:
        assert len(store.snapshots("a")) == 10


def test_what_was_erased_is_listed_without_what_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing was erased" in run(capsys, "erase", "--list")[1]
    assert run(capsys, "erase", "a", "--yes", "--by", "kim", "--reason", "asked for it")[0] == 0
    (told,) = json.loads(run(capsys, "erase", "--list", "--json")[1])["erasures"]
    assert told["digest"] == sha256(b"a").hexdigest()
    assert (told["by"], told["reason"], told["is_there"]) == ("kim", "asked for it", False)
    status, out, _ = run(capsys, "erase", "--list")
    assert (status, "kim" in out) == (0, True)
    assert [one["session"] for one in json.loads(run(capsys, "ls", "--json")[1])["sessions"]] == ["b"]
    assert run(capsys, "erase", "perdure:erased", "--yes")[0] == 63
    assert run(capsys, "verify")[0] == 0
    for words in ((), ("a", "--list")):
        assert run(capsys, "erase", *words)[0] == 2
    assert run(capsys, "gc", "nobody", "--keep", "1.5h")[0] == 42


def test_gc_tells_what_it_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with perdure.open("perdure.db") as store, store.session("a"):
        _, out, _ = run(capsys, "gc", "--keep-last", "0", "--yes")
    assert "left alone: a: pid " in out


def test_erase_tells_first_and_does_it_when_told(capsys: pytest.CaptureFixture[str]) -> None:
    with perdure.open("perdure.db") as store:
        store.fork("a", into="fork")
    status, _, err = run(capsys, "erase", "a")
    assert (status, "fork" in err) == (51, True)
    status, out, _ = run(capsys, "erase", "a", "--family")
    assert (status, "cannot be undone" in out) == (0, True)
    assert json.loads(run(capsys, "erase", "a", "--family", "--json")[1]) == {
        "erased": False,
        "sessions": ["fork", "a"],
        "left": None,
    }
    assert run(capsys, "erase", "a", "--family", "--yes")[0] == 0
    assert [one["session"] for one in json.loads(run(capsys, "ls", "--json")[1])["sessions"]] == ["b"]
    assert run(capsys, "show", "a")[0] == 44


def damage(statement: str) -> None:
    with closing(sqlite3.connect("perdure.db")) as db:
        db.execute(statement)
        db.commit()


def test_the_doctor_tells_what_mends_and_mends_it(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "doctor")
    assert (status, err) == (0, "")
    first, second, *rest = out.splitlines()
    assert first.startswith("2 sessions looked at, ")
    assert second == "nothing is wrong in what was read"
    assert [line[:10] for line in rest] == ["not read: ", "not read: "]
    assert [line.rpartition("doctor ")[2] for line in rest] == ["--deep", "--code recorded"]
    damage("DELETE FROM points WHERE key = (1 << 32) + 5")
    status, out, _ = run(capsys, "doctor")
    assert (status, "to mend it: perdure doctor --fix" in out) == (20, True)
    (one,) = json.loads(run(capsys, "doctor", "--fix", "--json")[1])["findings"]
    assert (one["kind"], one["session"], one["mended"]) == ("index", "a", True)
    status, out, _ = run(capsys, "doctor", "--deep", "--code", "recorded")
    assert (status, "not read" in out) == (0, False)


def test_the_doctor_ends_with_what_is_to_be_done(capsys: pytest.CaptureFixture[str]) -> None:
    with perdure.open("perdure.db") as store:
        store.run(lambda s: s.ask("Go on?"), "asks")
        store.backend.release(store.backend.create("empty", owner="me"))
    status, out, _ = run(capsys, "doctor", "--json")
    found = json.loads(out)
    assert (status, found["ok"], found["needs_person"]) == (79, True, True)
    needs = {one["kind"]: one["needs_person"] for one in found["findings"]}
    assert needs == {"question": True, "empty": False}, "what can be tidied later calls nobody"
    ages = {one["kind"]: one["age_s"] for one in found["findings"]}
    assert ages["empty"] is None
    assert 0 <= ages["question"] < 600
    with perdure.open("perdure.db") as store:
        store.cancel("asks")
    assert run(capsys, "doctor")[0] == 0
    damage("DELETE FROM points WHERE key = (1 << 32) + 5")
    assert run(capsys, "doctor")[0] == 20
    assert run(capsys, "doctor", "--fix")[0] == 0


def test_the_doctor_tells_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "doctor", "--json", "--progress")
    assert (status, "2 of 2 sessions looked at" in err) == (0, True)
    assert json.loads(out)["sessions"] == 2


def test_one_goes_on_from_before_the_damage(capsys: pytest.CaptureFixture[str]) -> None:
    damage("UPDATE records SET body = zeroblob(50) WHERE key = (1 << 32) + 8")
    for deep in ((), ("--deep",)):
        status, out, _ = run(capsys, "doctor", *deep)
        assert (status, "perdure doctor a --go-on 'a mended'" in out) == (20, True)
    assert run(capsys, "doctor", "a")[0] == 2
    made = json.loads(run(capsys, "doctor", "a", "--go-on", "a mended", "--json")[1])
    assert (made["session"], made["at"], made["next"]) == ("a mended", 7, "perdure show 'a mended'")
    assert run(capsys, "verify", "a mended")[0] == 0
    assert run(capsys, "doctor", "b", "--go-on", "c")[0] == 63
