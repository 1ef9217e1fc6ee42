"""Recorded runs of agents as people write them down, and the records that the same runs would have journaled.

Knows the three common forms: steps with action and observation (`trajectory`), events with causes (`history`), chats
with calls of tools (`traj`, `messages`). It must not know what is looked for in them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

from perdure import values
from perdure.log.action import Action, Outcome, outcome_body, started_body
from perdure.log.entry import Entry

ENDINGS: Final = (".json", ".jsonl", ".traj")
CHATS: Final = ("traj", "messages", "history")

_GAVE_UP: Final = re.compile(r"\b(unable to|could not|failed to)\b", re.IGNORECASE)
"""Words with which a run says itself that it did not succeed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said."""

    text: str


@dataclass(frozen=True, slots=True)
class Heard:
    """What somebody said to the agent."""

    text: str


@dataclass(frozen=True, slots=True)
class Deed:
    """A tool that was called, and what it gave or (`raised`) raised."""

    name: str
    arguments: str
    result: str
    raised: bool = False
    effect: str = "repeatable"


@dataclass(frozen=True, slots=True)
class Back:
    """A rollback to the beginning."""


Turn: TypeAlias = Reply | Heard | Deed | Back


@dataclass(frozen=True, slots=True)
class Run:
    """One run: where it is from, what happened, whether it came to what it was for."""

    name: str
    turns: list[Turn]
    succeeded: bool


def runs_of(folder: Path) -> Iterator[Run]:
    """The runs in a folder, in order. Raises `ValueError` if there is none."""
    found = 0
    for file in sorted(path for path in folder.rglob("*") if path.suffix in ENDINGS):
        text = file.read_text(encoding="utf-8")
        documents = [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else [json.loads(text)]
        told = [one for each in documents for one in (each if isinstance(each, list) else [each])]
        for number, one in enumerate(told):
            run = _run(one, f"{file.parent.name}/{file.stem[:60]} {number}".removesuffix(" 0"))
            if run is not None:
                found += 1
                yield run
    if not found:
        raise ValueError(f"no run was found in {folder}: files {', '.join(ENDINGS)}")


def _run(told: dict[str, Any], name: str) -> Run | None:
    if isinstance(told.get("trajectory"), list):
        return Run(name, list(_from_steps(told["trajectory"])), _is_submitted(told))
    messages = next((told[each] for each in CHATS if isinstance(told.get(each), list)), None)
    if not messages:
        return None
    if any("role" in message for message in messages):
        return Run(name, list(_from_chat(messages)), told.get("reward", 1.0) == 1.0)
    turns = list(_from_events(messages))
    last: dict[str, Any] = next((event for event in reversed(messages) if event.get("action") == "finish"), {})
    return Run(name, turns, not told.get("error") and not _GAVE_UP.search(json.dumps(last.get("args", ""))))


def _is_submitted(told: dict[str, Any]) -> bool:
    return "submitted" in str((told.get("info") or {}).get("exit_status") or "submitted")


def _from_steps(steps: list[dict[str, Any]]) -> Iterator[Turn]:
    for step in steps:
        yield Reply(str(step.get("response") or step.get("thought") or ""))
        yield Deed("shell", str(step.get("action")), str(step.get("observation")))


def _from_events(events: list[dict[str, Any]]) -> Iterator[Turn]:
    causes = {event.get("id"): event for event in events if event.get("action")}
    for event in events:
        if event.get("action") == "message":
            text = str(event.get("message"))
            yield Heard(text) if event.get("source") == "user" else Reply(text)
        elif event.get("observation") and (cause := causes.get(event.get("cause"))) and cause["action"] != "recall":
            given = {key: value for key, value in (cause.get("args") or {}).items() if key != "thought"}
            yield Reply(json.dumps(cause.get("args")))
            yield Deed(str(cause["action"]), json.dumps(given, sort_keys=True), str(event.get("content")))


def _from_chat(messages: list[dict[str, Any]]) -> Iterator[Turn]:
    called: dict[str, tuple[str, str]] = {}
    for message in messages:
        text = _text(message.get("content"))
        if message.get("role") == "assistant":
            yield Reply(f"{text} {message.get('tool_calls') or ''}")
            called |= {each["id"]: _called(each) for each in message.get("tool_calls") or []}
        elif message.get("role") == "tool" or message.get("tool_call_ids"):
            asked = message.get("tool_call_id") or (message.get("tool_call_ids") or [""])[0]
            name, given = called.get(asked, (str(message.get("name") or "tool"), ""))
            yield Deed(name, given, text)
        elif message.get("role") == "user":
            yield Heard(text)


def _called(call: dict[str, Any]) -> tuple[str, str]:
    return call["function"]["name"], json.dumps(call["function"]["arguments"])


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text") or "") for block in content if isinstance(block, dict))
    return str(content or "")


# --- as records -------------------------------------------------------------------------------------------------------


def entries(turns: Iterable[Turn]) -> list[Entry]:
    """The records that an agent would have journaled which did the same."""
    log = _Log()
    for turn in turns:
        match turn:
            case Reply(text):
                history = {"text": "the conversation", "part": "messages", "of": 1, "since": None, "digest": b""}
                log.call("chat", {"messages": history}, str(len(log.entries)), {"role": "assistant", "content": text})
            case Deed(name, arguments, result, raised, effect):
                args = {"given": values.encode(arguments)}
                log.call(name, args, arguments, result, raised=raised, effect=effect)
            case Heard(text):
                log.add("received", {"what": "message", "value": values.encode(text)})
            case Back():
                log.add("rolled_back", {"to": 1, "reason": "another try"})
    return log.entries


class _Log:
    """Records, one behind the other."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, kind: str, body: dict[str, Any]) -> int:
        """One more record; its number."""
        seq = len(self.entries) + 2
        self.entries.append(Entry(seq, 1, kind, 0, body))
        return seq

    def call(
        self,
        name: str,
        args: dict[str, Any],
        given: str,
        result: Any,
        *,
        raised: bool = False,
        effect: str = "repeatable",
    ) -> None:
        """A call that has ended."""
        fingerprint = sha256(f"{name}\0{given}".encode()).digest()[:16]
        action = Action(0, name, args, fingerprint, None, effect, None, "", None, None, "ask", None)
        started = self.add("action_started", started_body(action))
        told = {"class": "builtins:ValueError", "text": result}
        outcome = Outcome("error", told) if raised else Outcome("result", values.encode(result))
        self.add("action_finished", {"started": started, **outcome_body(outcome)})
