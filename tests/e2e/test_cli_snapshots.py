"""What a failed run leaves, and snapshots as files, on the command line."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.test_cli_commands import Cli, cli, names, promised

__all__ = ["cli"]

AGENT = """
import threading

def agent(s):
    s.state["notes"] = ["one"]
    s.save()
    s.state["notes"].append({"lock": threading.Lock(), "n": 2})
    s.save()
"""


def test_what_a_failed_run_leaves_is_shown(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "breaking.py").write_text(AGENT)
    assert cli("run", "breaking.py:agent", "-s", "w")[0] == 10
    shown = cli.json("show", "w")
    assert names(shown["inspections"]) == names(promised("show")["inspections"])
    (found,) = shown["inspections"]
    assert [one["path"] for one in found["absent"]] == ["$.notes[1].lock"]
    assert "for inspection only" in cli("show", "w")[1]

    at = str(found["seq"])
    state = cli.json("state", "w", "--at", at)
    assert state["absent"] == found["absent"]
    assert state["state"]["notes"][1]["n"] == 2
    told = f"absent from #{at}: $.notes[1].lock (_thread.lock): _thread.lock cannot be stored\n"
    assert told in cli("state", "w", "--at", at)[1]
    assert told in cli("diff", "w", "0", at)[1]
    assert cli.json("diff", "w", "0", at)["absent"] == found["absent"]
    assert cli.json("state", "w")["state"] == {"notes": ["one"]}
    assert cli("rollback", "w", at)[0] == 46
