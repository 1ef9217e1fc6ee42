"""What is told of a team while it runs, and what its log tells afterwards."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import perdure
import perdure.team
from perdure.cli.progress import Progress
from perdure.cli.team_overview import overview
from perdure.cli.team_view import TeamView
from perdure.models import ScriptedModel
from perdure.team import Action, Role, Team, UserRequirement, write_file

broken: list[str] = []
seen: list[dict[str, str]] = []
views: list[TeamView] = []


@perdure.action(effect="repeatable")
async def weigh(text: str) -> int:
    for view in views:
        view.look()
        seen.append({profile: str(doing) for profile, doing in view.doing().items()})
    if broken:
        raise RuntimeError(broken.pop())
    return len(text)


class Weigh(Action):
    async def run(self, history: list[Any]) -> str:
        said = await self._aask("how heavy?")
        await write_file("weight.txt", f"{await weigh(said)}")
        return f"{said}\nand more"


class Read(Action):
    async def run(self, history: list[Any]) -> str:
        return "read"


class Member(Role):
    def __init__(self, action: Any = None, watch: Any = None, **fields: Any) -> None:
        super().__init__(**fields)
        if action is not None:
            self.set_actions([action])
            self._watch([watch])


@perdure.team.agent
def scales() -> Team:
    roles = [Member(Weigh, UserRequirement, profile="Scales"), Member(Read, Weigh, profile="Reader")]
    return Team(roles=roles, model=ScriptedModel([{"reply": "heavy", "tokens": {"in": 7, "out": 5}, "usd": 0.25}]))


@pytest.fixture(autouse=True)
def fresh() -> None:
    broken.clear()
    seen.clear()
    views.clear()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[perdure.AgentStore]:
    monkeypatch.chdir(tmp_path)
    with perdure.open("agents.db") as opened:
        yield opened


def played(store: perdure.AgentStore, session: str = "s") -> tuple[TeamView, list[str], perdure.Outcome]:
    """A run that is looked at."""
    view = TeamView(store, session, begins=True)
    views[:] = [view]
    view.look()
    stop = store.observe(view.hear)
    outcome = store.run(scales, session, input="go")
    stop()
    view.look()
    return view, [line.split("  ", 1)[1].strip() for line in view.news()], outcome


def without_times(lines: list[str]) -> list[str]:
    return [" ".join(word for word in line.split() if not word.replace(".", "").isdigit()) for line in lines]


def test_each_action_is_told_with_its_tokens_files_and_messages(store: perdure.AgentStore) -> None:
    _, lines, outcome = played(store)
    assert outcome.status == "completed"
    assert without_times(lines) == [
        "Scales Weigh …",
        "Scales Weigh done in s, tokens, wrote weight.txt",
        "Scales to all: heavy",
        "Reader Read …",
        "Reader Read done in s",
        "Reader to all: read",
    ]
    assert "12 tokens" in lines[1]
    assert seen == [{"Scales": "Weigh: weigh"}]


def test_a_failure_is_told_and_the_next_run_goes_on_with_the_sums(store: perdure.AgentStore) -> None:
    broken.append("out of balance")
    _, lines, outcome = played(store)
    assert outcome.status == "failed"
    assert "failed" in lines[1]
    assert "out of balance" in lines[1]
    assert not overview(store, "s").doing
    view, lines, outcome = played(store)
    assert outcome.status == "completed"
    assert without_times(lines)[0] == "Scales Weigh …"
    scales = view.members["Scales"]
    assert (scales.published, scales.tokens, scales.usd) == (1, 12.0, 0.25)


def test_the_log_alone_tells_the_same(store: perdure.AgentStore) -> None:
    broken.append("once")
    played(store)
    view, _, _ = played(store)
    found = overview(store, "s")
    assert found.members == view.members
    assert list(found.files) == ["weight.txt"]
    assert found.doing == {}
    assert found.facts()["spent"] == "0.25 of 10 USD, 7 tokens in, 5 out"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork, which uses nothing that threads could hold
def test_an_action_that_a_kill_cut_off_is_shown_as_such(store: perdure.AgentStore, tmp_path: Path) -> None:
    for at in ("first", "second"):  # the second one is cut off at its second attempt
        child = os.fork()
        if not child:
            views[:] = [Killer(at)]  # type: ignore[list-item]
            with perdure.open(str(tmp_path / "agents.db")) as own:
                own.run(scales, "s", input="go")
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        found = overview(store, "s")
        assert {profile: str(doing) for profile, doing in found.doing.items()} == {"Scales": "Weigh"}
        assert found.rows()[0][2] == "Weigh (cut off)"
    assert played(store)[2].status == "completed"


class Killer:
    def __init__(self, at: str) -> None:
        self.at = at

    def look(self) -> None:
        os._exit(9)


def test_a_picture_has_a_line_for_each_role(store: perdure.AgentStore) -> None:
    view, _, _ = played(store)
    out = io.StringIO()
    Console(file=out, width=100).print(view.picture())
    rows = out.getvalue().split("\n")
    assert rows[1].split() == ["role", "does", "for", "messages", "tokens", "USD"]
    assert rows[2].split() == ["Scales", "1", "12", "0.2500"]
    assert rows[3].split() == ["Reader", "1", "0", "0.0000"]
    assert "3 of 10 rounds" in view.line()


def test_a_view_that_fails_does_not_end_the_run(store: perdure.AgentStore, capsys: pytest.CaptureFixture[str]) -> None:
    class Blind(TeamView):
        def look(self) -> None:
            if self.facts or self._heard:
                raise ZeroDivisionError("no eyes")

    with Progress(store, "s", show=True, view=Blind(store, "s")):
        assert store.run(scales, "s", input="go").status == "completed"
    assert capsys.readouterr().err.count("cannot be told any more: ZeroDivisionError: no eyes") == 1


def test_what_a_terminal_would_obey_is_shown_instead(store: perdure.AgentStore) -> None:
    async def shout() -> None:
        made = Team(
            roles=[Member(Weigh, UserRequirement, profile="Scales")],
            store=store,
            session="s",
            model=ScriptedModel(["\x1b[2Jgone"]),
        )
        made.run_project("go")
        await made.run()

    view = TeamView(store, "s")
    view.look()
    store.observe(view.hear)
    asyncio.run(shout())
    view.look()
    lines = view.news()
    assert any("gone" in line for line in lines)
    assert not any("\x1b" in line for line in lines)
