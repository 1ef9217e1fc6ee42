"""What kills of agents are measured by: their folder, what they did outside, the history at each restore point.

How long a command took is a difference by nature, so it is taken out of what commands tell.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import perdure
import perdure.models.asking
from perdure.log.branch import branch, is_restore_point
from perdure.recovery import problems
from perdure.testing import Report, crash_everywhere
from perdure.testing.lives import SESSION
from perdure.tools import commands
from perdure.workspace.rules import Rules
from tests.autonomous import tasks
from tests.crash import outside
from tests.instants import POINTS
from tests.recovery import strict
from tests.recovery.conversations import WRITE
from tests.workspace.trees import told


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A place for lives of agents, one after another; commands are counted, and tell no times."""
    monkeypatch.setattr(outside, "FILE", tmp_path / "outside")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(commands, "run", counted(commands.run))
    lives = tmp_path / "lives"
    lives.mkdir()
    warm()
    return Bench(tmp_path / "work", lives)


@functools.cache
def warm() -> None:
    """Loads once what a life would load in each of its processes."""
    with TemporaryDirectory() as folder:
        assert tasks.done("report", Path(folder, "work")).status == "completed"


def counted(run: Callable[..., Any]) -> Callable[..., Any]:
    """Commands that are counted outside, under the name of their tool, and tell no times."""

    def timeless(command: Any, *args: Any, **options: Any) -> Any:
        ran = run(command, *args, **options)
        outside.happens("run_shell" if command[0] == "/bin/sh" else "run_python")
        return replace(ran, seconds=0.0, stdout=re.sub(r" in \d+\.\d+s", "", ran.stdout))

    return timeless


@dataclass
class Bench:
    """Lives of one agent, all in the same folder, which is as new for each."""

    folder: Path
    lives: Path
    begins_with: Mapping[str, str] = field(default_factory=dict)
    look: Callable[[perdure.AgentStore], None] = lambda _: None
    """Called with the store of each life that has ended."""

    def __post_init__(self) -> None:
        self.looked, self._pid = 0, os.getpid()

    def killed(self, agent: Any, **options: Any) -> Report:
        """The agent, killed at instants of each kind. Raises `AssertionError`."""
        chosen = {"effects": self.effects, "fresh": self.fresh, "folder": self.lives, "points": POINTS, **options}
        return crash_everywhere(agent, **chosen)

    def fresh(self) -> None:
        outside.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        for name, text in self.begins_with.items():
            (self.folder / name).write_text(text)

    def effects(self) -> dict[str, int]:
        """What happened outside, and each thing in the folder: one that differs is one more."""
        if os.getpid() == self._pid:
            self._look_back()
        return {**outside.effects(), **dict.fromkeys(things(self.folder), 1)}

    def _look_back(self) -> None:
        path = max(self.lives.glob("[0-9]*")) / "agents.db"
        if path.exists():
            with perdure.open(path) as store:
                check_histories(store)
                self.look(store)
                self.looked += 1


def things(folder: Path) -> list[str]:
    """What is in a folder and no cache, each in a line: path, kind, mode, digest of the content."""
    rules = Rules()
    return [
        " ".join((path, kind, *(f"{part:o}" if isinstance(part, int) else digest(part) for part in parts)))
        for path, (kind, *parts) in told(folder).items()
        if not rules.leaves_out(path)
    ]


def digest(content: Any) -> str:
    data = content if isinstance(content, bytes) else os.fsencode(content)
    return sha256(data).hexdigest()[:12]


# --- histories --------------------------------------------------------------------------------------------------------


def check_histories(store: perdure.AgentStore, session: str = SESSION) -> int:
    """How many restore points the present branch has. Raises `AssertionError` for a history that is refused."""
    points = [entry.seq for entry in branch(list(store.log(session))) if is_restore_point(entry)]
    for seq in points:
        check_history(store.state_at(session, seq, parts=["history"]).get("history", []))
    return len(points)


def check_history(history: list[dict[str, Any]]) -> None:
    """Raises `AssertionError` if a provider would refuse it."""
    assert not problems(history, shape="openai"), problems(history, shape="openai")
    events = events_of(history)
    for shape, write in WRITE.items():
        messages = write(events)
        assert not problems(messages, shape=shape), (shape, problems(messages, shape=shape))
        strict.CHECKS[shape](messages)


def events_of(history: list[dict[str, Any]]) -> list[Any]:
    """A history as `tests.recovery.conversations` tells it."""
    events: list[Any] = []
    names: dict[str, str] = {}
    for message in history:
        match message:
            case {"role": "assistant"}:
                calls = [(call["id"], call["function"]["name"]) for call in message.get("tool_calls") or ()]
                names |= dict(calls)
                events.append(("model", message["content"] or "", calls))
            case {"role": "tool", "tool_call_id": call, "content": text}:
                if not events or events[-1][0] != "results" or events[-1][2]:
                    events.append(("results", [], ""))
                events[-1][1].append((call, names.get(call, "?"), text))
            case {"role": "user", "content": text}:
                if events and events[-1][0] == "results":
                    events[-1] = ("results", events[-1][1], "\n".join(filter(None, (events[-1][2], text))))
                else:
                    events.append(("user", text))
    return events
