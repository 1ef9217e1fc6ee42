"""Case 37: a run can be seen, and gone on with, from its first moment and whatever it is doing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perdure
from tests.crash.process import Child, Talk

WHERE = ["before anything", "in an action", "between actions", "in an action that tries again"]


def agent_that_blocks(where: str, talk: Talk | None) -> Any:
    """It blocks at this place, in the process that can talk."""

    def block() -> None:
        if talk is not None:
            talk.say("here")
            talk.hear()

    def agent(s: perdure.Session) -> list[Any]:
        if where == "before anything":
            block()
        first = s.call(acts, 1)
        if where == "between actions":
            block()
        return [first, s.action(tries, retries=1)()]

    @perdure.action(effect="repeatable")
    def acts(number: int) -> int:
        if where == "in an action":
            block()
        return number

    @perdure.action(effect="repeatable")
    def tries() -> str:
        if talk is not None and where == "in an action that tries again":
            tried.append(1)
            if len(tried) == 1:
                raise ConnectionError("not yet")
            block()
        return "up"

    tried: list[int] = []
    return agent


@pytest.mark.parametrize("where", WHERE)
def test_a_run_is_seen_and_goes_on(where: str, tmp_path: Path) -> None:
    def work(talk: Talk) -> None:
        perdure.open(tmp_path / "agents.db").run(agent_that_blocks(where, talk), "s", input="q", labels={"a": "b"})

    with Child(work) as child, perdure.open(tmp_path / "agents.db") as store:
        assert child.hear() == "here"
        (info,) = store.sessions()
        assert (info.id, info.status, info.form) == ("s", "running", "script")
        assert f"pid {child.pid} " in info.owner
        assert store.info("s").records == len(list(store.log("s"))) >= 2
        assert next(iter(store.log("s")))["labels"] == {"a": "b"}
        assert store.state_at("s") == {}
        child.kill()
        assert store.info("s").status == "interrupted"
        assert store.run(agent_that_blocks(where, None), "s", input="q").result == [1, "up"]
        assert store.info("s").status == "completed"


def test_a_handle_is_seen_before_it_saves(tmp_path: Path) -> None:
    def work(talk: Talk) -> None:
        with perdure.open(tmp_path / "agents.db").session("s"):
            talk.say("here")
            talk.hear()

    with Child(work) as child, perdure.open(tmp_path / "agents.db") as store:
        assert child.hear() == "here"
        assert [(info.id, info.status, info.form) for info in store.sessions()] == [("s", "running", "handle")]
        child.say("enough")
