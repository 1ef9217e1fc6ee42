"""What a failure policy does may be left: by a stop while it waits, by a doubt that is settled before it goes back."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.recovery import FailurePolicy

POLICY = FailurePolicy(retries=0, backoff_s=0.05)

calls: list[perdure.AgentStore] = []
"""Where the server was asked from. It is busy at first, and then a deploy begins."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    calls.clear()
    return tmp_path / "a.db"


def asked(store: perdure.AgentStore) -> str:
    calls.append(store)
    if len(calls) > 1:
        return "served"
    store.stop("deploy")
    raise ConnectionError("busy")


def made(store: perdure.AgentStore, form: str) -> Any:
    @perdure.action(effect="repeatable")
    def look() -> str:
        return asked(store)

    @perdure.agent(failures=POLICY)
    def script(s: perdure.Session) -> str:
        return look()

    @perdure.agent(failures=POLICY)
    async def awaited(s: perdure.AsyncSession) -> str:
        return await s.call(look)

    @perdure.steps(failures=POLICY)
    def steps(s: perdure.Session) -> None:
        s.complete(look())

    return {"script": script, "awaited": awaited, "steps": steps}[form]


@pytest.mark.parametrize("form", ["script", "awaited", "steps"])
def test_stopped_while_the_policy_waits_it_is_paused_and_goes_on(path: Path, form: str) -> None:
    with perdure.open(path) as store:
        outcome = store.run(made(store, form), "s")
        assert [choice.do for choice in store.detail("s").choices] == ["again"]
        assert (outcome.status, outcome.error, outcome.reason) == ("paused", None, "deploy")
        assert [head.status for head in store.sessions()] == ["paused"], "the next version looks for these"
    with perdure.open(path) as store:
        assert store.run(made(store, form), "s").result == "served"


@pytest.mark.parametrize("settled", ["done", "not-done"])
def test_what_is_in_doubt_is_asked_about_before_the_policy_goes_back(path: Path, settled: str) -> None:
    paid: list[str] = []
    over = threading.Event()

    @perdure.action(effect="once", timeout_s=0.05)
    def pay(how: str) -> None:
        paid.append(how)
        if len(paid) == 1:
            over.wait()

    @perdure.action(effect="repeatable")
    def parse() -> Any:
        return json.loads("{")

    @perdure.agent(failures=FailurePolicy(after=1, retries=0, strategies=("first", "second")))
    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        if s.strategy == "second":
            return "done"
        with s.parallel() as block:
            block.call(pay, "first")
            block.call(parse).result()
        return "parsed"

    with perdure.open(path) as store:
        outcome = store.run(agent, "s")
        assert outcome.status == "waiting", "a person is asked; nothing is thrown out of the run"
        (question,) = outcome.questions
        assert paid == ["first"]
        store.settle("s", question.seq, settled)
        assert store.run(agent, "s").result == "done"
        assert paid == ["first"] * (1 if settled == "done" else 2), "what was not done is done, and then left"
    over.set()
