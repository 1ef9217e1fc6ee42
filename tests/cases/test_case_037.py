"""Case 37: a run can be seen, and gone on with, from its first moment and whatever it is doing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.recovery import FailurePolicy, Hooks, Scene
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


def tired(talk: Talk | None) -> Any:
    """Its tool fails now and then: a policy waits and tries again, and the agent blocks in its last attempt."""
    tries: list[int] = []

    @perdure.action(effect="repeatable")
    def reach() -> str:
        tries.append(1)
        if talk is not None and len(tries) < 3:
            raise ConnectionError("not yet")
        if talk is not None:
            talk.say("here")
            talk.hear()
        return "up"

    @perdure.agent(failures=FailurePolicy(retries=5))
    def agent(s: perdure.Session) -> str:
        return str(s.call(reach))

    return agent


def restored(talk: Talk | None) -> Any:
    """It is brought back, and blocks while its connections are opened."""

    def reconnect(_: Scene) -> None:
        if talk is not None:
            talk.say("here")
            talk.hear()

    @perdure.agent(hooks=Hooks(reconnect=reconnect))
    def agent(s: perdure.Session) -> str:
        return str(s.ask("Go on?", key="go"))

    return agent


def parent(talk: Talk | None) -> Any:
    """Its child blocks."""

    def child(s: perdure.Session) -> str:
        if talk is not None:
            talk.say("here")
            talk.hear()
        return "up"

    def agent(s: perdure.Session) -> str:
        return str(s.spawn(child, input=1, key="child").result())

    return agent


def run_from_its_beginning(store: perdure.AgentStore, agent: Any) -> None:
    store.run(agent, "s")


def resumed(store: perdure.AgentStore, agent: Any) -> None:
    assert store.run(restored(None), "s").status == "waiting"
    store.answer("s", "go", "up")
    store.run(agent, "s")


def driven(store: perdure.AgentStore, agent: Any) -> None:
    store.run(lambda s: s.save(), "origin")
    store.drive("origin", into="s", fn=agent, at=1, again=True)


KINDS = {
    "while a policy tries again": (tired, run_from_its_beginning, "s"),
    "while its connections are opened": (restored, resumed, "s"),
    "a child": (parent, run_from_its_beginning, "s/child"),
    "a fork that is driven on": (tired, driven, "s"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_seen_also_while_it_is_brought_back_tries_again_or_belongs_to_another(kind: str, tmp_path: Path) -> None:
    made, begin, seen = KINDS[kind]

    def work(talk: Talk) -> None:
        begin(perdure.open(tmp_path / "agents.db"), made(talk))

    with Child(work) as child, perdure.open(tmp_path / "agents.db") as store:
        assert child.hear() == "here"
        info = store.info(seen)
        assert (info.status, f"pid {child.pid} " in info.owner) == ("running", True)
        assert seen in [listed.id for listed in store.sessions(status="running")]
        child.kill()
        assert store.info(seen).status == "interrupted"
        assert store.run(made(None), "s", accept_change=True).result == "up"
        assert store.info(seen).status == "completed"
