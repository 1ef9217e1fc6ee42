"""An agent that gets nowhere goes back to a milestone with its files and tries another way, told what was tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import autonomous
from perdure.tools import Toolbox, files
from tests.autonomous import dead_end, playing
from tests.autonomous.playing import call, given, judged, says, task
from tests.crash import outside


@pytest.fixture(autouse=True)
def _outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "FILE", tmp_path / "outside")


def run(store: perdure.AgentStore, agent: Any, folder: Path) -> perdure.Outcome:
    return store.run(agent, "q", input=given(folder))


def test_the_third_way_works_with_the_files_of_the_plan(folder: Path) -> None:
    (folder / "base.txt").write_text("base")
    with perdure.open("memory:") as store:
        outcome = run(store, playing.agent(dead_end.SCRIPT, tools=dead_end.tools), folder)
        assert (outcome.status, outcome.result) == ("completed", "a good one"), outcome
        assert {path.name: path.read_text() for path in folder.iterdir()} == {
            "base.txt": "base",
            "report.md": "a good report",
        }
        assert outside.seen() == ["send to all", "book r1", "unbook r1"]
        choices = store.detail("q").choices
        assert [(one.do, one.strategy.name) for one in choices] == [("next", "careful"), ("next", "different")]
        assert [action.call for action in store.detail("q").standing] == ["send(text='to all')"]


def test_it_is_told_what_was_tried_what_was_undone_and_what_stands(folder: Path) -> None:
    (folder / "base.txt").write_text("base")
    with perdure.open("memory:") as store:
        run(store, playing.agent(dead_end.SCRIPT, tools=dead_end.tools), folder)
        first, second = store.state_at("q")["tried"]
    assert "goes in circles" in first["reason"]
    assert (first["to"], first["strategy"]) == ("first draft", "careful")
    assert (second["to"], second["strategy"]) == ("plan", "different")
    assert second["reason"] == "dead-end: it cannot be mended"
    assert [*first["standing"], *second["standing"]] == ["send(text='to all')"]
    undone = ["delete_file(path='base.txt')", "write_file(path='report.md', text='broken')", "book(room='r1')"]
    assert [*first["undone"], *second["undone"][:3]] == undone
    assert second["undone"][3].startswith("write_file(path='report.md', text='a first draft")
    told = autonomous.prompts.given_up(second)
    assert "Back at 'plan'" in told
    assert "it still stands: send(text='to all')" in told


def test_when_every_way_was_tried_all_of_it_is_kept(folder: Path) -> None:
    script = [
        {**playing.plan(dead_end.TASK), "repeat": True},
        {**says(call("give_up", reason="hopeless")), "repeat": True},
    ]
    with perdure.open("memory:") as store:
        outcome = run(store, playing.agent(script), folder)
        assert outcome.status == "failed"
        assert "hopeless" in outcome.reason
        assert "every strategy was tried" in outcome.reason
        assert [one.do for one in store.detail("q").choices] == ["next", "next", "give up"]


def test_a_person_helps_one_that_has_given_up(folder: Path) -> None:
    script = [
        {**playing.plan(dead_end.TASK), "repeat": True},
        {"match": "A person says: use the other file", **says(call("write_file", path="report.md", text="good"))},
        {"match": "made report.md", **says(call("finish_task", result="done"))},
        {**says(call("give_up", reason="hopeless")), "repeat": True},
    ]
    agent = playing.agent(script)
    with perdure.open("memory:") as store:
        assert run(store, agent, folder).status == "failed"
        store.send("q", "use the other file")
        store.rollback("q", "plan", by="me")
        assert run(store, agent, folder).result == "done"


def test_a_task_that_is_rejected_three_times_is_a_dead_end(folder: Path) -> None:
    script = [
        playing.plan(task("1")),
        {"system": "take small steps", **says(call("finish_task", result="right"))},
        {**says(call("finish_task", result="wrong")), "repeat": True},
        {"match": "says: right", "reply": {"done": True}},
        {"match": "Judge whether", "reply": {"done": False, "missing": "all of it"}, "repeat": True},
    ]
    with perdure.open("memory:") as store:
        assert run(store, playing.agent(script), folder).result == "right"
        (choice,) = store.detail("q").choices
        assert "was not done 3 times: all of it" in choice.reason


def test_a_result_that_the_program_rejects_three_times_is_a_dead_end(folder: Path) -> None:
    script = [
        playing.plan(task("1")),
        {"system": "take small steps", **says(call("finish_task", result="right"))},
        {**says(call("finish_task", result="wrong")), "repeat": True},
        {**judged(), "repeat": True},
    ]
    agent = playing.agent(script, judge=lambda folder, result: "" if result == "right" else "all of it")
    with perdure.open("memory:") as store:
        assert run(store, agent, folder).result == "right"
        (choice,) = store.detail("q").choices
        assert "was not done 3 times: all of it" in choice.reason


def test_a_plan_like_one_that_was_given_up_is_asked_for_again(folder: Path) -> None:
    script = [
        {"match": "given up before", "reply": {"tasks": [task("1", "ask the web instead")]}},
        {
            "match": "Split this goal",
            "reply": {"tasks": [task("1", "read all the mails of last year")]},
            "repeat": True,
        },
        {"system": "ask the web", **says(call("finish_task", result="found"))},
        {**says(call("give_up", reason="there are no mails")), "repeat": True},
        judged(),
    ]
    with perdure.open("memory:") as store:
        assert run(store, playing.agent(script), folder).result == "found"
        assert [one["to"] for one in store.state_at("q")["tried"]] == ["plan", "start"]


def test_milestones_of_your_own(folder: Path) -> None:
    def find(name: str, arguments: Any, result: Any) -> str | None:
        return "half way" if name == "write_file" and result.ok else None

    script = [
        playing.plan(task("1")),
        says(call("write_file", path="a", text="a")),
        says(call("give_up", reason="no")),
        {"system": "small steps", **says(call("finish_task", result="done"))},
        judged(),
    ]
    with perdure.open("memory:") as store:
        agent = playing.agent(script, milestones=find, tools=lambda folder: Toolbox.of(files(folder)))
        assert run(store, agent, folder).result == "done"
        assert store.state_at("q")["tried"][0]["to"] == "half way"
        assert (folder / "a").read_text() == "a"
