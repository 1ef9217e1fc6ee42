"""Case 55: a process frozen in the middle of a run holds nothing up: another takes over, it may write no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import HeldError
from perdure.runtime import operator
from perdure.session.keeping.opening import append_one
from perdure.session.rules.request import Draft
from tests.crash.process import Child, Talk
from tests.servers.places import Place

LEASE_S = 0.4


def agent_that_freezes(form: str, talk: Talk | None) -> Any:
    """Saves, then waits in an action to be told to go on."""

    @perdure.action(effect="repeatable")
    def waits() -> str:
        if talk is not None:
            talk.say("here")
            talk.hear()
        return "frozen" if talk else "taken over"

    def script(s: perdure.Session) -> str:
        s.state["by"] = "both"
        s.save()
        s.state["by"] = waits()
        return str(s.state["by"])

    @perdure.steps
    def steps(s: perdure.Session) -> None:
        if "by" not in s.state:
            s.state["by"] = "both"
        else:
            s.state["by"] = waits()
            s.complete(s.state["by"])

    return script if form == "script" else steps


@pytest.mark.parametrize("form", ["script", "steps"])
def test_a_frozen_run_is_taken_over(form: str, place: Place) -> None:
    def work(talk: Talk) -> None:
        store = perdure.open(place.url, lease_s=LEASE_S)
        talk.say_error_of(lambda: store.run(agent_that_freezes(form, talk), "s"))
        talk.say_error_of(lambda: store.run(agent_that_freezes(form, None), "s"))

    with Child(work) as child, perdure.open(place.url, lease_s=LEASE_S) as store:
        assert child.hear() == "here"
        child.stop()
        assert store.info("s").status == "running"
        with (
            perdure.open(place.url, lease_s=600) as patient,
            pytest.raises(HeldError, match=rf"pid {child.pid} .*replaced after 600 s"),
        ):
            patient.run(agent_that_freezes(form, None), "s")
        assert store.run(agent_that_freezes(form, None), "s", wait_s=20).result == "taken over"
        log = [(entry.seq, entry.kind) for entry in store.log("s")]
        child.go_on()
        child.say("go on")
        assert child.hear() == "FencedError"
        assert child.hear() == "no error", "it reads the result as everybody does"
        assert store.info("s").status == "completed"
        assert store.state_at("s") == {"by": "taken over"}
        assert [(entry.seq, entry.kind) for entry in store.log("s")] == log


def test_what_a_person_does_is_refused_while_it_may_be_alive_and_done_when_it_is_dead(tmp_path: Path) -> None:
    def work(talk: Talk) -> None:
        perdure.open(tmp_path / "agents.db").run(agent_that_freezes("script", talk), "s")

    def note(store: perdure.AgentStore) -> None:
        append_one(store.keeper, "s", Draft("note", {"topic": "t"}), owner="person", lease_s=60)

    with Child(work) as child, perdure.open(tmp_path / "agents.db") as store:
        assert child.hear() == "here"
        child.stop()
        assert operator.rollback(store, "s", 0).asked, "it may be alive: it is asked"
        with pytest.raises(HeldError):
            note(store)
        child.kill()
        note(store)
        operator.rollback(store, "s", 0)
        assert store.info("s").status == "paused"
        assert store.run(agent_that_freezes("script", None), "s").result == "taken over"
