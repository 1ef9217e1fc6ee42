"""The page about the command line names every command and option that there is, and no other."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from perdure.cli.app import app

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "cli.md").read_text()
GROUP: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
COMMANDS: dict[str, Any] = {
    path: command
    for name, found in GROUP.items()
    for path, command in (
        [(f"{name} {inner}", one) for inner, one in found.commands.items()]
        if hasattr(found, "commands")
        else [(name, found)]
    )
}
"""Those of a group by both of their words."""


def section(command: str) -> str:
    """What the page says about a command, and what it says about all of its part."""
    _, _, rest = PAGE.partition(f"### `perdure {command}")
    own = re.split(r"\n##", rest)[0]
    part = next(part for part in re.split(r"\n## ", PAGE) if f"### `perdure {command}" in part)
    return part.partition("\n### ")[0] + own


def named(words: str) -> str:
    """The command that a line of the shell begins with, without the program's name."""
    first, *rest = words.split()
    return f"{first} {rest[0]}" if hasattr(GROUP.get(first), "commands") else first


def options(command: str) -> set[str]:
    """The long names of its options."""
    params = [param for param in COMMANDS[command].params if param.param_type_name == "option"]
    return {name for param in params for name in (*param.opts, *param.secondary_opts) if name.startswith("--")}


def test_every_command_has_its_section() -> None:
    assert set(map(named, re.findall(r"^### `perdure ([^`]+)", PAGE, re.MULTILINE))) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_section_of_its_command(command: str) -> None:
    written = set(re.findall(r"--[a-z][a-z-]*", section(command)))
    assert options(command) - {"--help"} <= written


def test_no_option_is_written_that_is_not_there() -> None:
    of_all = {"--version", "--config", "--help", "--install-completion", "--show-completion"}
    there = set().union(*map(options, COMMANDS)) | of_all
    assert set(re.findall(r"--[a-z][a-z-]*", PAGE)) <= there


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"bench", "demo", "keygen"}))
def test_every_command_has_json(command: str) -> None:
    assert "--json" in options(command)
    assert {"--store"} <= options(command) or command == "copy", "which is told both of its stores"


def test_every_help_is_a_sentence() -> None:
    for name, command in COMMANDS.items():
        assert re.match(r"[A-Z].*\.", command.help or "", re.DOTALL), name
        for param in command.params:
            assert (param.help or "").endswith((".", "each.")), (name, param.name)


def test_importing_the_package_does_not_bring_the_terminal_libraries() -> None:
    code = "import perdure, sys; print(sorted({'typer', 'rich', 'perdure.cli'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def _spans() -> list[str]:
    """The commands on the page for whoever is called at night."""
    page = (DOCS / "operating.md").read_text()
    return re.findall(r"`(perdure [a-z][^`]*)`", page)


@pytest.mark.parametrize("span", sorted(set(_spans())))
def test_the_commands_for_the_night_are_there(span: str) -> None:
    _, _, words = span.partition(" ")
    command = named(words)
    assert command in COMMANDS
    assert {word for word in words.split() if word.startswith("--")} <= options(command) | {"--help"}
