"""A team that was killed goes on from its file alone, in another store, as it would have from its own."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults, values
from perdure.errors import ClassUnknownError, SessionExistsError, TeamFileError
from perdure.log.action import Actions
from perdure.team import Action, Message, Role, RoleReactMode, Team, UserRequirement, agent, file, filing, refiling
from perdure.team.scene import scene
from perdure.testing.inside import Reached
from perdure.testing.lives import CrashPoint, forked, points_of
from tests.crash import outside
from tests.crash.outside import happens

FULL = os.environ.get("PERDURE_STORM") == "full"
EVERY = 1 if FULL else 11
"""Every so manieth event is killed at."""

IDEA = {"idea": "rivers", "n_round": 10}


@perdure.action(effect="once", key=lambda what: what)
async def pay(what: str) -> str:
    happens(f"pay {what}")
    return what


class Paid(Action):
    async def run(self, history: list[Message]) -> str:
        await pay(f"{self.name} {history[-1].content}")
        self.i_context = f"{self.i_context}+"
        return f"{self.name} of {history[-1].content}"


class Draft(Paid):
    pass


class Outline(Paid):
    pass


class Write(Paid):
    pass


class Check(Paid):
    pass


class Collector(Role):
    name: str = "Ana"
    profile: str = "Collector"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([Draft])
        self._watch([UserRequirement])


class Writer(Role):
    name: str = "Ben"
    profile: str = "Writer"
    met: dict[str, int] = {}  # noqa: RUF012 - a field, copied for each

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([Outline, Write])
        self._watch([Draft])
        self._set_react_mode(RoleReactMode.BY_ORDER)

    async def _act(self) -> Message:
        self.met[f"act {self.rc.state}"] = self.rc.taken
        return await super()._act()


class Checker(Role):
    name: str = "Eve"
    profile: str = "Checker"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([Check])
        self._watch([UserRequirement, Draft, Write])


@agent
def team() -> Team:
    return Team(roles=[Collector(), Writer(), Checker()])


def hire(_state: Any) -> Team:
    return Team(roles=[Collector(), Writer(), Checker()])


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(outside, "FILE", tmp_path / "world.txt")


def play(store: Path, kill: CrashPoint | None = None) -> bytes:
    """Runs the team in a process of its own to its end, or to where it is killed: what it came to."""

    def life() -> bytes:
        reached = Reached(kill)
        faults.hook = reached
        with perdure.open(str(store)) as opened:
            outcome = opened.run(team, "team", **({} if _is_there(opened) else {"input": IDEA}))
            while outcome.status == "waiting":
                settle(opened)
                outcome = opened.run(team, "team")
            return values.encode({"told": told(opened), "status": outcome.status, "reached": reached.names})

    return forked(life)[0]


def _is_there(store: perdure.AgentStore) -> bool:
    return any(info.id == "team" for info in store.sessions())


def settle(store: perdure.AgentStore) -> None:
    """Says of each effect in doubt what really happened."""
    done = Counter(outside.seen())
    for question in store.questions("team"):
        action = Actions(store.log("team"))[question.seq]
        what = values.decode(action.args["what"])
        how = "done" if done[f"pay {what}"] else "not-done"
        store.settle("team", question.seq, how, result=what if how == "done" else None, by="the test")


def told(store: perdure.AgentStore) -> dict[str, Any]:
    """What a team came to, but for what is of this session alone."""
    state = store.state_at("team")
    state["team"] = {name: value for name, value in state["team"].items() if name != "seed"}
    contents = [(m["content"], m["role"], m["cause_by"]) for m in state["messages"]]
    return {**state, "messages": contents}


def has_begun(store: Path) -> bool:
    """Whether there is a team in it yet."""
    with perdure.open(str(store)) as opened:
        return _is_there(opened) and "team" in opened.state_at("team")


def moved(store: Path, to: Path) -> bool:
    """Takes the file of the team in one store, and begins it in another. Whether that was exact; False: not begun."""
    with perdure.open(str(store)) as opened:
        written = filing.write(opened, "team", hire, to.with_suffix(".json"))
    with perdure.open(str(to)) as opened:
        return refiling.begin(opened.backend, file.read(written), hire({}), into="team", going=refiling.Going())


def edit(path: Path, old: str, new: str) -> None:
    """Changes a file by hand, and says so in it."""
    found = json.loads(path.read_text().replace(old, new))
    found["perdure"]["digest"] = None
    path.write_text(json.dumps(found))


@pytest.mark.storm
def test_killed_anywhere_it_goes_on_from_its_file_alone(tmp_path: Path) -> None:
    unharmed = values.decode(play(tmp_path / "unharmed.db"))
    effects = Counter(outside.seen())
    assert unharmed["status"] == "completed"
    assert set(effects.values()) == {1}
    begun = 0
    for number, kill in enumerate(points_of(unharmed["reached"], None)[::EVERY]):
        outside.clear()
        store, other = tmp_path / f"{number}.db", tmp_path / f"{number}-other.db"
        assert not play(store, kill), f"{kill} was never come to"
        if not has_begun(store):
            continue
        assert moved(store, other), f"{kill}: not exact"
        begun += 1
        came = values.decode(play(other))
        assert came["status"] == "completed", kill
        assert came["told"] == unharmed["told"], kill
        assert Counter(outside.seen()) == effects, kill
    assert begun > 5


def test_what_people_read_of_a_file_counts_when_they_edit_it(tmp_path: Path) -> None:
    play(tmp_path / "a.db", CrashPoint("effect.before", 9))
    moved(tmp_path / "a.db", tmp_path / "b.db")
    path = tmp_path / "b.json"
    edit(path, '"content":"rivers"', '"content":"mountains"')
    with perdure.open(str(tmp_path / "c.db")) as store:
        exact = refiling.begin(store.backend, file.read(path), hire({}), into="team", going=refiling.Going())
        assert not exact
        found = asyncio.run(scene(store.backend, "team", hire))
    assert {m.content for m in found.team.env.roles["Writer"].get_memories()} >= {"mountains"}


def test_a_file_goes_on_once_in_a_store(tmp_path: Path) -> None:
    play(tmp_path / "a.db", CrashPoint("effect.before", 9))
    moved(tmp_path / "a.db", tmp_path / "b.db")
    with perdure.open(str(tmp_path / "b.db")) as store, pytest.raises(SessionExistsError, match="team"):
        refiling.begin(store.backend, file.read(tmp_path / "b.json"), hire({}), into="team", going=refiling.Going())


def test_a_role_that_is_not_hired_is_named(tmp_path: Path) -> None:
    play(tmp_path / "a.db", CrashPoint("effect.before", 9))
    moved(tmp_path / "a.db", tmp_path / "b.db")
    edit(tmp_path / "b.json", '"goal":""', '"goal":"another"')
    read = file.read(tmp_path / "b.json")
    fewer = Team(roles=[Collector(), Checker()])
    with perdure.open(str(tmp_path / "c.db")) as store:
        with pytest.raises(TeamFileError, match="Writer"):
            refiling.begin(store.backend, read, fewer, into="team", going=refiling.Going())
        assert not list(store.sessions())


def test_without_code_of_its_own_it_goes_on_by_the_classes_of_the_file(tmp_path: Path) -> None:
    unharmed = values.decode(play(tmp_path / "unharmed.db"))
    outside.clear()
    play(tmp_path / "a.db", CrashPoint("effect.before", 9))
    moved(tmp_path / "a.db", tmp_path / "b.db")

    async def go_on() -> Team:
        made = Team.deserialize(tmp_path / "b.json", store=str(tmp_path / "c.db"))
        await made.run()
        return made

    made = asyncio.run(go_on())
    with perdure.open(str(tmp_path / "c.db")) as store:
        assert told(store) == unharmed["told"]
    assert [m.content for m in made.env.published] == [
        unharmed["told"]["messages"][n][0] for n in made_numbers(tmp_path)
    ]


def made_numbers(folder: Path) -> list[int]:
    with perdure.open(str(folder / "c.db")) as store:
        return list(store.state_at("team")["history"])


def test_a_class_that_is_not_known_is_named_and_nothing_is_begun(tmp_path: Path) -> None:
    play(tmp_path / "a.db", CrashPoint("effect.before", 9))
    moved(tmp_path / "a.db", tmp_path / "b.db")
    path = tmp_path / "b.json"
    edit(path, "test_file_alone.Writer", "elsewhere.Gone")
    assert "elsewhere.Gone" in " ".join(file.read(path).unknown_classes())
    with pytest.raises(ClassUnknownError, match=r"elsewhere\.Gone"):
        Team.deserialize(path, store=str(tmp_path / "c.db"))


def test_a_run_leaves_the_file_in_the_workspace(tmp_path: Path) -> None:
    made = Team(roles=[Collector()], workspace=tmp_path / "w")
    made.run_project("rivers")
    asyncio.run(made.run())
    read = file.read(tmp_path / "w")
    assert read.idea == "rivers"
    assert "Draft of rivers" in read.env.history
