"""Case 49: one bad line in the middle of a log; all after it must not be ignored in silence."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import perdure
from perdure import values
from perdure.errors import DamageError
from perdure.stores import open_store

STEPS = 12
DAMAGED = ["cut", "zeros", "flipped", "gone"]


def fill(url: str) -> dict[int, bytes]:
    """Snapshot → its state, encoded."""
    saved = {}
    with perdure.open(url) as store, store.session("s") as s:
        for n in range(STEPS):
            s.state["n"] = n
            seq = s.save()
            assert seq is not None
            saved[seq] = values.encode(dict(s.state))
    return saved


def damaged(line: bytes, how: str) -> bytes:
    middle = len(line) // 2
    return {
        "cut": line[:middle] + b"\n",
        "zeros": bytes(len(line)),
        "flipped": line[:middle] + bytes([line[middle] ^ 1]) + line[middle + 1 :],
        "gone": b"",
    }[how]


@pytest.mark.parametrize("how", DAMAGED)
def test_each_record_is_damaged_in_turn_and_both_sides_are_offered(tmp_path: Path, how: str) -> None:
    url = f"file:{tmp_path / 'store'}"
    saved = fill(url)
    segment = next((tmp_path / "store" / "sessions" / "s").glob("*.ndjson"))
    whole = segment.read_bytes().splitlines(keepends=True)
    places = [place for place, line in enumerate(whole) if line.startswith(b'{"seq":')]
    for seq, place in enumerate(places, 1):
        bad = [*whole[:place], damaged(whole[place], how), *whole[place + 1 :]]
        segment.write_bytes(b"".join(bad))
        check_told(url, seq, records=len(places), saved=saved)
        assert segment.read_bytes() == b"".join(bad), "what is damaged is kept"


def check_told(url: str, seq: int, *, records: int, saved: dict[int, bytes]) -> None:
    with open_store(url) as backend:
        assert backend.head("s").seq == records
        for side in (range(1, seq), range(seq + 1, records + 1)):
            assert [record.seq for record in backend.read_at("s", side)] == [*side]
    with perdure.open(url) as store:
        report = store.verify("s", read_data=True)
        assert not report.ok
        assert any(problem.seq == seq for problem in report.problems), report.problems
        for at, state in saved.items():
            try:
                found = values.encode(store.state_at("s", at))
            except DamageError:
                assert at >= seq
            else:
                assert found == state


@pytest.mark.parametrize("how", DAMAGED)
def test_each_commit_is_damaged_in_turn_and_no_wrong_state_is_loaded(tmp_path: Path, how: str) -> None:
    url = f"file:{tmp_path / 'store'}"
    saved = fill(url)
    segment = next((tmp_path / "store" / "sessions" / "s").glob("*.ndjson"))
    whole = segment.read_bytes().splitlines(keepends=True)
    newest = saved[max(saved)]
    for place in [place for place, line in enumerate(whole) if not line.startswith(b'{"seq":')]:
        segment.write_bytes(b"".join([*whole[:place], damaged(whole[place], how), *whole[place + 1 :]]))
        with perdure.open(url) as store:
            try:
                assert values.encode(store.state_at("s")) == newest
            except DamageError:
                continue
    segment.write_bytes(b"".join(whole))
    with perdure.open(url) as store:
        assert store.verify("s", read_data=True).ok


def test_a_log_that_was_cut_after_a_whole_batch_is_told(tmp_path: Path) -> None:
    """Nothing is torn there: only the hint knows that there was more."""
    url = f"file:{tmp_path / 'store'}"
    fill(url)
    segment = next((tmp_path / "store" / "sessions" / "s").glob("*.ndjson"))
    whole = segment.read_bytes().splitlines(keepends=True)
    commits = [place for place, line in enumerate(whole) if line.startswith(b'{"commit":')]
    for place in commits[:-1]:
        segment.write_bytes(b"".join(whole[: place + 1]))
        with perdure.open(url) as store:
            assert not store.verify("s", read_data=True).ok
            with pytest.raises(DamageError), store.session("s"):
                pass
        assert segment.read_bytes() == b"".join(whole[: place + 1])


def test_in_sqlite_each_row_is_damaged_in_turn(tmp_path: Path) -> None:
    """The default store tells the record, too."""
    url = str(tmp_path / "agents.db")
    fill(url)
    with closing(sqlite3.connect(url, isolation_level=None)) as db:
        rows = db.execute("SELECT key, body FROM records ORDER BY key").fetchall()
        for seq, (key, body) in enumerate(rows, 1):
            db.execute("UPDATE records SET body = ? WHERE key = ?", (body[: len(body) // 2], key))
            with perdure.open(url) as store:
                report = store.verify("s", read_data=True)
                assert any(problem.seq == seq for problem in report.problems)
                assert report.lost == len(rows) - seq + 1
            db.execute("UPDATE records SET body = ? WHERE key = ?", (body, key))
