"""Keys on the command line: a key is made, given, missed, and what is sealed is brought elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from perdure.cli.app import main
from perdure.stores.keys import keys_from

CANARY = "a-word-that-nobody-else-uses"
AGENT = f"""
def agent(s):
    s.state["notes"] = ["{CANARY}"]
    s.checkpoint("looked")
    return "{CANARY}"
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with a key, an agent, and a completed session of it in a sealed store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_KEY", raising=False)
    monkeypatch.setenv("PERDURE_STORE", "agents.db")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    Path("agent.py").write_text(AGENT)
    assert run("keygen", "one.key") == run("keygen", "two.key") == 0
    assert run("--key", "file:one.key", "run", "agent.py:agent", "--session", "q") == 0
    capsys.readouterr()


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*words])
    return int(ended.value.code or 0)


def sealed(*words: str) -> int:
    return run("--key", "file:one.key", *words)


def key(name: str) -> str:
    return keys_from(f"file:{name}.key").first.id


def in_clear() -> set[str]:
    return {path.name for path in Path().iterdir() if CANARY.encode() in path.read_bytes()} - {"agent.py"}


def test_a_key_is_made_once_and_for_its_owner(capsys: pytest.CaptureFixture[str]) -> None:
    assert Path("one.key").stat().st_mode & 0o777 == 0o600
    assert run("keygen", "one.key") == 63
    assert run("keygen", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert keys_from(made["key"]).first.id == made["id"]
    assert run("keygen", "nowhere/x.key") == 32


def test_a_sealed_store_is_used_with_its_key(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sealed("state", "q", "--json") == 0
    assert json.loads(capsys.readouterr().out)["state"]["notes"] == [CANARY]
    monkeypatch.setenv("PERDURE_KEY", "file:two.key,file:one.key")
    assert run("verify", "q", "--read-data") == 0
    assert in_clear() == set()


def test_without_it_the_key_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ls", "--json") == 91
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], key("one") in error["message"], "PERDURE_KEY" in error["message"]) == (
        "key-needed",
        True,
        True,
    )
    assert run("--key", "file:two.key", "ls") == 92
    assert key("one") in capsys.readouterr().err
    assert run("--key", Path("one.key").read_text().strip(), "ls") == 2
    assert run("--key", "env:PERDURE_NO_SUCH", "ls") == 90


def test_it_is_copied_under_another_key_and_in_clear_only_if_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert sealed("copy", "agents.db", "second.db", "--to-key", "file:two.key", "--verify") == 0
    assert "1 copied" in capsys.readouterr().out
    assert run("--key", "file:two.key", "verify", "q", "--store", "second.db") == 0
    assert sealed("copy", "agents.db", "third.db") == 0
    assert "--key file:one.key verify --read-data --store third.db" in capsys.readouterr().out
    assert sealed("verify", "q", "--store", "third.db") == 0
    assert in_clear() == set()
    assert sealed("copy", "agents.db", "plain.db", "--in-clear") == 0
    assert run("verify", "q", "--store", "plain.db") == 0
    assert "plain.db" in {name.removesuffix("-wal") for name in in_clear()}
    assert run("copy", "plain.db", "again.db", "--to-key", "file:two.key") == 0
    assert run("--key", "file:two.key", "replay", "q", "--store", "again.db") == 0
    assert sealed("ls", "--store", "plain.db") == 93


def test_what_is_exported_is_sealed(capsys: pytest.CaptureFixture[str]) -> None:
    assert sealed("export", "q", "q.perdure") == 0
    assert in_clear() == set()
    assert run("import", "q.perdure", "--store", "plain.db") == 91
    assert key("one") in capsys.readouterr().err
    assert run("--key", "file:two.key", "import", "q.perdure", "--store", "other.db") == 92
    assert run("--key", "file:two.key,file:one.key", "import", "q.perdure", "--store", "other.db") == 0
    assert run("--key", "file:two.key", "verify", "q", "--store", "other.db", "--read-data") == 0
    assert sealed("export", "q", "q.ndjson", "--ndjson") == 0
    assert in_clear() == {"q.ndjson"}


def test_it_is_converted_into_a_sealed_store() -> None:
    assert sealed("convert", "json.db", "--protocol", "json") == 0
    assert sealed("verify", "q", "--store", "json.db") == 0
    assert sealed("export", "q", "q.json.perdure", "--protocol", "json") == 0
    assert sealed("import", "q.json.perdure", "--store", "last.db") == 0
    assert in_clear() == set()
