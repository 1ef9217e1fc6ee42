"""Case 16: the messages were restored, the folder of the run was not; resumed actions looked for its files elsewhere.

Right: the folder is part of the state; what is missing in it is told before the first action.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
import perdure.team
from perdure.team import Action, Role, RoleReactMode, Team, UserRequirement, workspace, write_file
from tests.crash.process import Child, Talk

told: list[Callable[[], None]] = []
began: list[str] = []


class WriteDocument(Action):
    async def run(self, history: list[Any]) -> str:
        began.append("write")
        await write_file("docs/document.md", history[-1].content)
        return "written"


class ReadDocument(Action):
    async def run(self, history: list[Any]) -> str:
        began.append("read")
        for tell in told:
            tell()
        return (workspace() / "docs/document.md").read_text()


class Clerk(Role):
    profile: str = "Clerk"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([WriteDocument, ReadDocument])
        self._watch([UserRequirement])
        self._set_react_mode(RoleReactMode.BY_ORDER)


@perdure.team.agent
def clerk() -> Team:
    return Team(roles=[Clerk()])


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a run in the folder a that was killed after it had written its document; this process is in b."""
    for name in "ab":
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "a")

    def work(talk: Talk) -> None:
        def here() -> None:
            talk.say("here")
            talk.hear()

        told.append(here)
        perdure.open(tmp_path / "agents.db").run(clerk, "s", input="rivers")

    with Child(work) as child:
        assert child.hear() == "here"
        child.kill()
    monkeypatch.chdir(tmp_path / "b")
    began.clear()
    return tmp_path / "agents.db"


def test_from_another_folder_it_finds_what_it_wrote(url: Path, tmp_path: Path) -> None:
    with perdure.open(url) as store:
        assert store.resume("s").result == "rivers"
        assert store.state_at("s")["team"]["workspace"] == str(tmp_path / "a/workspace")
    assert began == ["read"]
    assert list((tmp_path / "b").iterdir()) == []


def test_a_root_that_was_moved_is_the_one_from_then_on(url: Path, tmp_path: Path) -> None:
    (tmp_path / "a").rename(tmp_path / "c")

    def moved(_state: Any) -> Team:
        team = clerk.hire({})
        team.move(tmp_path / "c/workspace")
        return team

    with perdure.open(url) as store:
        assert store.run(perdure.team.steps.declared(moved, clerk), "s").result == "rivers"
        assert store.state_at("s")["team"]["workspace"] == str(tmp_path / "c/workspace")
    assert began == ["read"]


def test_a_file_that_was_deleted_is_told_before_the_first_action(
    url: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a/workspace/docs/document.md").unlink()
    when: list[int] = []
    caplog.handler.addFilter(lambda _: bool(when.append(len(began))) or True)
    with perdure.open(url) as store, caplog.at_level(logging.WARNING):
        outcome = store.resume("s")
    assert (outcome.status, type(outcome.error)) == ("failed", FileNotFoundError)
    assert "docs/document.md (missing)" in caplog.text
    assert when[0] == 0
