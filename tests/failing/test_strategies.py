"""Strategies with settings: given where names are, recorded, shown, and read by the code."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import perdure
from perdure import Strategy, values
from perdure.cli.app import app
from perdure.errors import RefusedError, UnstorableError
from perdure.ops.counting import strategy_name
from perdure.recovery import FailurePolicy

QUICK = Strategy("quick", model="small", tools=["search", "read"], temperature=0.9)
CAREFUL = Strategy("careful", model="large", tools=["read"], prompt="Think of {what} first.")

seen: list[Any] = []


@perdure.action(effect="repeatable")
def ask(model: str, tools: list[str]) -> str:
    seen.append((model, tools))
    if model != "large":
        raise ValueError("I do not know")
    return f"{model} {tools}"


@perdure.agent(failures=FailurePolicy(after=1, strategies=(QUICK, CAREFUL)))
def agent(s: perdure.Session) -> str:
    s.checkpoint("start")
    told = s.strategy.settings
    s.state["strategy"] = s.strategy
    return s.call(ask, told["model"], told["tools"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    seen.clear()
    return tmp_path / "agents.db"


def test_the_code_reads_the_settings_of_the_strategy_that_is_tried(folder):
    with perdure.open(folder) as store:
        assert store.run(agent, "s").result == "large ['read']"
        assert seen == [("small", ["search", "read"]), ("large", ["read"])]
        assert [c.strategy for c in store.detail("s").choices] == [CAREFUL]
        assert store.state_at("s") == {"strategy": CAREFUL}


def test_show_tells_the_settings(folder):
    with perdure.open(folder) as store:
        store.run(agent, "s")
    shown = CliRunner().invoke(app, ["show", "s", "--store", str(folder)])
    assert "Strategy('careful', model='large', tools=list of 1" in shown.output
    told = json.loads(CliRunner().invoke(app, ["show", "s", "--store", str(folder), "--json"]).output)
    assert told["choices"][0]["strategy"]["$class"][2]["given"]["prompt"] == "Think of {what} first."


def test_a_person_names_it_and_the_code_gets_its_settings(folder):
    with perdure.open(folder) as store:
        assert store.run(agent, "s").result == "large ['read']"
        seen.clear()
        store.rollback("s", "start", strategy="quick")
        store.run(agent, "s")
        assert seen[0] == ("small", ["search", "read"])
        store.rollback("s", "start", strategy=Strategy("mine", model="large", tools=[]))
        assert store.run(agent, "s").result == "large []"


def test_names_and_strategies_may_be_mixed_and_each_name_is_tried_once(folder):
    @perdure.agent(failures=FailurePolicy(after=1, strategies=("plain", QUICK, CAREFUL)))
    def mixed(s: perdure.Session) -> str:
        s.checkpoint("start")
        seen.append(s.strategy)
        raise json.JSONDecodeError("x", "", 0)

    with perdure.open(folder) as store:
        assert store.run(mixed, "s").status == "failed"
    assert seen == ["plain", QUICK, CAREFUL]


def test_what_is_recorded_holds_when_the_declaration_changes(folder):
    def code(model: str) -> Any:
        @perdure.agent(failures=FailurePolicy(after=1, strategies=("a", Strategy("b", model=model))))
        def agent(s: perdure.Session) -> str:
            s.checkpoint("start")
            if s.strategy == "a":
                raise json.JSONDecodeError("x", "", 0)
            if not seen:
                seen.append(1)
                raise KeyboardInterrupt
            return s.strategy.settings["model"]

        return agent

    with perdure.open(folder) as store:
        with pytest.raises(KeyboardInterrupt):
            store.run(code("old"), "s")
        assert store.run(code("new"), "s").result == "old"


def test_it_is_frozen():
    with pytest.raises(AttributeError):
        QUICK.name = "other"
    with pytest.raises(TypeError):
        QUICK.settings["model"] = "other"
    QUICK.settings["tools"].append("delete")
    assert QUICK.settings["tools"] == ["search", "read"]
    given = ["x"]
    one = Strategy("n", name="a setting of this name", tools=given)
    given.append("y")
    assert one.settings == {"name": "a setting of this name", "tools": ["x"]}


def test_it_is_stored_and_equal_by_its_settings():
    for codec in ("msgpack", "json"):
        assert values.decode(values.encode(CAREFUL, codec=codec), codec=codec) == CAREFUL
    assert pickle.loads(pickle.dumps(CAREFUL)) == CAREFUL  # noqa: S301 - its own bytes
    assert Strategy("a", n=1) != Strategy("a", n=2)
    assert len({Strategy("a", n=[1]), Strategy("a", n=[1])}) == 1


def test_metrics_count_it_by_its_name():
    assert strategy_name(values.encode(CAREFUL)) == "careful"


@pytest.mark.parametrize("name", ["", 7, "x" * 1000])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(RefusedError, match="its name is a text"):
        Strategy(name)


def test_a_setting_that_cannot_be_stored_is_refused_where_it_is_declared():
    with pytest.raises(UnstorableError, match="strategy s"):
        Strategy("s", client=object())


def test_two_of_one_name_are_refused():
    with pytest.raises(RefusedError, match="'quick' is there twice"):
        FailurePolicy(strategies=(QUICK, "quick"))
