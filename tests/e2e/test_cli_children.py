"""Parents and children on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_cli_commands import Cli, cli, names, promised

__all__ = ["cli"]

AGENT = """
def leaf(s):
    return s.ask("Go on?", key="q") if s.input == "asks" else s.input

def middle(s):
    return [s.spawn(leaf, input=given, key=given).result() for given in ("one", s.input)]

def agent(s):
    children = [s.spawn(middle, input=given, key=given) for given in ("two", "asks")]
    return [child.result() for child in children]
"""


@pytest.fixture
def family(cli: Cli, tmp_path: Path) -> Cli:
    (tmp_path / "family.py").write_text(AGENT)
    status, out, _ = cli("run", "family.py:agent", "-s", "q")
    assert status == 75
    assert "of q/asks/asks Go on?" in out
    assert "perdure answer q/asks/asks" in out
    return cli


def test_a_tree_is_listed(family: Cli) -> None:
    lines = family("ls", "--tree")[1].splitlines()[1:]
    first = [line[: len(line) - len(line.lstrip())] + line.split()[0] for line in lines if line.strip()]
    assert first == ["q", "  asks", "    asks", "    one", "  two", "    one", "    two"]
    found = family.json("ls", "--parent", "q")
    assert {one["session"]: one["parent"] for one in found["sessions"]} == {"q/two": "q", "q/asks": "q"}
    assert names(found) == names(promised("ls"))


def test_a_parent_shows_its_children_and_a_child_its_parent(family: Cli) -> None:
    shown = family.json("show", "q")
    assert [(c["session"], c["status"]) for c in shown["children"]] == [("q/asks", "waiting"), ("q/two", "completed")]
    (question,) = shown["questions"]
    assert question["session"] == "q/asks/asks"
    assert question["commands"][0].startswith("perdure answer q/asks/asks ")
    assert "child of  q\n" in family("show", "q/two")[1]
    assert "q/asks   waiting" in family("show", "q")[1]


def test_it_is_answered_and_goes_on(family: Cli) -> None:
    assert family("answer", "q/asks/asks", "q", "yes")[0] == 0
    assert family.json("resume", "q")["result"] == [["one", "two"], ["one", "yes"]]
    assert family("erase", "q", "--yes")[0] == 0
    assert family.json("ls")["sessions"] == []
