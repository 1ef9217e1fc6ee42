"""The example of MetaGPT's that the page shows beside its port: the port runs as it stands there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from perdure.cli.teaming import SHIPPED, shipped
from perdure.runtime import entry

ROOT = Path(__file__).resolve().parents[2]


def blocks() -> tuple[str, str]:
    """What stands under MetaGPT, and what under perdure."""
    page = (ROOT / "docs/team.md").read_text(encoding="utf-8")
    left, right = re.findall(r"```python\n(import asyncio\n.*?)```", page, re.DOTALL)
    return left, right


def body(code: str) -> list[str]:
    """A program without its imports."""
    return [line for line in code.splitlines() if not re.match(r"(from|import) ", line)]


def test_classes_move_as_they_are() -> None:
    left, right = (body(code) for code in blocks())
    differs = [(a, b) for a, b in zip(left, right, strict=True) if a != b]
    assert differs == [("    team = Team()", '    team = Team(model="openai:gpt-5")')]


def test_the_port_runs_and_the_same_script_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "replies.yaml").write_text("[Bonsoir]")
    code = (
        blocks()[1]
        .replace("openai:gpt-5", "script:replies.yaml")
        .replace("    await team.run", "    print(await team.run")
    )
    code = code.replace("n_round=3)", "n_round=3))")
    for _ in range(2):
        names: dict[str, Any] = {"__name__": "port"}
        exec(compile(code, "port.py", "exec"), names)  # noqa: S102 - the page's own code
        assert capsys.readouterr().out.split("\n") == ["", "Human: Good evening", "Translator: Bonsoir", ""]


def test_the_team_that_comes_along_is_found_here_and_in_a_wheel() -> None:
    assert entry.load(shipped()).hire({}).env.roles.keys() == {"Product Manager", "Architect", "Engineer", "Tester"}
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    there = {target: ROOT / source for source, target in wheel["force-include"].items()}
    for suffix in (".py", ".yaml"):
        assert there[f"{SHIPPED.replace('.', '/')}{suffix}"].is_file()
