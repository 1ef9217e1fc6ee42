"""Case 64: a model's key was resolved into the state of a run: in every checkpoint, and shown to whoever looked.

Right: the state has a reference, resolved again on resume; what was stored before is cleaned by a command.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import perdure
from perdure.cli import main
from tests.e2e import bytes_of

KEY = "sk-" + "proj-" + "d33pC4n4ry" * 4
used: list[str] = []


@perdure.steps
def run(s: perdure.Session) -> None:
    """Two steps, and a cut between them."""
    if not s.state:
        s.state["config"] = {"model": "m", "key": s.input}
        return
    used.append(s.state["config"]["key"].reveal())
    if len(used) == 1:
        raise OSError("cut")
    s.complete(s.state["config"])


@perdure.steps
def careless(s: perdure.Session) -> None:
    """As it was: the key is resolved into the state at the start."""
    if not s.state:
        s.state["config"] = {"model": "m", "key": s.input["key"], "header": f"Bearer {s.input['key']}"}
        return
    s.complete(s.state["config"]["model"])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CASE_64_KEY", KEY)
    used.clear()
    return tmp_path


def test_the_state_holds_a_reference_that_is_resolved_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = perdure.Secret("secret://env/CASE_64_KEY")
    with perdure.open("perdure.db") as store:
        assert store.run(run, "a", input=key).status == "failed"
    with perdure.open("perdure.db") as store:
        assert store.run(run, "a", input=key).result == {"model": "m", "key": key}
    assert used == [KEY, KEY]
    for words in (["state", "a"], ["state", "a", "--json"], ["log", "a", "--ndjson"], ["show", "a", "--json"]):
        main_of(words)
    out = capsys.readouterr().out
    assert KEY not in out
    assert "secret://env/CASE_64_KEY" in out
    assert bytes_of.in_files(KEY, place) == []


def test_old_checkpoints_are_cleaned_by_a_command(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with perdure.open("perdure.db", secrets="allow") as store:
        store.run(careless, "a", input={"key": KEY})
        store.fork("a", into="b")
    assert bytes_of.in_files(KEY, place)
    main_of(["scrub", "--secret", "secret://env/CASE_64_KEY", "--yes", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["clean"]
    assert bytes_of.in_files(KEY, place) == []
    with perdure.open("perdure.db") as store:
        assert bytes_of.in_store(KEY, store) == []
        assert store.state_at("a")["config"] == {"model": "m", "key": "[secret]", "header": "Bearer [secret]"}
        assert store.run(careless, "a").result == "m"
        assert store.verify("a").ok
        assert store.verify("b").ok


def main_of(words: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert not left.value.code
