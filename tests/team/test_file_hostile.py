"""A file is data: what it calls a field is one, and what cannot be taken leaves no session behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import ClassUnknownError, TeamFileError
from perdure.session.keeping.opening import find
from perdure.team import Action, Message, Role, Team


class Speak(Action):
    async def run(self, history: list[Message]) -> str:
        del history
        return "spoken"


class Speaker(Role):
    def __init__(self, **fields: Any) -> None:
        super().__init__(**{"name": "A", "profile": "Speaker", **fields})
        self.set_actions([Speak])


@pytest.fixture
def store() -> Iterator[perdure.AgentStore]:
    with perdure.open("memory:") as opened:
        yield opened


@pytest.fixture
def form() -> dict[str, Any]:
    """The file of a team that has not taken its first turn yet, of what people read alone."""
    role = {
        "name": "A",
        "profile": "Speaker",
        "__module_class_name": "tests.team.test_file_hostile.Speaker",
        "actions": [{"name": "Speak", "__module_class_name": "tests.team.test_file_hostile.Speak"}],
        "rc": {"memory": {"storage": []}, "state": -1, "watch": [], "react_mode": "react"},
        "latest_observed_msg": {
            "id": "1",
            "content": "go",
            "instruct_content": None,
            "role": "Human",
            "sent_from": "",
            "cause_by": "metagpt.actions.add_requirement.UserRequirement",
            "send_to": ["A"],
        },
    }
    return {"env": {"roles": {"Speaker": role}}, "idea": "go", "investment": 1.0}


def gone_on(store: perdure.AgentStore, form: Any) -> Team:
    Path("team.json").write_text(json.dumps(form))
    team = Team.deserialize(".", store=store, workspace="w")
    asyncio.run(team.run())
    return team


NO_FIELDS = ("__class__", "__dict__", "_context", "_act", "run", "react", "unsaved", "todo", "llm", "model", "unknown")


@pytest.mark.parametrize("name", NO_FIELDS)
@pytest.mark.parametrize("of", ["role", "action"])
def test_a_key_that_is_no_field_takes_the_place_of_nothing(
    store: perdure.AgentStore, form: Any, name: str, of: str
) -> None:
    role = form["env"]["roles"]["Speaker"]
    (role if of == "role" else role["actions"][0])[name] = {"a": "openai:x"}
    team = gone_on(store, form)
    assert team.env.published[-1].content == "spoken"
    assert team.env.roles["Speaker"].model is None
    assert team.env.roles["Speaker"].actions[0].llm is None


def test_a_number_that_is_too_large_is_refused_where_it_stands(store: perdure.AgentStore, form: Any) -> None:
    form["investment"] = 10**400
    with pytest.raises(TeamFileError, match=r"\$\.investment: a number is expected"):
        gone_on(store, form)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"class": "X", "mapping": {"a": "(eval, ...)"}, "value": {"a": 1}}, "the type '.eval, ....' is none"),
        ({"class": "X", "mapping": {"a": "(int, Ellipsis)"}, "value": {"a": "b"}}, "the message '1'.*fit its model"),
    ],
)
def test_content_that_cannot_be_built_is_told_and_leaves_no_session(
    store: perdure.AgentStore, form: Any, content: Any, says: str
) -> None:
    message = form["env"]["roles"]["Speaker"]["latest_observed_msg"]
    message["instruct_content"] = content
    with pytest.raises(TeamFileError, match=says):
        gone_on(store, form)
    assert find(store.backend, "team") is None
    message["instruct_content"] = None
    assert gone_on(store, form).env.published[-1].content == "spoken"


def test_an_action_that_is_not_known_leaves_no_session(store: perdure.AgentStore, form: Any) -> None:
    form["env"]["roles"]["Speaker"]["actions"][0]["__module_class_name"] = "subprocess.Popen"
    with pytest.raises(ClassUnknownError, match=r"subprocess\.Popen"):
        gone_on(store, form)
    assert find(store.backend, "team") is None


def test_a_message_that_was_changed_for_one_role_alone_is_refused(store: perdure.AgentStore, form: Any) -> None:
    role = form["env"]["roles"]["Speaker"]
    role["rc"]["working_memory"] = {"storage": [{**role["latest_observed_msg"], "content": "stop"}]}
    with pytest.raises(TeamFileError, match="the message '1' is not the same in all places"):
        gone_on(store, form)
    assert find(store.backend, "team") is None
