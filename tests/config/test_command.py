"""`perdure config`, and what the other commands do with a configuration."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.cli.app import main

AGENT = "def agent(s):\n    s.call(len, 'four')\n    return 'done'\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("STORE", "CONFIG", "KEY", "WITNESS", "PASSWORD", "PROTOCOL", "SECRETS"):
        monkeypatch.delenv(f"PERDURE_{name}", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    Path("agent.py").write_text(AGENT)
    return tmp_path


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*words])
    return int(ended.value.code or 0)


def document(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Any:
    capsys.readouterr()
    assert run(*words, "--json") == status
    return json.loads(capsys.readouterr().out)


def test_a_file_is_written_once_and_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("config", "init") == 0
    assert run("config", "check") == 0
    Path("perdure.yaml").write_text("# mine\n")
    assert run("config", "init") == 94
    assert "is there already" in capsys.readouterr().err
    assert Path("perdure.yaml").read_text() == "# mine\n"


def test_check_tells_all_that_is_wrong(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("perdure.yaml").write_text("storage:\n  urll: a\nrecovery:\n  use: newest\n")
    told = document(capsys, "config", "check", status=94)
    assert told["file"] == str(here / "perdure.yaml")
    assert [(one["where"].rsplit(":", 1)[1], one["key"]) for one in told["problems"]] == [
        ("2", "storage.urll"),
        ("4", "recovery.use"),
    ]
    assert run("ls") == 94, "no command goes on with half a configuration"
    assert run("config", "check") == 94


def test_show_says_what_holds_and_who_said_it_without_secrets(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "storage: {url: 'redis://me:hunter2@host/0', lease_s: 20}\nretention: {keep_last: 3}\n"
    Path("perdure.yaml").write_text(text)
    monkeypatch.setenv("PERDURE_KEY", "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0MTI=")
    monkeypatch.setenv("PERDURE_RETENTION__KEEP_LAST", "5")
    monkeypatch.setenv("PERDURE_PASSWORD", "hunter3")
    told = document(capsys, "config", "show")
    said = {(one["section"], one["key"]): (one["value"], one["where"]) for one in told["settings"]}
    assert said["storage", "lease_s"] == (20, f"{here}/perdure.yaml:1")
    assert said["retention", "keep_last"] == (5, "PERDURE_RETENTION__KEEP_LAST")
    assert said["storage", "witness"] == (None, "default")
    assert said["security", "keys"] == ("(hidden)", "PERDURE_KEY")
    assert run("config", "show") == 0
    everything = json.dumps(told) + capsys.readouterr().out
    assert not any(word in everything for word in ("hunter", "c2VjcmV0"))


def test_commands_use_the_configuration_and_options_are_stronger(here: Path) -> None:
    Path("conf").mkdir()
    Path("conf/perdure.yaml").write_text("storage: {url: mine.db}\njournal: {path: done.ndjson}\n")
    assert run("--config", "conf/perdure.yaml", "run", "agent.py:agent", "--session", "a") == 0
    assert (here / "conf/mine.db").exists()
    assert len((here / "conf/done.ndjson").read_text().splitlines()) == 1
    assert run("--config", "conf/perdure.yaml", "run", "agent.py:agent", "--session", "a", "--store", "other.db") == 0
    assert (here / "other.db").exists()


def test_gc_and_alerts_take_their_limits_from_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", "agent.py:agent", "--session", "a", "--store", "a.db") == 0
    Path("perdure.yaml").write_text("storage: {url: a.db}\nretention: {ended_s: 0}\nalerts: {log_records_max: 0}\n")
    assert run("alerts", "check") == 79
    assert [one["session"] for one in document(capsys, "gc")["deleted"]] == ["a"]


def test_without_a_configuration_no_command_loads_what_reads_one() -> None:
    code = "import sys; from perdure.cli.app import main\n"
    code += "try: main(['ls', '--store', 'memory:'])\nexcept SystemExit: pass\n"
    code += "print(sorted({'yaml', 'pydantic_settings', 'dotenv'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"
