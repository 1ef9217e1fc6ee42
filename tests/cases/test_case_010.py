"""Case 10: an answer that is recorded is honoured, whatever optional argument the resume comes with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import InputDiffersError

GIVEN: list[dict[str, Any]] = [
    {},
    {"input": {"n": 1}},
    {"labels": {"team": "b"}},
    {"wait_s": 5.0},
    {"accept_change": True},
    {"create": False},
    {"input": {"n": 1}, "labels": {}, "wait_s": 1.0, "accept_change": True, "create": False},
]


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


def test_an_argument_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with perdure.open(str(tmp_path / "agents.db")) as store:
        store.run(agent, "a", input={"n": 1})
        store.answer("a", "approve", "yes")
        with pytest.raises(InputDiffersError):
            store.run(agent, "a", input={"n": 2})
        assert store.run(agent, "a").result == "yes"
