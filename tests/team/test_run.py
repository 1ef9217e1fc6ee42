"""A team runs, is cut off, and goes on: only what was unfinished runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import BudgetError, InputDiffersError, RefusedError
from perdure.recovery import FailurePolicy
from perdure.team import Action, Message, Role, RoleReactMode, Team, UserRequirement
from perdure.team.scene import scene

ran: Counter[str] = Counter()
broken: set[str] = set()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    ran.clear()
    broken.clear()
    yield
    broken.clear()


class Counted(Action):
    """Counts its runs, and fails while it is broken."""

    async def run(self, history: list[Message]) -> str:
        ran[self.name] += 1
        if self.name in broken:
            raise RuntimeError(f"{self.name} is broken")
        return f"{self.name} of {history[-1].content}"


class Draft(Counted):
    pass


class Outline(Counted):
    pass


class Write(Counted):
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

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([Outline, Write])
        self._watch([Draft])
        self._set_react_mode(RoleReactMode.BY_ORDER)


def team(folder: Path, **options: Any) -> Team:
    made = Team(roles=[Collector(), Writer()], workspace=folder, **options)
    made.run_project("rivers")
    return made


def play(made: Team, n_round: int = 5) -> list[str]:
    history = asyncio.run(made.run(n_round=n_round))
    return history.strip().splitlines()


SAID = ["Human: rivers", "Collector: Draft of rivers", "Writer: Write of Outline of Draft of rivers"]


def test_a_team_plays_until_nobody_has_anything_to_do(tmp_path: Path) -> None:
    made = team(tmp_path)
    assert play(made) == SAID
    assert made.outcome is not None
    assert made.outcome.status == "completed"
    assert ran == {"Draft": 1, "Outline": 1, "Write": 1}


def test_a_finished_team_tells_the_same_again(tmp_path: Path) -> None:
    play(team(tmp_path))
    assert play(team(tmp_path)) == SAID
    assert ran == {"Draft": 1, "Outline": 1, "Write": 1}


@pytest.mark.parametrize("name", ["Draft", "Outline", "Write"])
def test_after_an_error_only_the_action_that_failed_runs_again(tmp_path: Path, name: str) -> None:
    broken.add(name)
    with pytest.raises(RuntimeError, match=f"{name} is broken"):
        play(team(tmp_path))
    broken.clear()
    assert play(team(tmp_path)) == SAID
    assert ran == Counter({"Draft": 1, "Outline": 1, "Write": 1}) + Counter([name])


def test_the_scene_of_an_error_is_what_its_log_says(tmp_path: Path) -> None:
    broken.add("Write")
    with pytest.raises(RuntimeError):
        play(team(tmp_path))
    with perdure.open(str(tmp_path / "storage" / "team" / "agents.db")) as store:
        found = asyncio.run(scene(store.backend, "team", lambda _state: team(tmp_path)))
    writer, collector = found.team.env.roles["Writer"], found.team.env.roles["Collector"]
    assert (writer.rc.state, collector.rc.state) == (1, -1)
    assert list(found.cut_off) == ["Writer"]
    assert [m.content for m in writer.get_memories()][-1] == "Outline of Draft of rivers"
    assert writer.latest_observed_msg is not None
    assert writer.latest_observed_msg.content == "Draft of rivers"
    assert ran["Write"] == 1


class Early(Role):
    """Is given messages before it is part of a session."""

    name: str = "Eve"
    profile: str = "Early"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([Write])
        self._watch([Draft])
        self.rc.memory.add(Message("seen before"))
        self.put_message(Message("hello", cause_by=Draft))


@pytest.mark.parametrize("hired", ["at once", "later"])
def test_what_is_put_into_a_role_before_its_session_is_named_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hired: str
) -> None:
    if hired == "later":
        broken.add("Draft")
        with pytest.raises(RuntimeError, match="Draft is broken"):
            play(team(tmp_path))
        broken.clear()
    early = Early()
    made = Team(roles=[Collector(), Writer(), early], workspace=tmp_path)
    made.run_project("rivers")
    assert sorted(play(made)) == sorted([*SAID, "Early: Write of Draft of rivers"])
    assert not {"seen before", "hello"} & {m.content for m in early.get_memories()}
    assert "Early begins without the messages in its memory or inbox, 2: send them" in caplog.text


def test_a_memory_that_ignores_ids_is_whole_after_a_restart(tmp_path: Path) -> None:
    def hired() -> Team:
        made = team(tmp_path)
        for role in made.env.roles.values():
            role.rc.memory.ignore_id = True
        return made

    one = hired()
    play(one, n_round=1)
    before = [m.content for m in one.env.roles["Collector"].get_memories()]
    again = hired()
    assert play(again, n_round=4) == SAID
    after = [m.content for m in again.env.roles["Collector"].get_memories()]
    assert before == ["rivers", "Draft of rivers"]
    assert after == [*before, "Write of Outline of Draft of rivers"]


class Eager(Role):
    """Acts in each round, whether anything came for it or not."""

    name: str = "Fay"
    profile: str = "Eager"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([Outline])

    @property
    def is_idle(self) -> bool:
        return False

    async def _observe(self) -> int:
        return await super()._observe() or 1


def test_the_scene_has_a_role_that_was_hired_for_the_round_that_broke_off(tmp_path: Path) -> None:
    def more() -> Team:
        return Team(roles=[Collector(), Writer(), Eager()], workspace=tmp_path)

    for name, made in (("Draft", team(tmp_path)), ("Outline", more())):
        broken.clear()
        broken.add(name)
        with pytest.raises((RuntimeError, IndexError)):
            play(made)
    with perdure.open(str(tmp_path / "storage" / "team" / "agents.db")) as store:
        found = asyncio.run(scene(store.backend, "team", lambda _state: more()))
    assert list(found.cut_off) == ["Eager"]


class PassOn(Action):
    """Sends what it received to somebody else, and twice what is new."""

    async def run(self, history: list[Message]) -> Message:
        note = Message("a note", cause_by=PassOn, send_to={"Nobody"})
        self._role.publish_message(note)
        self._role.publish_message(note.model_copy(update={"send_to": {"Eve"}}))
        return history[-1].model_copy(update={"send_to": {"Eve"}})


def member(name: str, action: type[Action], *watches: type[Action]) -> Role:
    role = Role(name=name, profile=name)
    role.set_actions([action])
    role._watch(watches)
    return role


@pytest.mark.parametrize("rounds", [10, 1])
def test_a_message_that_is_changed_and_passed_on_is_another(tmp_path: Path, rounds: int) -> None:
    def hired() -> Team:
        return Team(roles=[Collector(), member("Dan", PassOn, Draft), member("Eve", Write)], workspace=tmp_path)

    made = hired()
    made.run_project("rivers")
    play(made, n_round=rounds)
    while made.outcome is not None and made.outcome.status == "idle":
        made = hired()
        play(made, n_round=rounds)
    read = made.env.roles["Eve"].get_memories()
    to_eve = [(m.content, m.send_to) for m in read if m.send_to == {"Eve"}]
    assert to_eve == [("a note", {"Eve"}), ("Draft of rivers", {"Eve"})]
    assert len({m.id for m in read}) == len(read)


class Promote(Draft):
    """Changes a role that is not its own."""

    async def run(self, history: list[Message]) -> str:
        self._role.rc.env.roles["Writer"].desc = "the best of writers"
        return await super().run(history)


def test_what_one_role_changes_of_another_is_kept(tmp_path: Path) -> None:
    writer = Writer()
    writer._watch([Promote])
    made = Team(roles=[member("Ana", Promote, UserRequirement), writer], workspace=tmp_path)
    made.run_project("rivers")
    assert play(made)[1:] == ["Ana: Promote of rivers", "Writer: Write of Outline of Promote of rivers"]
    with perdure.open(str(tmp_path / "storage" / "team" / "agents.db")) as store:
        assert store.state_at("team")["roles"]["Writer"]["fields"]["desc"] == "the best of writers"


def test_another_idea_is_refused(tmp_path: Path) -> None:
    play(team(tmp_path), n_round=1)
    other = team(tmp_path)
    other.run_project("mountains")
    with pytest.raises(InputDiffersError, match="rivers"):
        play(other)
    assert play(team(tmp_path)) == SAID
    with pytest.raises(InputDiffersError, match="rivers"):
        play(other)


def test_a_team_without_rounds_goes_on_when_it_gets_more(tmp_path: Path) -> None:
    assert play(team(tmp_path), n_round=1) == SAID[:2]
    assert play(team(tmp_path), n_round=4) == SAID


def test_a_team_without_money_says_so(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="0 of 0 USD"):
        play(team(tmp_path, investment=0.0))
    assert not ran


def test_two_roles_of_one_profile_are_refused() -> None:
    with pytest.raises(RefusedError, match="Writer"):
        Team(roles=[Writer(), Writer(name="Eve")])


class Fetch(Action):
    """Fails unless it is to be careful, and tells how it was told to try."""

    async def run(self, history: list[Message]) -> str:
        ran[f"Fetch {self.strategy}"] += 1
        if self.strategy != "careful":
            raise ConnectionError("no network")
        return f"fetched {self.strategy}ly for {history[-1].content}"


class Fetcher(Role):
    profile: str = "Fetcher"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([Fetch])
        self._watch([Draft])


def test_what_fails_again_and_again_is_tried_another_way(tmp_path: Path) -> None:
    policy = FailurePolicy(strategies=("fast", "careful"), after=2, retries=0)
    made = team(tmp_path, failures=policy)
    made.hire([Fetcher()])
    assert "Fetcher: fetched carefully for Draft of rivers" in play(made)
    assert (ran["Fetch fast"], ran["Fetch careful"]) == (2, 1)
    assert ran["Draft"] == 1, "the round before is not played again"
