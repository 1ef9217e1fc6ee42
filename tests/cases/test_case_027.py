"""Case 27: a question outlives the process that asked it; the answer comes from another one, and a third goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.elsewhere import commanded

CODE = """
def effect():
    with open({effects!r}, "a") as file:
        file.write("x")

def agent(s):
    s.call(effect)
    name = s.ask("Who are you?", key="name")
    return [name, s.receive()]
"""


def perdure(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    status, printed, _ = commanded(*words, "--json", folder=folder)
    return status, json.loads(printed)


def test_asked_answered_and_gone_on_with_in_three_processes_and_folders(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()
    (tmp_path / "agent.py").write_text(CODE.format(effects=str(tmp_path / "effects")))
    store = ("--store", str(tmp_path / "agents.db"))

    status, told = perdure(folders[0], "run", f"{tmp_path}/agent.py:agent", "--session", "a", *store)
    assert (status, told["status"], told["questions"][0]["prompt"]) == (75, "waiting", "Who are you?")
    assert perdure(folders[1], "answer", "a", "name", "Ada", *store)[0] == 0
    assert perdure(folders[1], "answer", "a", "name", "Eve", *store)[0] == 68
    status, told = perdure(folders[2], "resume", "a", *store)
    assert (status, told["status"], told["questions"]) == (78, "idle", [])
    assert perdure(folders[1], "send", "a", "--message", '{"n": 1}', *store)[1]["sent"] is True
    assert perdure(folders[0], "resume", "a", *store)[1]["result"] == ["Ada", {"n": 1}]
    assert (tmp_path / "effects").read_text() == "x"
