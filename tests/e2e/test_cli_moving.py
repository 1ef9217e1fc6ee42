"""`export`, `import`, `copy` and `replay` as they are typed: what they print, what they end with."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.cli.app import main

AGENT = """
import os, perdure


@perdure.action(effect="repeatable")
def look(n):
    return f"item {n}"


def agent(s):
    print("the agent speaks")
    s.state["notes"] = [look(n) for n in range(3)]
    if os.environ.get("ODD"):
        s.state["notes"][1] = "odd"
    s.checkpoint("looked")
    return len(s.state["notes"])
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with an agent and a completed session of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERDURE_STORE", "agents.db")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    Path("agent.py").write_text(AGENT)
    assert run("run", "agent.py:agent", "--session", "q") == 0
    capsys.readouterr()


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*words])
    return int(ended.value.code or 0)


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_session_goes_to_a_file_and_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("export", "q", "q.perdure") == 0
    assert re.fullmatch(r"q\.perdure: q, \d+ records, \d+ bytes\n", capsys.readouterr().out)
    assert run("export", "q", "q.perdure", "--json") == 63
    assert document(capsys)["error"]["code"] == "refused"
    assert run("import", "q.perdure", "--store", "new.db", "--json") == 0
    found = document(capsys)
    assert (found["session"], found["show"]) == ("q", "perdure show q --store new.db")
    assert run("import", "q.perdure", "--store", "new.db") == 43
    assert run("import", "nothing", "--store", "other.db") == 2
    Path("q.perdure").write_bytes(Path("q.perdure").read_bytes()[:-1])
    assert run("import", "q.perdure", "--store", "new.db") == 20


def test_an_export_for_reading_is_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("export", "q", "q.ndjson", "--ndjson", "--json") == 0
    assert document(capsys)["records"] == len(Path("q.ndjson").read_text().splitlines())
    assert run("log", "q", "--ndjson") == 0
    assert capsys.readouterr().out == Path("q.ndjson").read_text()


def test_a_store_is_copied_and_brought_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("copy", "agents.db", "other.db", "--dry-run") == 0
    assert "nothing was copied" in capsys.readouterr().out
    assert not Path("other.db").exists()
    assert run("copy", "agents.db", "other.db", "--verify") == 0
    assert "whole, on both sides" in capsys.readouterr().out
    assert run("verify", "q", "--store", "other.db") == 0
    capsys.readouterr()
    assert run("run", "agent.py:agent", "--session", "r") == 0
    capsys.readouterr()
    assert run("copy", "agents.db", "other.db", "--json", "--quiet") == 0
    assert {one["session"]: one["how"] for one in document(capsys)["sessions"]} == {"q": "there already", "r": "copied"}
    assert run("copy", "agents.db", "third.db", "--session", "r", "--progress") == 0
    assert "1: r: copied" in capsys.readouterr().err
    assert run("copy", "agents.db", "third.db", "--prefix", "q", "--dry-run", "--json") == 0
    assert [one["session"] for one in document(capsys)["sessions"]] == ["q"]
    assert run("copy", "agents.db", "third.db", "--session", "nobody") == 42
    assert run("copy", "agents.db", "agents.db") == 63


def test_what_was_gone_on_with_elsewhere_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("copy", "agents.db", "other.db") == 0
    for store in ("agents.db", "other.db"):
        assert run("rollback", "q", "looked", "--yes", "--store", store) == 0
    capsys.readouterr()
    assert run("copy", "agents.db", "other.db", "--json") == 43
    (told,) = document(capsys)["sessions"]
    assert (told["how"], "gone on with" in told["why"]) == ("failed", True)
    assert run("erase", "q", "--yes") == 0
    capsys.readouterr()
    assert run("copy", "agents.db", "other.db", "--json") == 0
    assert [(one["session"], one["how"]) for one in document(capsys)["sessions"]] == [("q", "erased here")]


def test_a_replay_tells_the_first_difference(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("replay", "q") == 0
    assert "q: same up to record" in capsys.readouterr().out
    monkeypatch.setenv("ODD", "1")
    assert run("replay", "q", "agent.py:agent") == 76
    assert re.search(r"state \$\.notes\[1\].*\n +recorded +'item 1'\n +now +'odd'\n", capsys.readouterr().out)
    assert run("replay", "q", "--json") == 76
    found = document(capsys)
    assert (found["same"], found["difference"]["path"]) == (False, "$.notes[1]")


def test_a_session_is_driven_on_with_another_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "q", "--json") == 0
    seq = document(capsys)["journal"][0]["seq"]
    assert run("replay", "q", "--drive", "--into", "f", "--result", f'{seq}="odd"', "--reason", "to see", "--json") == 0
    assert document(capsys)["result"] == 3
    assert run("state", "f", "--part", "notes") == 0
    assert "odd" in capsys.readouterr().out
    assert run("replay", "q", "--drive", "--into", "g", "--result", "x=1") == 2
    assert run("replay", "q", "--drive", "--into", "g", "--result", "1=1") == 68


TALKER = """
import perdure

@perdure.action(effect="repeatable")
def chat(messages, model="small"):
    return f"{model}: {messages[-1]['content']}"

def agent(s):
    s.state["said"] = chat([{"role": "user", "content": s.input}])
    s.save()
    return s.state["said"]
"""


def test_replay_has_three_modes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("talker.py").write_text(TALKER)
    Path("better.py").write_text(TALKER.replace('"content": s.input', '"content": "please, " + s.input'))
    assert run("run", "talker.py:agent", "--session", "t", "--input-text", "tides") == 0
    assert run("replay", "t") == 0
    assert run("replay", "t", "better.py:agent") == 76
    capsys.readouterr()
    assert run("replay", "t", "better.py:agent", "--dry-run") == 76
    told = capsys.readouterr().out
    assert "differs: chat: messages[0].content" in told
    assert "now       'please, tides'" in told
    assert "1 call answered from the log, 1 difference; nothing was done" in told
    assert run("export", "t", "t.perdure") == 0
    capsys.readouterr()
    assert run("replay", "t.perdure", "talker.py:agent", "--store", "nowhere.db", "--dry-run", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["same"], document["keys"], document["steps"][0]["what"]) == (True, [], "call")
    drive = ["replay", "t", "--drive", "--json", "--into"]
    assert run(*drive, "a", "--argument", '3:messages[0].content="moons"') == 0
    assert json.loads(capsys.readouterr().out)["result"] == "small: moons"
    assert run(*drive, "b", "--argument", 'chat:model="large"') == 0
    assert json.loads(capsys.readouterr().out)["result"] == "large: tides"
    assert run(*drive, "c", "--argument", "3:prompt[0]=1") == 68
    assert run(*drive, "c", "--argument", 'talk:model="large"') == 68
    assert run(*drive, "c", "--argument", "chat=1") == 2
    assert run(*drive, "c", "--argument", "chat:messages[0]=1") == 2
    assert run("replay", "t", "--drive") == 2
    assert run("replay", "t", "--into", "c") == 2
    assert run(*drive, "c", "--dry-run") == 2
    assert not Path("nowhere.db").exists()
