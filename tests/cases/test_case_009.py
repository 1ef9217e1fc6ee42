"""Case 9: whatever path a resume takes after an approval, each stored tool output has its stored call before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.testing import crash_everywhere
from tests.instants import POINTS


def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    if any(message["role"] == "tool" for message in messages):
        return {"role": "assistant", "text": "done", "calls": []}
    return {"role": "assistant", "text": "", "calls": [{"id": "c1", "tool": "pay"}, {"id": "c2", "tool": "book"}]}


def run_tool(name: str) -> str:
    return f"{name}: ok"


def agent(s: perdure.Session) -> list[dict[str, Any]]:
    messages = s.state["messages"] = [{"role": "user", "text": "pay and book"}]
    while True:
        reply = s.action(model, effect="repeatable")(messages)
        messages.append(reply)
        s.save()
        for call in reply["calls"]:
            if s.ask(f"Run {call['tool']}?", key=call["id"]) == "yes":
                messages.append({"role": "tool", "of": call["id"], "text": s.call(run_tool, call["tool"])})
                s.save()
        if not reply["calls"]:
            return messages


def check(messages: list[dict[str, Any]]) -> None:
    called: set[str] = set()
    answered: list[str] = []
    for message in messages:
        called.update(call["id"] for call in message.get("calls", ()))
        if message["role"] == "tool":
            assert message["of"] in called, messages
            answered.append(message["of"])
    assert len(answered) == len(set(answered)), messages


def test_each_output_has_its_call_at_every_restore_point(tmp_path: Path) -> None:
    with perdure.open(str(tmp_path / "agents.db")) as store:
        while (outcome := store.run(agent, "a")).status == "waiting":
            store.answer("a", outcome.questions[0].seq, "yes")
            for point in store.snapshots("a"):
                check(store.state_at("a", point.seq)["messages"])
        check(outcome.result)
        assert [message["role"] for message in outcome.result] == ["user", "assistant", "tool", "tool", "assistant"]


@pytest.mark.storm
def test_killed_anywhere_too() -> None:
    crash_everywhere(agent, answers={"c1": "yes", "c2": "yes"}, points=POINTS)
