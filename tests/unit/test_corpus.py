"""The traces that come with the package, and the example agent's reading of the three kinds."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.demo.stage import CORPUS, example
from perdure.runtime import entry

BYTES_MAX = 60_000
reader: Any = sys.modules[entry.load(f"{example()}:agent").__module__]


def every_run() -> list[Any]:
    """(file, name, steps) of every run of the corpus."""
    files = [
        Path(CORPUS, name) for suffix in reader.SOURCES.values() for name in reader.find_traces(str(CORPUS), suffix)
    ]
    return [(file.name, name, steps) for file in files for name, steps in reader.runs_in(file)]


def test_the_corpus_is_small_and_holds_nothing_else() -> None:
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < BYTES_MAX
    assert {path.suffix for path in files} == set(reader.SOURCES.values())


def test_every_run_has_steps_and_some_fail() -> None:
    runs = every_run()
    assert len(runs) >= 15
    assert [name for _, name, steps in runs if not steps] == []
    assert 5 <= sum(step["failed"] for _, _, steps in runs for step in steps) <= 25


def test_every_step_has_its_output() -> None:
    silent = {"rm", "pip", "think", "finish", "submit"}
    odd = [
        (file, step["given"])
        for file, _, steps in every_run()
        for step in steps
        if not step["output"] and step["tool"] not in silent
    ]
    assert odd == []


def test_a_trajectory_is_read() -> None:
    turns = [
        {"action": "ls src\n", "observation": "a.py"},
        {"action": "python a.py", "observation": "Traceback (most recent call last):\nValueError: x"},
        {"action": "", "observation": None},
    ]
    assert reader.swe_agent({"trajectory": turns, "history": []}) == [
        {"tool": "ls", "given": "ls src\n", "output": "a.py", "failed": False},
        {"tool": "python", "given": "python a.py", "output": turns[1]["observation"], "failed": True},
        {"tool": "none", "given": "", "output": "", "failed": False},
    ]


def test_a_demonstration_has_only_a_history() -> None:
    history = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "I look.", "action": "ls"},
        {"role": "tool", "content": "bash: nonsense: command not found"},
        {"role": "assistant", "content": "Done.", "action": "submit"},
    ]
    assert [(step["tool"], step["output"], step["failed"]) for step in reader.swe_agent({"history": history})] == [
        ("ls", "bash: nonsense: command not found", True),
        ("submit", "", False),
    ]


def test_events_are_paired_with_what_they_caused() -> None:
    events = [
        {"id": 0, "source": "agent", "action": "system", "message": "be good"},
        {"id": 1, "source": "user", "action": "message", "message": "go"},
        {"id": 2, "source": "agent", "action": "run", "message": "Running: make"},
        {"id": 3, "source": "agent", "observation": "run", "cause": 2, "content": "Error 2", "success": False},
        {"id": 4, "source": "agent", "action": "edit", "message": "Editing"},
        {"id": 5, "source": "agent", "observation": "error", "cause": 4, "content": "no match"},
        {"id": 6, "source": "agent", "action": "finish", "message": "All done."},
    ]
    assert [(step["tool"], step["output"], step["failed"]) for step in reader.openhands(events)] == [
        ("run", "Error 2", True),
        ("edit", "no match", True),
        ("finish", "", False),
    ]


def test_calls_are_paired_with_their_answers_by_id() -> None:
    def call(id_: str, name: str) -> dict[str, Any]:
        return {"id": id_, "function": {"name": name, "arguments": "{}"}}

    messages = [
        {"role": "system", "content": "You are at a desk."},
        {"role": "assistant", "content": None, "tool_calls": [call("a", "find"), call("b", "pay")]},
        {"role": "tool", "tool_call_id": "b", "content": "Error: no money"},
        {"role": "tool", "tool_call_id": "a", "content": "found"},
        {"role": "assistant", "content": "Sorry.", "tool_calls": None},
    ]
    assert [(step["tool"], step["output"], step["failed"]) for step in reader.tau_bench(messages)] == [
        ("find", "found", False),
        ("pay", "Error: no money", True),
    ]


def test_the_analysis_counts() -> None:
    steps = [{"tool": tool, "failed": tool == "b"} for tool in "aabbba"]
    assert json.loads(reader.run_python(reader.ANALYSIS, json.dumps(steps))) == {
        "steps": 6,
        "failed": 3,
        "tools": {"a": 3, "b": 3},
        "in_a_row": ["b", 3],
    }


def test_code_that_fails_or_hangs_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        reader.run_python("1 / 0", "")
    with pytest.raises(TimeoutError):
        reader.run_python("import signal; signal.pause()", "", timeout_s=0.05)


def test_a_report_is_never_written_over_another(tmp_path: Path) -> None:
    given = {"folder": str(tmp_path), "name": "a.md", "text": "first"}
    assert type(reader.is_written(**given)).__name__ == "NotDone"
    assert reader.write_report(**given) == len("first")
    assert type(reader.is_written(**given)).__name__ == "Done"
    assert type(reader.is_written(**given | {"text": "second"})).__name__ == "Unknown"
    with pytest.raises(FileExistsError):
        reader.write_report(**given | {"text": "second"})
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]


def test_the_report_adds_up() -> None:
    notes = [
        {
            "source": "openhands",
            "run": "r1",
            "steps": 4,
            "failed": 1,
            "tools": {"run": 3, "edit": 1},
            "in_a_row": ["run", 3],
        },
        {"source": "openhands", "run": "r2", "steps": 6, "failed": 2, "tools": {"run": 6}, "in_a_row": ["run", 6]},
    ]
    assert "| openhands | 2 | 10 | 30% | r2 (6 steps) |" in reader.report_on_all(notes)
    assert "| swe-agent | 0 | 0 | - | none (0 steps) |" in reader.report_on_all(notes)
    one = reader.report_on("openhands", notes)
    assert re.findall(r"^\| (r\d) \|", one, re.MULTILINE) == ["r2", "r1"]
    assert one.rstrip().endswith("Tools: run 9, edit 1.")
