"""Fields that hold models: others read what is in them, and whoever goes on from the file has the models again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

import perdure
from perdure.errors import TeamFileError
from perdure.team import Action, Message, Role, Team, file

broken = [True]


class Page(BaseModel):
    title: str = ""
    lines: int = 0


class Note(BaseModel):
    page: Page = Field(default_factory=Page)


class Read(Action):
    note: Note = Field(default_factory=Note)

    async def run(self, history: list[Message]) -> str:
        self.i_context = Page(title=history[-1].content, lines=1)
        self.note = Note(page=Page(title="noted"))
        return "read"


class Tell(Action):
    async def run(self, history: list[Message]) -> str:
        if broken[0]:
            raise RuntimeError("Tell is broken")
        role, read = self._role, self._role.actions[0]
        return f"{role.page!r} {role.seen} {role.any!r} {role.last.content} {read.note!r} {read.i_context!r}"


class Reader(Role):
    page: Page | None = None
    seen: set[str] = Field(default_factory=set)
    any: Any = None
    last: Message | None = None

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([Read, Tell])
        self._set_react_mode("by_order")

    async def _act(self) -> Message:
        said = await super()._act()
        if said.content == "read":
            self.page, self.seen, self.any = Page(title="read", lines=2), {"a"}, Note()
            self.last = self.rc.history[0]
        return said


PAGE, SEEN, ANY = "Page(title='read', lines=2)", "{'a'}", "Note(page=Page(title='', lines=0))"
REST = "go Note(page=Page(title='noted', lines=0)) "
READ = "Page(title='go', lines=1)"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The file of a team of which the second action failed."""
    broken[0] = True
    with perdure.open(str(tmp_path / "agents.db")) as store:
        team = Team(roles=[Reader(name="R", profile="R")], store=store, workspace="w")
        team.run_project("go")
        with pytest.raises(RuntimeError, match="Tell is broken"):
            asyncio.run(team.run())
    broken[0] = False
    return Path("w/storage/team/team.json")


def went_on(where: Path) -> str:
    with perdure.open("memory:") as store:
        team = Team.deserialize(where, roles=[Reader(name="R", profile="R")], store=store)
        asyncio.run(team.run())
        return team.env.published[-1].content


def test_others_read_what_is_in_a_model(written: Path) -> None:
    role = json.loads(written.read_bytes())["env"]["roles"]["R"]
    assert (role["page"], role["any"]) == ({"title": "read", "lines": 2}, {"page": {"title": "", "lines": 0}})
    assert (role["last"]["content"], role["last"]["send_to"]) == ("go", ["<all>"])
    read = role["actions"][0]
    assert (read["note"], read["i_context"]) == ({"page": {"title": "noted", "lines": 0}}, {"title": "go", "lines": 1})
    assert "seen" not in role, "JSON has no sets"
    assert went_on(written) == f"{PAGE} {SEEN} {ANY} {REST}{READ}"


def edited(written: Path, change: Any) -> Path:
    told = json.loads(written.read_bytes())
    change(told, told["env"]["roles"]["R"])
    written.write_text(json.dumps(told))
    return written


def test_what_was_not_edited_is_as_it_was_and_what_was_is_of_its_type(written: Path) -> None:
    def change(told: Any, role: Any) -> None:
        told["perdure"]["digest"] = None
        role["page"]["title"] = "edited"

    assert went_on(edited(written, change)).startswith("Page(title='edited', lines=2)")


def test_a_file_that_metagpt_has_written_again_is_read_by_types(written: Path) -> None:
    def change(told: Any, role: Any) -> None:
        del told["perdure"]
        role["seen"] = ["a"]

    plain = "{'page': {'title': '', 'lines': 0}}", "{'title': 'go', 'lines': 1}"
    assert went_on(edited(written, change)) == f"{PAGE} {SEEN} {plain[0]} {REST}{plain[1]}"


def test_what_is_not_of_its_type_is_refused_by_name(written: Path) -> None:
    def change(told: Any, role: Any) -> None:
        del told["perdure"]
        role["page"]["lines"] = "many"

    with pytest.raises(TeamFileError, match=r"the field 'page.*lines' of Reader does not fit.*Nothing was taken"):
        went_on(edited(written, change))
    assert file.read(written).env.roles["R"].more["page"]["lines"] == "many", "it can still be looked at"
