"""A run that goes in circles is a failure of the kind no_progress: the next strategy is tried, whatever is killed."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

import perdure
from perdure.log.choices import Course
from perdure.recovery import FailurePolicy, ProgressPolicy
from perdure.testing import crash_everywhere

PROGRESS = ProgressPolicy(repeat_count=2)
WAYS = FailurePolicy(strategies=("look here", "look there", "ask"))
POINTS = None if os.environ.get("PERDURE_STORM") == "full" else ("append.after",)


@perdure.action(effect="repeatable")
def chat(messages: list[str]) -> str:
    return messages[0]


@perdure.action(effect="once", after_rollback="again")
def act(what: str) -> str:
    return "found" if what == "ask" else "nothing there"


@perdure.agent(progress=PROGRESS, failures=WAYS)
def searching(s: perdure.Session) -> list[Any]:
    """Goes on and on for as long as nothing is found."""
    s.checkpoint("start")
    messages = s.state["messages"] = [s.strategy]
    while (found := act(chat(messages=messages))) == "nothing there":
        messages.append(found)
        s.save()
    return [s.strategy, len(messages), found]


@perdure.steps(progress=PROGRESS, failures=WAYS)
def step_by_step(s: perdure.Session) -> None:
    """The same, a turn in each step: its circle lies in several steps, and going back to this one is not enough."""
    messages = s.state.setdefault("messages", [])
    said = chat(messages=[s.strategy, *messages])
    if act(said) == "found":
        s.complete([s.strategy, len(messages)])
    messages.append(said)


@perdure.agent(progress=PROGRESS, failures=FailurePolicy(strategies=("look here", "look there")))
def hopeless(s: perdure.Session) -> None:
    messages = [s.strategy]
    for _ in range(100):
        act(chat(messages=messages))
        messages.append("go on")


def course(store: perdure.AgentStore) -> Course:
    return Course().take(store.log("one"))


def test_a_script_in_circles_goes_back_and_tries_the_next_strategy() -> None:
    store = perdure.open("memory:")
    assert store.run(searching, "one").result == ["ask", 1, "found"]
    first, second = course(store).choices
    assert [(each.do, each.strategy, each.outcome) for each in (first, second)] == [
        ("next", "look there", "failed"),
        ("next", "ask", "completed"),
    ]
    assert first.failure is not None
    assert (first.failure.kind, first.failures) == ("no_progress", 1)
    assert "it goes in circles: the same call with the same result: act, 2 times" in first.reason


@pytest.mark.storm
def test_a_script_in_circles_killed_anywhere_comes_to_the_same() -> None:
    crash_everywhere(searching, points=POINTS)


@pytest.mark.storm
def test_steps_in_circles_killed_anywhere_come_to_the_same() -> None:
    crash_everywhere(step_by_step, points=POINTS)


def test_when_every_strategy_went_in_circles_the_session_is_failed_and_its_scene_kept() -> None:
    store = perdure.open("memory:")
    outcome = store.run(hopeless, "one")
    assert outcome.status == "failed"
    assert "every strategy was tried" in outcome.reason
    assert [each.do for each in course(store).choices] == ["next", "give up"]
    assert sum(e.kind == "action_started" and e["name"] == "act" for e in store.log("one")) == 4


def test_without_a_failure_policy_it_goes_on() -> None:
    store = perdure.open("memory:")

    def agent(s: perdure.Session) -> int:
        for n in range(5):
            act(chat(messages=["look", str(n)]))
        return 5

    assert store.run(perdure.agent(progress=PROGRESS)(agent), "one").result == 5


def test_in_an_event_loop_it_is_the_same() -> None:
    async def agent(s: perdure.AsyncSession) -> list[Any]:
        messages = [s.strategy]
        while (found := await s.call(act, await s.call(chat, messages=messages))) == "nothing there":
            messages.append(found)
        return [messages[0], found]

    store = perdure.open("memory:")
    declared = perdure.agent(progress=PROGRESS, failures=WAYS)(agent)
    assert asyncio.run(store.arun(declared, "one")).result == ["ask", "found"]
