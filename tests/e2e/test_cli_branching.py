"""`fork` and `diff` on the command line."""

from __future__ import annotations

from tests.e2e.test_cli_commands import Cli, cli, names, promised, waiting

__all__ = ["cli", "waiting"]


def test_a_fork_is_made_and_resumed(waiting: Cli) -> None:
    made = waiting.json("fork", "w", "--at", "sent", "--into", "f", "--reason", "what if")
    assert names(made) == names(promised("fork"))
    assert (made["session"], made["source"], made["resume"]) == ("f", "w", "perdure resume f")
    shown = waiting.json("show", "f")
    assert (shown["status"], shown["reason"]) == ("paused", f"forked from w at {made['at']}")
    status, out, _ = waiting("resume", "f")
    assert (status, "answer f" in out) == (75, True)
    assert waiting("fork", "w", "--into", "g")[1] == (
        f"g is a fork of w at #{waiting.json('show', 'w')['records']}. To go on: perdure resume g\n"
    )
    assert "fork of w at" in waiting("log", "g")[1]


def test_what_cannot_be_forked_is_told(waiting: Cli) -> None:
    assert waiting("fork", "w", "--into", "w")[0] == 43
    assert waiting("fork", "w", "--into", "f", "--at", "never")[0] == 46
    assert waiting("fork", "nobody", "--into", "f")[0] == 42


def test_a_difference_is_shown_and_promised(waiting: Cli) -> None:
    points = [p["seq"] for p in waiting.json("show", "w")["points"]]
    found = waiting.json("diff", "w", str(points[0]), "sent")
    assert {"session", "at", "other", "to", "changes"} == set(found) == set(promised("diff"))
    assert found["changes"] == []
    assert waiting("diff", "w", str(points[0]), "sent")[1].splitlines()[1] == "no difference"
    whole = waiting.json("diff", "w", "1", str(points[0]))
    assert [c["at"] for c in whole["changes"]] == ["$.n", "$.text", "$.seen"]
    out = waiting("diff", "w", str(points[0]), "1")[1]
    assert "$.n removed\n  - 7\n" in out
    waiting.json("fork", "w", "--into", "f")
    assert waiting.json("diff", "w", "--other", "f")["other"] == "f"
    assert waiting("diff", "w", "-1", "--other", "f")[1].endswith("no difference\n")
