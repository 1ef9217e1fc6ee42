"""Case 10: an answer that is recorded is honoured, whatever optional argument the resume comes with."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import InputDiffersError
from perdure.testing.lives import forked

GIVEN: list[dict[str, Any]] = [
    {},
    {"input": {"n": 1}},
    {"labels": {"team": "b"}},
    {"wait_s": 5.0},
    {"accept_change": True},
    {"create": False},
    {"restore": "latest_valid"},
    {"input": {"n": 1}, "labels": {}, "wait_s": 1.0, "accept_change": True, "create": False, "restore": "exact"},
]

GIVEN_TO_RESUME = [given for given in GIVEN if set(given) <= {"wait_s", "accept_change", "restore"}]


def agent(s: perdure.Session) -> str:
    s.call(len, "x")
    return s.ask("Approve?", key="approve", choices=["yes", "no"])


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: ",".join(given) or "none")
def test_the_answer_is_honoured(given: dict[str, Any], tmp_path: Path) -> None:
    with perdure.open(str(tmp_path / "agents.db")) as store:
        assert store.run(agent, "a", input={"n": 1}).status == "waiting"
        store.answer("a", "approve", "yes")
        assert store.run(agent, "a", **given).result == "yes"
        assert sum(entry.kind == "asked" for entry in store.log("a")) == 1


def test_every_optional_argument_of_a_resume_is_tried() -> None:
    told = {name for given in GIVEN for name in given}
    optional = {
        name for name, one in signature(perdure.AgentStore.run).parameters.items() if one.default is not one.empty
    }
    assert optional == told
    assert set(signature(perdure.AgentStore.resume).parameters) - {"self", "session"} <= told


@pytest.mark.parametrize("given", GIVEN_TO_RESUME, ids=lambda given: ",".join(given) or "none")
def test_the_answer_is_honoured_by_a_new_process(given: dict[str, Any], tmp_path: Path) -> None:
    """The one that asked is gone, and so is the one that answered."""

    def asks() -> bytes:
        with perdure.open(str(tmp_path / "agents.db")) as store:
            store.run(agent, "a", input={"n": 1})
        return b""

    def answers() -> bytes:
        with perdure.open(str(tmp_path / "agents.db")) as store:
            store.answer("a", "approve", "yes", by="ann")
        return b""

    assert forked(asks)[1] == 0
    assert forked(answers)[1] == 0
    with perdure.open(str(tmp_path / "agents.db")) as store:
        assert store.resume("a", **given).result == "yes"
        assert [told.by for told in store.detail("a").interventions] == ["ann"]
        assert sum(entry.kind == "asked" for entry in store.log("a")) == 1


def test_an_argument_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with perdure.open(str(tmp_path / "agents.db")) as store:
        store.run(agent, "a", input={"n": 1})
        store.answer("a", "approve", "yes")
        with pytest.raises(InputDiffersError):
            store.run(agent, "a", input={"n": 2})
        assert store.run(agent, "a").result == "yes"
