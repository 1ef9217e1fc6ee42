"""Questions to people: several at once, answered by id in any order, once, from anywhere, and checked."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pydantic
import pytest

import perdure
from perdure.errors import KeyReusedError, RefusedError, UndecidedError


@pytest.fixture
def store(tmp_path: Path):
    with perdure.open(str(tmp_path / "agents.db")) as opened:
        yield opened


def answering(store, session: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "perdure.cli", "answer", session, *words, "--store", store.url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_questions_are_answered_in_any_order(count: int, store) -> None:
    def agent(s):
        return s.ask_all([perdure.Ask(f"Question {n}?", key=f"q{n}" if n % 2 else None) for n in range(count)])

    asked = store.run(agent, "a").questions
    assert [question.prompt for question in asked] == [f"Question {n}?" for n in range(count)]
    order = list(range(count))
    random.Random(count).shuffle(order)
    for left, n in enumerate(order):
        store.answer("a", f"q{n}" if n % 2 else asked[n].seq, n * 10)
        outcome = store.run(agent, "a")
        assert len(outcome.questions) == count - left - 1
    assert outcome.result == [n * 10 for n in range(count)]


def test_four_processes_answer_four_questions_at_once(store) -> None:
    def agent(s):
        return s.ask_all([perdure.Ask(f"Question {n}?", key=f"q{n}") for n in range(4)])

    store.run(agent, "a")
    for process in [answering(store, "a", f"q{n}", f"answer {n}") for n in (2, 0, 3, 1)]:
        assert process.wait(60) == 0, process.stderr.read()
        process.communicate()
    again = answering(store, "a", "q1", "another")
    assert ("answered already" in again.communicate(timeout=60)[1], again.returncode) == (True, 68)
    assert store.run(agent, "a").result == [f"answer {n}" for n in range(4)]


def test_of_many_answers_one_counts(store) -> None:
    def agent(s):
        return s.ask("Who?")

    (question,) = store.run(agent, "a").questions
    barrier, outcomes = threading.Barrier(6), []

    def answer(name: str) -> None:
        barrier.wait()
        try:
            store.answer("a", question.seq, name)
            outcomes.append(name)
        except UndecidedError:
            pass

    threads = [threading.Thread(target=answer, args=(f"p{n}",)) for n in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(outcomes) == 1
    assert store.run(agent, "a").result == outcomes[0]


def test_an_answer_reaches_a_run_that_waits(store) -> None:
    def agent(s):
        return s.ask("Go on?", wait_s=60)

    done = []
    thread = threading.Thread(target=lambda: done.append(store.run(agent, "a")))
    thread.start()
    with perdure.open(store.url) as other:
        while not (other.sessions() and other.questions("a")):
            pass
        other.answer("a", other.questions("a")[0].seq, "yes", by="somebody")
    thread.join(60)
    assert [outcome.result for outcome in done] == ["yes"]
    assert sum(entry.kind == "owned" for entry in store.log("a")) == 1, "it had to be started again"


def test_the_wait_for_an_answer_has_an_end(store) -> None:
    assert store.run(lambda s: s.ask("Go on?", wait_s=0.05), "a").status == "waiting"
    assert store.info("a").waits


# --- what an answer must be ------------------------------------------------------------------------------------------


class Plan(pydantic.BaseModel):
    days: int
    where: Literal["sea", "hills"] = "sea"

    @pydantic.field_validator("days")
    @classmethod
    def _odd(cls, days: int) -> int:
        if days % 2 == 0:
            raise ValueError("days are odd here")
        return days


@dataclass
class Point:
    x: int


def test_an_answer_becomes_a_value_of_its_type(store) -> None:
    got = []

    def agent(s):
        got.append(s.ask_all([perdure.Ask("Plan?", schema=Plan), perdure.Ask("Where?", schema=Point)]))
        s.receive()

    first, second = store.run(agent, "a").questions
    assert first.schema["properties"]["days"] == {"title": "Days", "type": "integer"}
    for wrong in ("x", {"days": "many"}, {"where": "sea"}, {"days": 1, "where": "moon"}):
        with pytest.raises(UndecidedError, match="Plan"):
            store.answer("a", first.seq, wrong)
    store.answer("a", first.seq, {"days": 3})
    store.answer("a", second.seq, {"x": 4})
    for _ in range(2):
        store.run(agent, "a")
    assert got == [[Plan(days=3), Point(x=4)]] * 2


@pytest.mark.parametrize("key", [None, "plan"])
def test_an_answer_that_the_type_refuses_is_asked_for_again(key, store) -> None:
    def agent(s):
        return s.ask("Plan?", key=key, schema=Plan).days

    for days in (2, 4):
        (question,) = store.run(agent, "a").questions
        store.answer("a", question.seq, {"days": days})
    (question,) = store.run(agent, "a").questions
    assert "days are odd here" in question.prompt
    store.answer("a", question.seq if key is None else key, {"days": 5})
    assert store.run(agent, "a").result == 5


def test_a_json_schema_is_checked_and_fetches_nothing(store) -> None:
    def agent(s):
        return s.ask("Sizes?", schema={"type": "array", "items": {"type": "integer"}, "maxItems": 2})

    (question,) = store.run(agent, "a").questions
    with pytest.raises(UndecidedError, match="1: 'x' is not of type 'integer'"):
        store.answer("a", question.seq, [1, "x"])
    store.answer("a", question.seq, [1, 2])
    assert store.run(agent, "a").result == [1, 2]


def test_what_no_answer_can_be_checked_by_is_refused(store) -> None:
    outcome = store.run(lambda s: s.ask("What?", schema=threading.Lock), "a")
    assert isinstance(outcome.error, RefusedError)


def test_two_questions_need_two_keys(store) -> None:
    asks = [perdure.Ask("One?", key="k"), perdure.Ask("Two?", key="k")]
    assert isinstance(store.run(lambda s: s.ask_all(asks), "a").error, RefusedError)
    store.run(lambda s: s.ask("One?", key="k"), "b")
    assert isinstance(store.run(lambda s: s.ask("Two?", key="k"), "b").error, KeyReusedError)
