"""A goal is split up, worked on with real tools, judged, and reached; or it is said what keeps it from that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import autonomous
from perdure.recovery import problems
from tests.autonomous import playing
from tests.autonomous.playing import call, given, judged, says, task

GREETING = [
    playing.plan(task("1", "write a greeting", check="test -s hello.txt"), task("2", "read it", needs=["1"])),
    says(call("write_file", path="hello.txt", text="hello\n"), reply="I write it."),
    says(call("finish_task", result="it is written")),
    says(call("read_file", path="hello.txt"), call("list_files")),
    says(call("finish_task", result="it says hello")),
    judged(),
]


def run(store: perdure.AgentStore, agent: Any, folder: Path, **more: Any) -> perdure.Outcome:
    return store.run(agent, "q", input=given(folder, **more))


def test_a_goal_is_reached_with_real_tools(folder: Path) -> None:
    with perdure.open("memory:") as store:
        outcome = run(store, playing.agent(GREETING), folder)
        assert (outcome.status, outcome.result) == ("completed", "it says hello")
        assert (folder / "hello.txt").read_text() == "hello\n"
        state = store.state_at("q")
        assert [(one["id"], one["status"], one["result"]) for one in state["plan"]["tasks"]] == [
            ("1", "done", "it is written"),
            ("2", "done", "it says hello"),
        ]
        assert not problems(state["history"], shape="openai")
        assert [point.name for point in store.detail("q").points if point.name] == ["start", "plan"]


def test_a_task_that_is_not_done_is_gone_on_with(folder: Path) -> None:
    script = [
        playing.plan(task("1")),
        says(call("finish_task", result="it is not there")),
        judged(done=False, missing="hello.txt"),
        {"match": "is not done yet: hello.txt", **says(call("write_file", path="hello.txt", text="hi"))},
        says(call("finish_task", result="now it is")),
        judged(),
    ]
    with perdure.open("memory:") as store:
        assert run(store, playing.agent(script), folder).result == "now it is"


def test_a_check_judges_and_no_model_is_asked(folder: Path) -> None:
    script = [
        playing.plan(task("1", check="grep -q hello a.txt")),
        says(call("finish_task", result="too early")),
        {"match": "grep -q hello a.txt says", **says(call("write_file", path="a.txt", text="hello"))},
        says(call("finish_task", result="right")),
    ]
    with perdure.open("memory:") as store:
        assert run(store, playing.agent(script), folder).result == "right"


def test_a_program_judges_the_whole(folder: Path) -> None:
    def judge(folder: Path, result: str) -> str:
        return "" if result == "second" else f"{result} is wrong"

    script = [
        playing.plan(task("1")),
        says(call("finish_task", result="first")),
        judged(),
        {"match": "first is wrong", **says(call("finish_task", result="second"))},
        judged(),
    ]
    with perdure.open("memory:") as store:
        assert run(store, playing.agent(script, judge=judge), folder).result == "second"


def test_what_a_model_gets_wrong_it_is_told(folder: Path) -> None:
    script = [
        playing.plan(task("1")),
        says(call("read_file"), call("finish_task", outcome="what?")),
        "I think I shall go on.",
        {"match": "Go on by calling a tool", **says(call("finish_task", result="done"))},
        judged(),
    ]
    with perdure.open("memory:") as store:
        assert run(store, playing.agent(script), folder).result == "done"
        told = [message["content"] for message in playing.history(store) if message["role"] == "tool"]
        assert "read_file was not called, its arguments are wrong" in told[0]
        assert "finish_task was not done: result: Field required" in told[1]


def test_a_plan_is_revised_and_what_is_done_stays(folder: Path) -> None:
    script = [
        playing.plan(task("1"), task("2")),
        says(call("finish_task", result="one")),
        judged(),
        says(call("revise_plan", tasks=[task("3"), task("4", needs=["3", "1"])])),
        says(call("finish_task", result="three")),
        judged(),
        says(call("finish_task", result="four")),
        judged(),
    ]
    with perdure.open("memory:") as store:
        assert run(store, playing.agent(script), folder).result == "four"
        plan = store.state_at("q")["plan"]
        assert (plan["revision"], [one["id"] for one in plan["tasks"]]) == (2, ["1", "3", "4"])


def test_a_plan_that_the_code_gives_is_asked_of_nobody(folder: Path) -> None:
    made = autonomous.Plan(
        tasks=[autonomous.Task(id="1", title="look"), autonomous.Task(id="2", title="see", needs=["1"])]
    )
    script = [says(call("finish_task", result=n)) for n in ("one", "two")] + [judged(), judged()]
    with perdure.open("memory:") as store:
        assert run(store, playing.agent(script, plan=made), folder).result == "two"


def test_it_is_not_done_while_questions_are_open(folder: Path) -> None:
    script = [
        playing.plan(task("1")),
        says(call("ask_later", question="Which language?"), call("finish_task", result="done")),
        judged(),
        {"match": "Which language", **says(call("close_question", question="Which language?"))},
        says(call("finish_task", result="in English")),
        judged(),
    ]
    with perdure.open("memory:") as store:
        assert run(store, playing.agent(script), folder).result == "in English"


def test_without_a_model_it_says_how_to_name_one(folder: Path) -> None:
    with perdure.open("memory:") as store:
        outcome = run(store, playing.agent([], model=None), folder)
        assert outcome.status == "failed"
        assert "needs a model" in outcome.reason


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (7, "is its goal, a text"),
        ({"goal": " "}, "begins with a goal"),
        ({"goal": "x", "speed": 3}, "no 'speed'"),
        ({"goal": "x", "budget": {"days": 3}}, "no 'days'"),
        ({"goal": "x", "budget": {"usd": -1}}, "usd=-1"),
        ({"goal": "x", "approve": "sometimes"}, "approve='sometimes'"),
        ({"goal": "x", "window": 3}, "window=3"),
        ({"goal": "x", "rules": "be good"}, "rules is a list"),
    ],
)
def test_wrong_input_says_what_is_wrong(wrong: Any, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with perdure.open("memory:") as store:
        outcome = store.run(playing.agent([]), "q", input=wrong)
    assert isinstance(outcome.error, perdure.errors.RefusedError)
    assert told in outcome.reason


def test_a_tool_with_the_name_of_one_of_the_loop_is_refused(folder: Path) -> None:
    def tools(_: Path) -> Any:
        def remember(what: str) -> str:
            """Something else."""
            return what

        return autonomous.default_tools(folder).of(remember)

    with perdure.open("memory:") as store:
        outcome = run(store, playing.agent([], tools=tools), folder)
        assert "the tool 'remember' has the name" in outcome.reason


def test_a_byte_of_a_command_line_does_not_end_it_for_good(folder: Path) -> None:
    script = [playing.plan(task("1", check="true")), says(call("finish_task", result="done"))]
    with perdure.open("memory:") as store:
        agent = playing.agent(script)
        assert run(store, agent, folder, budget={"steps": 1}).status == "idle"
        store.send("q", "in latin-1: caf\udce9")
        store.send("q", {"steps": 5})
        assert store.run(agent, "q").result == "done"
