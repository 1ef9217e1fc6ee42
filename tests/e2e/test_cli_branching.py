"""Forks, differences, previews, branches and following on the command line."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from tests.e2e.test_cli_commands import PAGE, Cli, cli, names, promised, waiting

__all__ = ["cli", "waiting"]


def test_a_fork_is_made_and_resumed(waiting: Cli) -> None:
    made = waiting.json("fork", "w", "--at", "sent", "--into", "f", "--reason", "what if")
    assert names(made) == names(promised("fork"))
    assert (made["session"], made["source"], made["resume"]) == ("f", "w", "perdure resume f")
    shown = waiting.json("show", "f")
    assert (shown["status"], shown["reason"]) == ("paused", f"forked from w at {made['at']}")
    assert list(shown["origin"]) == ["session", "seq", "reason", "by", "snapshot", "replaces"]
    assert (shown["origin"]["session"], shown["origin"]["reason"]) == ("w", "what if")
    assert f"fork of   w at #{made['at']} what if\n" in waiting("show", "f")[1]
    status, out, _ = waiting("resume", "f")
    assert (status, "answer f" in out) == (75, True)
    assert waiting("fork", "w", "--into", "g")[1] == (
        f"g is a fork of w at #{waiting.json('show', 'w')['records']}. To go on: perdure resume g\n"
    )
    assert "fork of w at" in waiting("log", "g")[1]


def test_what_cannot_be_forked_is_told(waiting: Cli) -> None:
    assert waiting("fork", "w", "--into", "w")[0] == 43
    assert waiting("fork", "w", "--into", "f", "--at", "never")[0] == 46
    assert waiting("fork", "nobody", "--into", "f")[0] == 42


def test_a_difference_is_shown_and_promised(waiting: Cli) -> None:
    points = [p["seq"] for p in waiting.json("show", "w")["points"]]
    found = waiting.json("diff", "w", str(points[0]), "sent")
    assert {"session", "at", "other", "to", "changes", "absent", "files"} == set(found) == set(promised("diff"))
    assert found["changes"] == []
    assert waiting("diff", "w", str(points[0]), "sent")[1].splitlines()[1] == "no difference"
    whole = waiting.json("diff", "w", "1", str(points[0]))
    assert [c["at"] for c in whole["changes"]] == ["$.n", "$.text", "$.seen"]
    out = waiting("diff", "w", str(points[0]), "1")[1]
    assert "$.n removed\n  - 7\n" in out
    waiting.json("fork", "w", "--into", "f")
    assert waiting.json("diff", "w", "--other", "f")["other"] == "f"
    assert waiting("diff", "w", "-1", "--other", "f")[1].endswith("no difference\n")


def test_the_json_of_previews_is_as_promised(waiting: Cli) -> None:
    head = waiting.json("show", "w")["records"]
    page = PAGE.split("### `perdure rollback")[1].split("With `--preview`:")[1]
    shape = json.loads(re.search(r"```json\n(.*?)```", page, re.DOTALL)[1])  # type: ignore[index]
    resume, back = waiting.json("resume", "w", "--preview"), waiting.json("rollback", "w", "1", "--preview", status=46)
    assert back["error"]["code"] == "no-point"
    back = waiting.json("rollback", "w", "sent", "--preview")
    assert set(resume) == set(back) == set(shape)
    assert names(resume) | names(back) <= names(shape)
    assert (resume["to"], [a["call"] for a in back["standing"]]) == (None, ["send(to='bob')"])
    assert waiting.json("show", "w")["records"] == head


def test_a_preview_is_told(waiting: Cli) -> None:
    out = waiting("resume", "w", "--preview")[1]
    assert "would start again at #1" in out
    assert "answered from the log" in out
    assert "Well?" in out
    out = waiting("rollback", "w", "sent", "--preview")[1]
    assert "left standing, not undone" in out


def test_a_rollback_asks_at_a_terminal(waiting: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def confirm(question: str, *, abort: bool) -> None:
        asked.append(question)
        raise typer.Abort

    monkeypatch.setattr("typer.confirm", confirm)
    monkeypatch.setattr("perdure.cli.foreseeing.is_terminal", lambda: True)
    assert waiting("rollback", "w", "sent")[0] == 1
    assert len(asked) == 1
    assert waiting("rollback", "w", "sent", "--yes", "--branch", "b")[0] == 0
    assert len(asked) == 1
    assert [b["name"] for b in waiting.json("show", "w")["branches"]] == [None, "b"]
    assert "branches\n" in waiting("show", "w")[1]
    assert len(waiting.json("show", "w", "--branch", "1")["journal"]) == 3 > len(waiting.json("show", "w")["journal"])
    assert "rolled_back" not in waiting("log", "w", "--branch", "1")[1]
    assert "rolled_back" in waiting("log", "w", "--branch", "b")[1]
    assert waiting("log", "w", "--branch", "c")[0] == 46


def test_a_log_is_followed_across_processes(waiting: Cli, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "perdure.cli", "log", "w", "--follow", "--ndjson"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as follower:
        assert follower.stdout is not None
        first = follower.stdout.readline()
        waiting("answer", "w", "well", "yes")
        assert waiting("resume", "w")[0] == 0
        lines = [first, *follower.stdout]
    assert follower.returncode == 0
    seqs = [json.loads(line)["seq"] for line in lines]
    assert seqs == list(range(1, len(seqs) + 1))
    assert json.loads(lines[-1])["body"]["status"] == "completed"


def test_following_ends_cleanly_with_ctrl_c(waiting: Cli, tmp_path: Path) -> None:
    records = waiting.json("show", "w")["records"]
    command = [sys.executable, "-m", "perdure.cli", "log", "w", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        for _ in range(records):
            follower.stdout.readline()
        follower.send_signal(signal.SIGINT)
        assert (follower.stdout.read(), follower.stderr.read()) == ("", "")
    assert follower.returncode == 0
    assert waiting("log", "w", "--follow", "--json")[0] == 2
