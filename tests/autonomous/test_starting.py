"""What an agent is started with: recorded, the same again, and nothing in it that only looks right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import perdure
from perdure import autonomous
from perdure.autonomous.given import given_in
from perdure.autonomous.pursue import pursue
from perdure.autonomous.starting import check_agent, started
from perdure.errors import EntryError, InputDiffersError, ModelError, RefusedError
from perdure.models import ScriptedModel
from perdure.runtime import entry
from perdure.session.keeping.opening import NO_INPUT
from perdure.workspace import Folder, Rules
from tests.autonomous import playing
from tests.autonomous.playing import call, judged, says, task


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[perdure.AgentStore]:
    monkeypatch.chdir(tmp_path)
    with perdure.open("memory:") as opened:
        yield opened


def test_only_what_was_said_is_recorded_and_the_folder(store: perdure.AgentStore, tmp_path: Path) -> None:
    said = {"goal": "go", "model": "test", "rules": (), "budget": {}, "approve": None, "window": None, "allow": ()}
    function, given = started(store, pursue, "s", said=said)
    assert function is pursue
    assert given == {"goal": "go", "model": "test", "workspace": str(tmp_path / "workspace/s")}
    _, given = started(store, pursue, "s", said={**said, "budget": {"usd": 1}}, workspace="here")
    assert (given["budget"], given["workspace"]) == ({"usd": 1}, str(tmp_path / "here"))


def test_a_model_is_named_by_the_code_or_by_who_starts_it(store: perdure.AgentStore) -> None:
    own = playing.agent([])
    assert "model" not in started(store, own, "s", said={"goal": "go"})[1]
    for said, error in (({"goal": "go"}, RefusedError), ({"goal": "go", "model": "script:none.yaml"}, ModelError)):
        with pytest.raises(error, match=r"model|script"):
            started(store, pursue, "s", said=said)
    assert store.sessions() == []


def test_what_was_typed_in_another_way_is_the_same(store: perdure.AgentStore) -> None:
    agent = playing.agent([], budget={"steps": 0})
    assert store.run(agent, "s", input="go").status == "idle"
    assert started(store, agent, "s", said={"goal": "go"}) == (agent, NO_INPUT)
    with pytest.raises(InputDiffersError, match="was started without, not with budget"):
        started(store, agent, "s", said={"goal": "go", "budget": {"usd": 1}})


def test_a_folder_that_was_moved_keeps_its_rules(store: perdure.AgentStore, tmp_path: Path) -> None:
    rules = Rules(exclude=("secret",))
    agent = playing.agent([], {"workspace": Folder("first", rules=rules, conflicts="refuse")}, budget={"steps": 0})
    (tmp_path / "first").mkdir()
    (tmp_path / "first/secret").write_text("x")
    (tmp_path / "first/plain").write_text("x")
    store.run(agent, "s", input="go")
    (tmp_path / "first").rename(tmp_path / "second")
    moved, given = started(store, agent, "s", said={"goal": "go"}, workspace="second")
    assert store.run(moved, "s", input=given).status == "idle"
    found = store.detail("s").files
    assert found is not None
    assert (found.folder, found.count) == (str(tmp_path / "second"), 1)
    assert entry.name(moved) == entry.name(agent)


def test_the_agent_that_comes_along_is_found_again_by_its_name() -> None:
    assert entry.load(entry.name(pursue)) is pursue
    with pytest.raises(EntryError, match="declare a function"):
        check_agent(print, "builtins:print")


def test_hosts_that_are_allowed_bring_the_tool_that_fetches(tmp_path: Path) -> None:
    agent = autonomous.Agent()
    plain, allowed = (
        agent.toolbox(tmp_path, given_in({"goal": "go", "allow": hosts})) for hosts in ([], ["example.org"])
    )
    assert "fetch" not in plain
    assert [one.name for one in allowed if one.name not in plain] == ["fetch"]


@pytest.mark.parametrize(
    "wrong", [{"allow": "example.org"}, {"allow": ["http://example.org"]}, {"rules": "be brief"}, {"rules": [1]}]
)
def test_what_is_no_list_of_hosts_or_rules_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match=r"list of texts|name of a host"):
        given_in({"goal": "go", **wrong})


def test_the_model_in_the_state_is_asked(store: perdure.AgentStore, tmp_path: Path) -> None:
    script = [playing.plan(task("1")), says(call("finish_task", result="gone")), judged()]
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(script))
    agent = playing.agent([], model=ScriptedModel([], name="empty"))
    assert store.run(agent, "s", input="go").status == "failed"
    state = store.state_at("s")["agent"]
    assert state["model"] is None
    store.edit("s", {"agent.model": "script:other.yaml"}, by="ann")
    assert store.run(agent, "s", accept_change=True).result == "gone"
