"""Streams on the command line."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.test_cli_commands import Cli, cli

__all__ = ["cli"]

AGENT = """
import perdure

@perdure.action(effect="repeatable")
def words(text):
    yield from text.split()

def agent(s):
    for word in words("one two three"):
        if word == "two":
            break
    return [word for word in words("four five")]
"""


def test_a_stream_that_was_left_early_is_told(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "streams.py").write_text(AGENT)
    assert cli("run", "streams.py:agent", "-s", "q")[0] == 0
    ends = [line for line in cli("log", "q")[1].splitlines() if "action_finished" in line]
    assert ["left early by the code after 0.0 s" in line for line in ends] == [True, False]
    assert [action["left_early"] for action in cli.json("show", "q")["journal"]] == [True, False]
    assert cli("show", "q")[1].count("result, left early") == 1
