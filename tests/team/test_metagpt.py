"""A file that MetaGPT wrote: its team goes on where it was interrupted, and is written as it was."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import perdure
from perdure.errors import ClassUnknownError
from perdure.team import Action, ActionOutput, Message, Role, Team, file, filing, names, refiling
from perdure.team.kinds import plain
from perdure.team.names import register
from perdure.team.scene import Scene, scene

OWN = Path(__file__).parent / "data" / "team.json"
THEIRS = Path(os.environ.get("PERDURE_METAGPT") or Path(__file__).resolve().parents[3] / "shared/data/metagpt")

ran: list[tuple[str, list[str]]] = []


class DraftNotes(Action):
    async def run(self, history: list[Message]) -> ActionOutput:
        ran.append(("DraftNotes", [str(m) for m in history]))
        return ActionOutput(content="notes")


class Outline(Action):
    async def run(self, history: list[Message]) -> str:
        ran.append(("Outline", [str(m) for m in history]))
        return "outline"


class WriteReport(Action):
    async def run(self, history: list[Message]) -> str:
        ran.append(("WriteReport", [str(m) for m in history]))
        return "the report"


class Collector(Role):
    pass


class Writer(Role):
    pass


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """The classes of the file, under the names that it has for them."""
    ran.clear()
    before, given = dict(names._known), dict(names._given)
    for kind in (DraftNotes, Outline, WriteReport, Collector, Writer):
        register(kind, name=f"acts.{kind.__name__}")
    yield
    for now, was in ((names._known, before), (names._given, given)):
        now.clear()
        now.update(was)


@pytest.fixture(params=[OWN, THEIRS / "team.json"], ids=["own", "metagpt"])
def sample(request: pytest.FixtureRequest) -> Path:
    """One that ships with these tests, and one that MetaGPT 0.8.2 wrote."""
    found: Path = request.param
    if not found.exists():
        pytest.skip("the file that MetaGPT wrote is not here")
    return found


def begun(sample: Path, folder: Path) -> Team:
    return Team.deserialize(sample, store=str(folder / "agents.db"), workspace=folder / "work")


def left(team: Team, folder: Path) -> Scene:
    with perdure.open(str(folder / "agents.db")) as store:
        return asyncio.run(scene(store.backend, "team", lambda _state: team))


def said_by(sample: Path) -> str:
    """Who the file says made the outline."""
    found = file.read(sample).env.roles["Writer"].rc.memory.storage[1]["role"]
    return str(found)


def edited(sample: Path, folder: Path, old: str, new: str) -> None:
    """A copy of it in which something was changed by hand."""
    found = json.loads(sample.read_text().replace(old, new))
    if "perdure" in found:
        found["perdure"]["digest"] = None
    (folder / "team.json").write_text(json.dumps(found))


def test_it_is_where_it_was_interrupted(sample: Path, tmp_path: Path) -> None:
    roles = left(begun(sample, tmp_path), tmp_path).team.env.roles
    writer, collector = roles["Writer"], roles["Collector"]
    assert (writer.rc.state, collector.rc.state) == (1, -1)
    assert collector.is_idle
    assert writer.latest_observed_msg is not None
    assert writer.latest_observed_msg.content == "notes drafted"
    assert "notes drafted" not in [m.content for m in writer.get_memories()]


def test_only_the_interrupted_action_runs_and_the_report_is_published(sample: Path, tmp_path: Path) -> None:
    team = begun(sample, tmp_path)
    history = asyncio.run(team.run())
    assert [name for name, _ in ran] == ["WriteReport"]
    assert [said.partition(":")[0] for said in ran[0][1]] == ["Human", said_by(sample), "Ana(Collector)"]
    assert history.strip().splitlines()[-1] == "Writer: the report"
    assert asyncio.run(team.run()) == history
    assert len(ran) == 1
    assert "the report" in [m.content for m in left(team, tmp_path).team.env.roles["Collector"].get_memories()]


def test_it_is_written_as_it_was(sample: Path, tmp_path: Path) -> None:
    if sample == OWN:  # it has keys of its own that no session keeps: what a session has written takes its place
        with perdure.open(str(tmp_path / "agents.db")) as store:
            team = begun(sample, tmp_path)
            sample = filing.write(store, "team", lambda _state: team, tmp_path / "again" / "team.json")
        (tmp_path / "agents.db").unlink()
    scene_of_it = left(begun(sample, tmp_path), tmp_path)
    now = plain(filing.filed(scene_of_it, session="team", entry=""))
    before = json.loads(sample.read_text())
    before.pop("perdure", None), now.pop("perdure")
    assert set(_differences(before, now)) <= {"$.context.workdir"}


def test_messages_whose_ids_are_ignored_are_told_apart_by_what_they_say(tmp_path: Path) -> None:
    read = json.loads(OWN.read_text())
    read.pop("perdure", None)
    roles = read["env"]["roles"].values()
    held = [memory for role in roles for memory in (role["rc"]["memory"], role["rc"]["working_memory"])]
    want = {role["profile"]: [m["content"] for m in role["rc"]["memory"]["storage"]] for role in roles}
    for memory in held:
        memory["ignore_id"] = True
        for message in (*memory["storage"], *(m for under in memory["index"].values() for m in under)):
            message["id"] = "0"
    changed = tmp_path / "team.json"
    changed.write_text(json.dumps(read))
    team = left(begun(changed, tmp_path), tmp_path).team
    assert {name: [m.content for m in role.get_memories()] for name, role in team.env.roles.items()} == want
    assert all(len(set(contents)) > 1 for contents in want.values())


def _differences(before: Any, now: Any, path: str = "$") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            if before.get(key) == [] and path.endswith(".index"):
                continue  # nothing is under this name
            yield from _differences(before.get(key), now.get(key), f"{path}.{key}")
    elif path.endswith("cost_manager"):
        yield from _differences(json.loads(before), json.loads(now), f"{path}[]")
    elif path.endswith(".addresses"):
        yield from [path] if sorted(before) != sorted(now) else []
    elif before != now:
        yield path


def test_a_class_that_nobody_registered_is_named(sample: Path, tmp_path: Path) -> None:
    edited(sample, tmp_path, "acts.WriteReport", "elsewhere.WriteReport")
    read = file.read(tmp_path)
    assert read.unknown_classes() == ["elsewhere.WriteReport"]
    with pytest.raises(ClassUnknownError, match=r"elsewhere\.WriteReport.*register"):
        begun(tmp_path / "team.json", tmp_path)
    register(WriteReport, name="elsewhere.WriteReport")
    assert "the report" in asyncio.run(begun(tmp_path / "team.json", tmp_path).run())


def test_nothing_of_a_file_is_imported_or_evaluated(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setitem(sys.modules, "trap", _Trap(found))
    edited(sample, tmp_path, "acts.Writer", "trap.Writer")
    with pytest.raises(perdure.PerdureError):
        refiling.hired(file.read(tmp_path))
    assert not found


class _Trap(ModuleType):
    def __init__(self, found: list[str]) -> None:
        super().__init__("trap")
        self.__dict__["found"] = found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__["found"].append(name)
        return None
