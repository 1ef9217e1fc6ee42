"""An agent that reads what other agents did, action by action, and reports on it. No model; its tools are real.

    perdure run examples/trace_reader.py:agent --session traces --input '{"folder": "my-traces"}'

Kill it wherever you like and give the same command again: it goes on from where it was. It knows three kinds of
traces: SWE-agent (`.traj`), OpenHands (`.jsonl`) and tau-bench (`.json`). Without an input it reads those that come
with perdure.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import perdure

SOURCES = {"swe-agent": ".traj", "openhands": ".jsonl", "tau-bench": ".json"}
PAGE = 5
FAILED = re.compile(r"^(Traceback|\w*Error\b|Exception|.*command not found|.*No such file)", re.MULTILINE)

ANALYSIS = """
import collections, itertools, json, sys
steps = json.load(sys.stdin)
tools = collections.Counter(step["tool"] for step in steps)
rows = [[tool, len(list(group))] for tool, group in itertools.groupby(step["tool"] for step in steps)]
print(json.dumps({
    "steps": len(steps),
    "failed": sum(step["failed"] for step in steps),
    "tools": dict(tools.most_common()),
    "in_a_row": max(rows, key=lambda row: row[1], default=["none", 0]),
}))
"""


# Tools. What running one twice would do is declared where it is defined. Looking twice does no harm, so a look that a
# kill cut off is simply taken again.


@perdure.action(effect="repeatable")
def plan(given: dict[str, str] | None, session: str) -> dict[str, str]:
    """Where to read and where to write. Recorded, so that a resume from another folder still means the same places."""
    given = given or {}
    corpus = resources.files("perdure.demo") / "corpus"
    places = {"folder": given.get("folder", str(corpus)), "reports": given.get("reports", f"trace-reports/{session}")}
    return {name: os.path.abspath(place) for name, place in places.items()}  # noqa: PTH100 - the links stay as given


@perdure.action(effect="repeatable")
def find_traces(folder: str, suffix: str) -> list[str]:
    """The trace files with this suffix, relative to the folder."""
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob(f"*{suffix}"))


@perdure.action(effect="repeatable")
def list_runs(folder: str, path: str) -> list[str]:
    """The names of the runs in a trace file, in order."""
    return [name for name, _ in runs_in(Path(folder, path))]


@perdure.action(effect="repeatable")
def read_steps(folder: str, path: str, *, run: int, start: int) -> list[dict[str, Any]]:
    """The next few steps of a run: which tool, with what, what came back, and whether it failed."""
    return runs_in(Path(folder, path))[run][1][start : start + PAGE]


@perdure.action(effect="repeatable")
def run_python(code: str, stdin: str, *, timeout_s: float = 20.0) -> str:
    """What this code prints, in a Python process of its own. Raises `RuntimeError`, and `TimeoutError` in the end."""
    command = [sys.executable, "-I", "-S", "-c", code]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"stopped after {timeout_s:g} s") from None
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout


def is_written(folder: str, name: str, text: str) -> perdure.Done | perdure.NotDone | perdure.Unknown:
    """Asked after a kill: did `write_report` happen? If even this cannot tell, perdure asks a person."""
    place = Path(folder, name)
    if not place.exists():
        return perdure.NotDone()
    return perdure.Done(len(text)) if place.read_text(encoding="utf-8") == text else perdure.Unknown()


@perdure.action(effect="once", key=lambda _folder, name, _text: name, verify=is_written)
def write_report(folder: str, name: str, text: str) -> int:
    """Writes a report, whole or not at all; never over another one. That makes it an effect to have once."""
    place = Path(folder, name)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        raise FileExistsError(f"{place} is there already; give another folder for the reports")
    part = place.with_suffix(".part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(place)
    return len(text)


# The agent: plain code from top to bottom. Messages and notes are plain lists.


@perdure.agent(append_only=["messages", "notes"], version="1.0.0")
def agent(s: perdure.Session) -> dict[str, int]:
    """Reads every trace in the folder, and reports on each source and on all of them. Returns the totals."""
    places = plan(s.input, s.id)
    s.state["messages"] = [{"role": "user", "content": "Read these traces and report on what the agents did."}]
    notes: list[dict[str, Any]] = []
    s.state["notes"] = notes
    for source, suffix in SOURCES.items():
        for path in find_traces(places["folder"], suffix):
            for run, name in enumerate(list_runs(places["folder"], path)):
                found = study(s, places["folder"], path, run)
                notes.append({"source": source, "run": name, **found})
                s.save()
        s.checkpoint(source)
        write_report(places["reports"], f"{source}.md", report_on(source, notes))
    write_report(places["reports"], "report.md", report_on_all(notes))
    return {"runs": len(notes), "steps": total(notes, "steps"), "failed": total(notes, "failed")}


def study(s: perdure.Session, folder: str, path: str, run: int) -> dict[str, Any]:
    """Works through one run, a page at a time, and analyses the whole of it."""
    messages, steps = s.state["messages"], list[dict[str, Any]]()
    while True:
        page = read_steps(folder, path, run=run, start=len(steps))
        messages.append({"role": "assistant", "content": f"Reading {path}, run {run}, from step {len(steps)}."})
        messages.append({"role": "tool", "name": "read_steps", "content": page})
        s.save()  # a point to come back to; without it, a resume would lose nothing either
        steps += page
        if len(page) < PAGE:
            break
    printed = run_python(ANALYSIS, json.dumps(steps))
    messages.append({"role": "tool", "name": "run_python", "content": printed})
    return dict(json.loads(printed))


# Reports.


def total(notes: Iterable[dict[str, Any]], field: str) -> int:
    """The sum of one figure."""
    return sum(note[field] for note in notes)


def report_on(source: str, notes: Iterable[dict[str, Any]]) -> str:
    """One source: its runs, the longest first, and its tools."""
    mine = sorted((note for note in notes if note["source"] == source), key=lambda note: -note["steps"])
    lines = [f"# {source}", "", "| run | steps | failed | most in a row |", "|---|---:|---:|---|"]
    for note in mine:
        tool, times = note["in_a_row"]
        lines.append(f"| {note['run']} | {note['steps']} | {note['failed']} | {tool} x {times} |")
    return "\n".join([*lines, "", tools_used(mine), ""])


def report_on_all(notes: list[dict[str, Any]]) -> str:
    """All sources, side by side."""
    lines = [
        "# What the agents did",
        "",
        "| source | runs | steps | failed | longest run |",
        "|---|---:|---:|---:|---|",
    ]
    for source in SOURCES:
        mine = [note for note in notes if note["source"] == source]
        steps = total(mine, "steps")
        longest = max(mine, key=lambda note: note["steps"], default={"run": "none", "steps": 0})
        rate = f"{total(mine, 'failed') / steps:.0%}" if steps else "-"
        lines.append(f"| {source} | {len(mine)} | {steps} | {rate} | {longest['run']} ({longest['steps']} steps) |")
    return "\n".join([*lines, "", tools_used(notes), ""])


def tools_used(notes: Iterable[dict[str, Any]]) -> str:
    """The tools that were used most."""
    tools: Counter[str] = Counter()
    for note in notes:
        tools.update(note["tools"])
    return "Tools: " + ", ".join(f"{tool} {times}" for tool, times in tools.most_common(12)) + "."


# The three kinds of traces.

Runs = list[tuple[str, list[dict[str, Any]]]]


def runs_in(path: Path) -> Runs:
    """The runs of a trace file: (name, steps)."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".traj":
        return [(path.stem[:60], swe_agent(json.loads(text)))]
    if path.suffix == ".jsonl":
        runs = [json.loads(line) for line in text.splitlines() if line.strip()]
        return [(run["instance_id"], openhands(run["history"])) for run in runs]
    return [(f"task {run['task_id']}", tau_bench(run["traj"])) for run in json.loads(text)]


def step(tool: str, given: str, output: str, *, failed: bool | None = None) -> dict[str, Any]:
    """One step, in the form that all sources are brought into."""
    return {
        "tool": tool,
        "given": given,
        "output": output,
        "failed": bool(FAILED.search(output)) if failed is None else failed,
    }


def swe_agent(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """Its trajectory; a demonstration has only the history of messages."""
    turns = trace.get("trajectory")
    if turns is None:
        history = trace["history"]
        pairs = [(said, heard) for said, heard in zip(history, [*history[1:], {}], strict=True) if said.get("action")]
        turns = [{"action": said["action"], "observation": heard.get("content", "")} for said, heard in pairs]
    return [step((turn["action"].split() or ["none"])[0], turn["action"], turn["observation"] or "") for turn in turns]


def openhands(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Its events: what the agent did, each with the observation that it caused."""
    caused = {event["cause"]: event for event in events if "cause" in event}
    steps = []
    for event in events:
        if event.get("source") == "agent" and event.get("action") not in (None, "system", "message"):
            seen = caused.get(event["id"], {})
            failed = seen.get("observation") == "error" or seen.get("success") is False
            steps.append(step(event["action"], event.get("message", ""), seen.get("content", ""), failed=failed))
    return steps


def tau_bench(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Its messages: each call of a tool, with the message that answers it."""
    answers = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    calls = [call for message in messages for call in message.get("tool_calls") or []]
    return [
        step(call["function"]["name"], call["function"]["arguments"], answers.get(call["id"], "")) for call in calls
    ]
