"""What a failed run leaves, and snapshots as files, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import perdure
from tests.e2e.test_cli_commands import PAGE, Cli, cli, names, promised

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
    assert f"to look at it: perdure state w --at {found['seq']}\n" in cli("show", "w")[1]

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


STEPS = """
import perdure

@perdure.action(effect="once")
def pay(amount):
    return amount

@perdure.steps
def worker(s):
    if not s.state:
        s.state.update(dialog=[], step=0)
    s.state["step"] += 1
    s.state["dialog"].append(pay(s.state["step"]))
    if s.state["step"] == 2 and s.input != "go":
        raise ValueError("broken")
    if s.state["step"] == 3:
        s.complete(s.state["dialog"])
"""


def test_a_snapshot_is_filed_and_begun_from(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "working.py").write_text(STEPS)
    assert cli("run", "working.py:worker", "-s", "w")[0] == 1
    filed = cli.json("export", "w", "w.snapshot", "--snapshot", "--part", "messages=dialog", "--protocol", "json")
    example = PAGE.split("### `perdure export")[1].split("\n### ")[0].split("```json")[2].split("```")[0]
    assert names(filed) == names(json.loads(example))
    assert (filed["snapshot"], filed["bytes"]) == (
        perdure.AgentSnapshot.read("w.snapshot").snapshot_id,
        (tmp_path / "w.snapshot").stat().st_size,
    )

    status, out, err = cli("import", "w.snapshot", "--store", "other.db")
    assert (status, out) == (63, "")
    assert "pay(amount=2) [once]: it was done, and the state does not show it" in err
    begun = cli.json("import", "w.snapshot", "--store", "other.db", "--into", "n", "--accept-doubts", "--by", "ann")
    example = PAGE.split("### `perdure import")[1].split("\n### ")[0].split("```json")[2].split("```")[0]
    assert names(begun) - {f".doubts[].{name}" for name in filed["doubts"][0]} == names(json.loads(example))
    assert begun["next"] == "perdure resume n --store other.db"
    shown = cli.json("show", "n", "--store", "other.db")
    assert (shown["origin"]["snapshot"], shown["origin"]["by"]) == (filed["snapshot"], "ann")
    assert f"begun as  snapshot {filed['snapshot']} of w at" in cli("show", "n", "--store", "other.db")[1]
    assert "begun from a snapshot of w" in cli("log", "n", "--store", "other.db")[1]


def test_options_that_do_not_go_together_are_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "working.py").write_text(STEPS)
    assert cli("run", "working.py:worker", "-s", "w", "--input", '"go"')[0] == 0
    assert cli("export", "w", "x", "--plain")[0] == 2
    assert cli("export", "w", "x", "--snapshot", "--ndjson")[0] == 2
    assert cli("export", "w", "x", "--snapshot", "--part", "messages")[0] == 2
    assert cli("export", "w", "x")[0] == 0
    assert cli("import", "x", "--store", "other.db", "--into", "y")[0] == 2
    assert cli("export", "w", "z", "--snapshot")[1].startswith("z: snapshot ")
