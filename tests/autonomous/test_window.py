"""A long history is cut where it may be, and what must not be lost is not: over any number of compactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

import perdure
from perdure import autonomous
from perdure.autonomous import window
from perdure.models import ScriptedModel
from perdure.recovery import problems
from tests.autonomous import playing
from tests.autonomous.playing import call, given, judged, says, task

WINDOW = 2000
ROUNDS = 5


def turn(number: int, results: int, size: int) -> list[dict[str, Any]]:
    calls = [
        {"id": f"c{number}.{at}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        for at in range(results)
    ]
    told = [{"role": "tool", "tool_call_id": one["id"], "content": "x" * size} for one in calls]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *told]


@over(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3000)), min_size=1, max_size=20))
def test_wherever_it_is_cut_what_stays_is_valid(turns: list[tuple[int, int]]) -> None:
    history = [{"role": "user", "content": "begin"}]
    for number, (results, size) in enumerate(turns):
        history += turn(number, results, size)
    at = window.cut(history, window=WINDOW)
    assert 0 < at < len(history)
    kept = [{"role": "user", "content": "in short"}, *history[at:]]
    assert not problems(kept, shape="openai")
    newest = history[at:]
    assert window.tokens(newest) <= WINDOW / 4 or newest[0] == turn(len(turns) - 1, *turns[-1])[0]


def test_a_text_for_a_model_has_a_bound() -> None:
    history = [{"role": "user", "content": "x" * 100_000}] * 50
    assert len(window.rendered(history, window=WINDOW)) < WINDOW * 4
    assert len(window.result("y" * 100_000, window=WINDOW)) < WINDOW * 2
    assert len(window.result("y" * 100_000, window=WINDOW, beside=10)) < WINDOW


def test_rules_facts_and_questions_survive_every_compaction(folder: Path) -> None:
    """Canaries: what was said once, in any way, is shown with the last request as it was with the first."""
    (folder / "long.txt").write_text("many words, " * 200)
    rules = [f"rule canary {n}" for n in range(10)]
    script: list[Any] = [playing.plan(task("1", "task canary"))]
    read = call("read_file", path="long.txt")
    script += [says(call("remember", fact=f"fact canary {n}"), read) for n in range(ROUNDS * 4)]
    asked = call("ask_later", question="question canary")
    script[1]["calls"].append(asked)
    summary = {
        "match": "about to be forgotten",
        "reply": {"summary": "words were read", "facts": ["a fact that the summary found"], "questions": []},
        "repeat": True,
    }
    closing = says(call("close_question", question="question canary"), call("finish_task", result="done"))
    script += [summary, closing, judged()]
    heard: list[str] = []

    class Listening(ScriptedModel):
        async def request(self, messages: Any, *rest: Any) -> Any:
            heard.append(str(messages[-1].instructions))
            return await super().request(messages, *rest)

    def make() -> autonomous.Agent:
        return autonomous.Agent(model=Listening(script), tools=playing.tools, rules=tuple(rules), window=WINDOW)

    with perdure.open("memory:") as store:
        agent = autonomous.agent(progress=None)(make)
        outcome = store.run(agent, "q", input=given(folder, "goal canary"))
        assert outcome.result == "done", outcome
        state = store.state_at("q")
        assert state["agent"]["compactions"] >= ROUNDS
        assert {f"fact canary {n}" for n in range(ROUNDS * 4)} < {*state["facts"]}
        whole = " ".join(str(entry.body) for entry in store.log("q"))
    last = heard[-1]
    canaries = [*rules, *(f"fact canary {n}" for n in range(ROUNDS * 4)), "goal canary", "task canary"]
    assert [one for one in canaries if one not in last] == []
    assert "a fact that the summary found" in last
    assert "question canary" in heard[-2]
    assert "many words" in whole


def test_no_request_is_longer_than_the_window(folder: Path) -> None:
    (folder / "long.txt").write_text("many words, " * 5000)
    script = [
        playing.plan(task("1")),
        *[says(*[call("read_file", path="long.txt")] * 3)] * 10,
        {"match": "about to be forgotten", "reply": {"summary": "read"}, "repeat": True},
        says(call("finish_task", result="done")),
        judged(),
    ]
    sizes: list[int] = []

    class Measuring(ScriptedModel):
        async def request(self, messages: Any, *rest: Any) -> Any:
            sizes.append(
                sum(len(str(part.content)) for one in messages for part in one.parts if hasattr(part, "content"))
            )
            return await super().request(messages, *rest)

    def make() -> autonomous.Agent:
        return autonomous.Agent(model=Measuring(script), tools=playing.tools, window=8000)

    with perdure.open("memory:") as store:
        assert store.run(autonomous.agent(progress=None)(make), "q", input=given(folder)).result == "done"
    assert max(sizes) < 8000 * 4


@pytest.mark.parametrize("most", [1, 3])
def test_a_history_of_one_turn_is_not_compacted_for_ever(folder: Path, most: int) -> None:
    (folder / "long.txt").write_text("word " * 4000)
    script = [
        playing.plan(task("1")),
        says(*[call("read_file", path="long.txt")] * (8 * most)),
        {"match": "about to be forgotten", "reply": {"summary": "read"}, "repeat": True},
        says(call("finish_task", result="done")),
        judged(),
    ]
    agent = playing.agent(script, {"progress": None}, window=WINDOW, budget={"steps": 20})
    with perdure.open("memory:") as store:
        assert store.run(agent, "q", input=given(folder)).status in ("completed", "idle")
        assert store.state_at("q")["agent"]["compactions"] < 5
