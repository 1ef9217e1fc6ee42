"""What an agent may spend holds over branches, failures and kills; more of it, advice and rules are sent to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.autonomous.tally import Tally, spent_out
from perdure.stores.observing import AttemptBegan
from tests.autonomous import playing
from tests.autonomous.playing import call, given, judged, says, task
from tests.restoring.damaged import Rows

LOOK = {**says(call("list_files"), tokens={"in": 100, "out": 10}, usd=0.01), "repeat": True}
STEP = {"steps": 1, "tokens": 111, "usd": 0.011}
"""More than one step costs."""


def spent(store: perdure.AgentStore) -> dict[str, float]:
    return Tally().take(store.log("q")).told()["spent"]  # type: ignore[no-any-return]


def run(store: perdure.AgentStore, agent: Any, folder: Path, **budget: float) -> perdure.Outcome:
    return store.run(agent, "q", input=given(folder, budget=budget))


@pytest.mark.parametrize(("unit", "most", "more"), [("steps", 4, 2), ("tokens", 300, 200), ("usd", 0.03, 0.02)])
def test_out_of_budget_it_waits_for_more(folder: Path, unit: str, most: float, more: float) -> None:
    script = [
        playing.plan(task("1")),
        {"match": "A person says: now", **says(call("finish_task", result="done"))},
        judged(),
        LOOK,
    ]
    agent = playing.agent(script, {"progress": None})
    with perdure.open("memory:") as store:
        assert run(store, agent, folder, **{unit: most}).status == "idle"
        first = spent(store)[unit]
        assert most <= first < most + STEP[unit]
        assert run(store, agent, folder, **{unit: most}).status == "idle"
        store.send("q", {unit: more})
        assert run(store, agent, folder, **{unit: most}).status == "idle"
        assert most + more <= spent(store)[unit] < most + more + STEP[unit]
        store.send("q", {unit: 10_000, "seconds": 0})
        store.send("q", "now")
        assert run(store, agent, folder, **{unit: most}).result == "done"


def test_what_was_spent_stays_spent_whatever_housekeeping_drops(folder: Path) -> None:
    agent = playing.agent([playing.plan(task("1")), LOOK], {"progress": None})
    with perdure.open("memory:") as store:
        run(store, agent, folder, steps=9)
        before = spent(store)
        assert before["steps"] == 9
        assert store.gc("q", keep_last=1, dry_run=False).sessions[0].records
        assert "dropped" in [entry.kind for entry in store.log("q")]
        assert spent(store) == pytest.approx(before)
        store.send("q", {"steps": 1})
        assert run(store, agent, folder, steps=9).status == "idle"
        assert spent(store)["steps"] == 10


@pytest.mark.parametrize("damaged", [2, -1], ids=["an early step", "the last"])
def test_what_was_spent_behind_damage_stays_spent(folder: Path, tmp_path: Path, damaged: int) -> None:
    agent, path = playing.agent([playing.plan(task("1")), LOOK], {"progress": None}), tmp_path / "a.db"
    with perdure.open(path) as store:
        assert run(store, agent, folder, usd=0.05).status == "idle"
        before = spent(store)
        saves = [entry.seq for entry in store.log("q") if entry.kind == "saved"]
    Rows(path, "q").spoil(saves[damaged])
    asked: list[AttemptBegan] = []
    with perdure.open(path) as store:
        store.observe(lambda event: asked.append(event) if isinstance(event, AttemptBegan) else None)
        outcome = store.run(agent, "q")
        assert outcome.restored is not None
        assert (outcome.status, outcome.restored.rung) == ("idle", "replaced")
        now = Tally().take(store.log(outcome.restored.session)).told()["spent"]
        assert now["usd"] == pytest.approx(before["usd"])
    assert not [event for event in asked if event.name == "model"], "all is spent"


def test_what_was_spent_on_a_branch_that_was_left_stays_spent(folder: Path) -> None:
    script = [playing.plan(task("1")), LOOK]
    agent = playing.agent(script, {"progress": None})
    with perdure.open("memory:") as store:
        run(store, agent, folder, steps=5)
        store.rollback("q", "plan", by="me")
        assert run(store, agent, folder, steps=5).status == "idle"
        assert spent(store)["steps"] == 5
        store.send("q", {"steps": 1})
        assert run(store, agent, folder, steps=5).status == "idle"
        assert spent(store)["steps"] == 6
        assert store.state_at("q")["tried"][0]["by"] == "me"


def test_requests_that_failed_are_counted(folder: Path) -> None:
    bad = {"reply": {"no": "verdict"}, "tokens": 40, "usd": 0.5, "match": "Judge whether", "repeat": True}
    script = [playing.plan(task("1")), says(call("finish_task", result="done")), bad]
    agent = playing.agent(script)
    with perdure.open("memory:") as store:
        outcome = run(store, agent, folder, usd=4)
        assert outcome.status in ("failed", "idle")
        assert store.detail("q").spent["usd"] >= 1.5


def test_advice_and_rules_reach_the_model_at_its_next_step(folder: Path) -> None:
    script = [
        playing.plan(task("1")),
        says(call("ask_person", question="Which one?")),
        {
            "match": "A person says: the blue one",
            "system": "Never the red one",
            **says(call("finish_task", result="blue")),
        },
        judged(),
    ]
    agent = playing.agent(script, rules=("Be polite.",))
    with perdure.open("memory:") as store:
        assert run(store, agent, folder).status == "waiting"
        store.send("q", {"rule": "Never the red one."})
        store.send("q", "the blue one")
        store.send("q", 17)
        store.answer("q", store.questions("q")[0].seq, "any")
        assert run(store, agent, folder).result == "blue"
        assert store.state_at("q")["rules"] == ["Be polite.", "Never the red one."]


def test_a_person_is_asked_before_what_cannot_be_taken_back(folder: Path) -> None:
    script = [
        playing.plan(task("1")),
        says(call("write_file", path="a", text="x"), call("list_files")),
        {"match": "a person said no", **says(call("finish_task", result="not allowed"))},
        judged(),
    ]
    agent = playing.agent(script, approve="never")
    with perdure.open("memory:") as store:
        assert store.run(agent, "q", input=given(folder, approve="write")).status == "waiting"
        (question,) = store.questions("q")
        assert "write_file" in question.prompt
        store.answer("q", question.seq, "no")
        assert store.run(agent, "q", input=given(folder, approve="write")).result == "not allowed"
        assert not (folder / "a").exists()


def test_spent_out_says_what() -> None:
    assert spent_out({"usd": 1.0, "steps": 10}, {"usd": 1.25, "steps": 3}) == "1.25 of 1 usd are spent"
