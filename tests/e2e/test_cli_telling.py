"""What people tell a session, by the command line: what waits is shown, a snapshot is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import perdure
from perdure.cli import main


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with perdure.open("perdure.db") as opened:
        yield opened


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    try:
        main([*arguments])
    except SystemExit as ended:
        return int(ended.code or 0), capsys.readouterr().out
    return 0, capsys.readouterr().out


def test_what_waits_in_an_inbox_is_shown_if_there_is_any(store, capsys: pytest.CaptureFixture[str]) -> None:
    def desk(s: perdure.Session) -> list[str]:
        return [s.receive(), s.receive()]

    store.run(desk, "desk")
    store.run(lambda s: None, "other")
    assert "inbox" not in run(capsys, "ls")[1] + run(capsys, "show", "desk")[1]
    for text in ("tea", "milk"):
        run(capsys, "send", "desk", text)
    assert store.info("desk").messages == 2
    listed = [line.split() for line in run(capsys, "ls")[1].splitlines()]
    assert (listed[0][:4], [line[2] for line in listed if line[0] == "desk"]) == (
        ["session", "status", "inbox", "saves"],
        ["2"],
    )
    assert "inbox     2 not received yet\n" in run(capsys, "show", "desk")[1]
    by_id = {one["session"]: one["messages"] for one in json.loads(run(capsys, "ls", "--json")[1])["sessions"]}
    assert by_id == {"desk": 2, "other": 0}
    assert json.loads(run(capsys, "show", "desk", "--json")[1])["messages"] == 2
    assert store.run(desk, "desk").result == ["tea", "milk"]
    assert store.info("desk").messages == 0


def test_a_session_that_nobody_runs_is_paused_and_cancelled_at_once(store, capsys: pytest.CaptureFixture[str]) -> None:
    store.run(lambda s: s.receive(), "s")
    assert run(capsys, "pause", "s") == (0, "s is paused. To go on: perdure resume s\n")
    assert run(capsys, "cancel", "s") == (0, "s is cancelled\n")
    assert run(capsys, "cancel", "s", "--json")[0] == 63


def test_a_snapshot_is_asked_of_whoever_runs_the_session(store, capsys: pytest.CaptureFixture[str]) -> None:
    with store.session("s") as s:
        s.state["n"] = 1
        s.save()
        s.state["n"] = 2
        status, out = run(capsys, "save", "s", "--reason", "a look")
        assert (status, "saves at its next call or save. Then: perdure state s" in out) == (0, True)
        s.call(len, "told of it")
        s.call(len, "does it")
        assert store.state_at("s", store.snapshots("s")[-1].seq) == {"n": 2}
        asked = json.loads(run(capsys, "save", "s", "--json")[1])
        assert (asked["session"], asked["asked"], asked["state"]) == ("s", True, "perdure state s")
    assert "nobody runs s" in run(capsys, "save", "s")[1]
    assert json.loads(run(capsys, "save", "s", "--json")[1])["asked"] is False
    assert run(capsys, "save", "nobody")[0] == 42
