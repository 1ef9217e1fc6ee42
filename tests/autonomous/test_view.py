"""What is told of an autonomous agent while it runs, and what its log tells afterwards."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import perdure
from perdure.autonomous.overview import amounts, overview
from perdure.cli.agent_view import TASKS_SHOWN, AgentView
from perdure.stores.observing import AttemptBegan, Event, Spoken
from perdure.tools import Toolbox
from tests.autonomous import playing
from tests.autonomous.playing import call, given, judged, says, task

LOOKED: list[Callable[[], None]] = []


@perdure.action(effect="once")
def send(text: str) -> str:
    """Sends a letter."""
    for look in LOOKED:
        look()
    return "sent"


@perdure.action(effect="repeatable")
def inner() -> str:
    for look in LOOKED:
        look()
    return "x"


@perdure.action(effect="repeatable")
def outer() -> str:
    """Calls another."""
    return inner()


@pytest.fixture(autouse=True)
def nobody_looks() -> Iterator[None]:
    LOOKED.clear()
    yield
    LOOKED.clear()


@pytest.fixture
def store() -> Iterator[perdure.AgentStore]:
    with perdure.open("memory:") as opened:
        yield opened


def tools(folder: Path) -> Toolbox:
    return Toolbox.of(playing.tools(folder), send, outer)


def played(
    store: perdure.AgentStore, script: list[Any], folder: Path, **more: Any
) -> tuple[AgentView, list[str], perdure.Outcome]:
    """A run that is looked at: its view, its lines without times, how it ended."""
    view = AgentView(store, "q", begins=True)
    view.look()
    stop = store.observe(view.hear)
    outcome = store.run(playing.agent(script, tools=tools), "q", input=given(folder, **more))
    stop()
    view.look()
    return view, [without_times(line) for line in view.news()], outcome


def without_times(line: str) -> str:
    told = line.split(" done in ")
    return told[0] + "".join(f" done{rest.partition(' s')[2]}" for rest in told[1:])


def text_of(view: AgentView, width: int = 100) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(view.picture())
    return [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]


GOOD = [
    playing.plan(task("1", "send it"), task("2", "rest", needs=["1"])),
    says(call("send", text="hello"), reply="I send it now. " * 60, tokens={"in": 7, "out": 5}, usd=0.25),
    says(call("finish_task", result="it is sent"), tokens=3),
    {"match": "Judge whether", "reply": {"done": False, "missing": "a stamp"}, "tokens": 1},
    says(call("finish_task", result="with a stamp"), tokens=1),
    judged(),
    says(call("finish_task", result="rested"), tokens=1),
    judged(),
]


def test_each_step_is_told_as_it_goes(store: perdure.AgentStore, folder: Path) -> None:
    view, lines, outcome = played(store, GOOD, folder, budget={"steps": 20, "usd": 1})
    assert outcome.status == "completed"
    checkpoints = [line.partition(" (#")[0] for line in lines if "checkpoint" in line]
    assert checkpoints == ["step 0   checkpoint start", "step 1   checkpoint plan"]
    told = [line for line in lines if "checkpoint" not in line]
    assert told[0] == "step 0   plans …"
    assert told[1].startswith("step 1   plans done, ")
    assert told[2] == "step 1   plan: 1: send it; 2: rest"
    assert told[3:7] == [
        "step 1   thinks …",
        f"step 2   thinks done, 12 tokens: {('I send it now. ' * 60)[:99]}…",
        "step 2   send(text='hello') …",
        "step 2   send(text='hello') done",
    ]
    assert "step 4   task 1 is not done yet" in told
    assert "step 6   task 1 is done: with a stamp" in told
    assert told[-1] == "step 8   task 2 is done: rested"
    assert view.line().startswith("q: 2 of 2 tasks done, 8 of 20 steps, ")
    assert ", 0.25 of 1 usd, " in view.line()


def test_the_log_alone_tells_the_same(store: perdure.AgentStore, folder: Path) -> None:
    told, _, _ = played(store, GOOD, folder, budget={"steps": 20})
    late = AgentView(store, "q")
    late.look()
    assert (late.plan, late.facts, late.spent(), late.news()) == (told.plan, told.facts, told.spent(), [])
    found = overview(store, "q")
    assert found is not None
    assert (found.done, found.milestones, found.lack) == (2, ("plan",), "")
    assert amounts(found.budget, found.spent) == told.spent()


def test_what_runs_now_is_shown_under_the_plan(store: perdure.AgentStore, folder: Path) -> None:
    pictures: list[list[str]] = []
    view = AgentView(store, "q")

    def look() -> None:
        view.look()
        pictures.append(text_of(view))

    LOOKED.append(look)
    view.look()
    store.observe(view.hear)
    script = [*GOOD[:1], says(call("send", text="hello"), call("outer")), says(call("give_up", reason="enough"))]
    store.run(playing.agent(script, tools=tools), "q", input=given(folder))
    sending, inside = pictures
    assert sending[:2] == ["[>] 1: send it", "[ ] 2: rest (needs 1)"]
    assert sending[2].startswith("send(text='hello')  ")
    assert sending[3].startswith("q: 0 of 2 tasks done, 2 steps, ")
    assert [line for line in inside if line.startswith("outer  ")]
    assert not [line for line in inside if line.startswith("inner")]


def test_the_text_of_the_model_is_shown_as_it_comes_and_anew_if_it_comes_anew(
    store: perdure.AgentStore, folder: Path
) -> None:
    view, seen = AgentView(store, "q"), list[str]()

    def hear(event: Event) -> None:
        view.hear(event)
        if isinstance(event, Spoken | AttemptBegan):
            view.look()
            seen.append("|".join(text_of(view, 1000)))

    view.look()
    store.observe(hear)
    script = [*GOOD[:1], {"error": "overloaded"}, {"reply": "one two three four five six", "calls": GOOD[1]["calls"]}]
    store.run(playing.agent(script, tools=tools, settings={"max_retries": 1}), "q", input=given(folder))
    spoken = [line for line in seen if "one two" in line]
    assert "four" not in spoken[0], "not yet"
    assert "|one two three four five six|" in spoken[-1]
    view.hear(Spoken("q", 7000, "half of a repl"))
    view.hear(AttemptBegan("q", 7000, "model", "repeatable", 2, (7000,), is_stream=False))
    view.hear(Spoken("q", 7000, "another"))
    view.hear(Spoken("r", 7000, "of somebody else"))
    view.look()
    assert "another" in text_of(view)[-2]
    assert "half" not in "".join(text_of(view))


def test_a_way_that_was_left_is_told_with_what_comes_next(store: perdure.AgentStore, folder: Path) -> None:
    script = [
        playing.plan(task("1", "write it"), task("2", "rest", needs=["1"])),
        says(call("write_file", path="a.txt", text="x"), call("finish_task", result="written")),
        judged(),
        says(call("give_up", reason="\x1b[2Jnobody reads it")),
        says(call("finish_task", result="written anew")),
    ]
    view, lines, outcome = played(store, script, folder)
    assert outcome.status == "failed", "the script ends there"
    (left,) = [line for line in lines if "back to" in line]
    assert left.startswith("step 4   back to plan (#")
    assert ") with its files: " in left
    assert "nobody reads it" in left
    assert left.endswith("trying 'careful'")
    assert "\x1b" not in left
    assert view.line().startswith("q: 0 of 2 tasks done, "), "task 1 was taken back"


def test_a_question_is_told_until_it_is_answered(store: perdure.AgentStore, folder: Path) -> None:
    view, lines, outcome = played(store, GOOD[:2], folder, approve="once")
    assert outcome.status == "waiting"
    asks = 'asks: May send(text="hello") be done?'
    assert lines[-1] == f"step 2   {asks}"
    assert asks in text_of(view)
    store.answer("q", outcome.questions[0].seq, "no")
    view, _, _ = played(store, GOOD[:2], folder, approve="once")
    assert asks not in text_of(view)


def test_of_a_long_plan_what_is_around_the_task_is_shown(store: perdure.AgentStore, folder: Path) -> None:
    view = AgentView(store, "q")
    tasks = [
        {**task(str(n)), "needs": [], "status": "done" if n < 20 else "open", "result": "", "rejected": 0}
        for n in range(40)
    ]
    view.facts, view.plan = {"budget": {}}, {"revision": 1, "tasks": tasks}
    shown = text_of(view)
    assert len(shown) == TASKS_SHOWN + 1
    assert "[>] 20: do 20" in shown
    assert "[x] 19: do 19" in shown
    view.plan = {"revision": 1, "tasks": tasks[:20]}
    assert text_of(view)[-2] == "[x] 19: do 19"
