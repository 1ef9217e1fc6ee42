"""The work that is measured: states that grow and change as those of agents do, one step at a time, the same for all.

A work holds its live `state`; `step(k)` changes it in place and returns the delta, which is the least that says what
changed, as plain JSON. Seeded; knows nothing of how a state is saved.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Final, Protocol

from perdure.testing.bench.messages import Generated, Messages
from perdure.testing.bench.traces import Recorded

SEED: Final = 20_260_101
TOOLS: Final = 15
KEPT_MESSAGES: Final = 20
PARAGRAPH_BYTES: Final = 2_000

Delta = dict[str, Any]


class Work(Protocol):
    """A state and the steps that change it."""

    state: dict[str, Any]

    def step(self, k: int) -> Delta:
        """Changes the state, and says how. `k` counts from 1."""


def dumps(value: Any) -> bytes:
    """As JSON, without spaces: the size of a delta, and what the limits write."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def messages_from(folder: str | None) -> Messages:
    """Recorded messages when there is a folder of them, else generated ones."""
    return Generated() if folder is None else Recorded(Path(folder))


class Chat:
    """A conversation that grows by two messages a step, beside a document of 20 KB in which five scalars change."""

    def __init__(self, messages: Messages) -> None:
        self._messages, self._rng = messages, random.Random(SEED)  # noqa: S311 - not for secrets
        self.state: dict[str, Any] = {"messages": [], "doc": _document(messages, self._rng)}

    def step(self, k: int) -> Delta:
        """Two messages and five scalars."""
        rng = self._rng
        said, answered = self._messages.pair(rng)
        call = f"call_{rng.getrandbits(64):016x}"
        added = [
            {"id": f"m{2 * k}", "role": "assistant", "content": said, "tool_call_id": call},
            {"id": f"m{2 * k + 1}", "role": "tool", "content": answered, "tool_call_id": call},
        ]
        changed: list[tuple[tuple[str, str], Any]] = [
            (("progress", "step"), k),
            (("progress", "last_tool"), f"tool_{rng.randrange(TOOLS)}"),
            (("budget", "tokens"), k * 1000 + rng.randrange(1000)),
            (("budget", "usd"), round(k * 0.01 + rng.random() / 100, 6)),
            (("meta", "updated_at"), 1.7e9 + k * 3.5 + round(rng.random(), 3)),
        ]
        self.state["messages"].extend(added)
        for (part, name), value in changed:
            self.state["doc"][part][name] = value
        return {"append": added, "set": changed}


class Trimmed(Chat):
    """The same, but only the last messages are kept, as agents do to fit a context: a state that does not grow."""

    def step(self, k: int) -> Delta:
        """Two messages come, and the oldest two go."""
        delta = super().step(k)
        gone = max(0, len(self.state["messages"]) - KEPT_MESSAGES)
        del self.state["messages"][:gone]
        return {**delta, "drop": gone}


class Documents:
    """A state of many documents, 100 KB each, of which each step replaces one."""

    def __init__(self, messages: Messages, *, documents: int, paragraphs: int) -> None:
        self._messages, self._rng, self._paragraphs = messages, random.Random(SEED), paragraphs  # noqa: S311
        self.state: dict[str, Any] = {"docs": {f"doc{i:03d}": self._made(i, 0) for i in range(documents)}}

    def step(self, k: int) -> Delta:
        """One document is replaced."""
        documents = self.state["docs"]
        i = self._rng.randrange(len(documents))
        documents[f"doc{i:03d}"] = self._made(i, k)
        return {"set": [[[f"doc{i:03d}"], documents[f"doc{i:03d}"]]]}

    def _made(self, i: int, revision: int) -> dict[str, Any]:
        body = [self._messages.text(self._rng, PARAGRAPH_BYTES) for _ in range(self._paragraphs)]
        return {"id": i, "rev": revision, "body": body}


def _document(messages: Messages, rng: random.Random) -> dict[str, Any]:
    def words(count: int) -> str:
        return messages.words(rng, count)

    return {
        "goal": words(40),
        "plan": [{"id": i, "title": words(8), "status": "todo", "notes": words(31)} for i in range(30)],
        "tools": {f"tool_{i}": {"description": words(26), "calls": 0, "enabled": True} for i in range(TOOLS)},
        "scratch": {f"note_{i}": words(46) for i in range(20)},
        "budget": {"tokens": 0, "usd": 0.0, "limit_usd": 20.0},
        "progress": {"step": 0, "last_tool": "", "phase": "explore"},
        "meta": {"agent": "coder", "model": "m-1", "updated_at": 0.0},
    }
