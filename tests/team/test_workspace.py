"""A team's folder: the same one from wherever the team is resumed, what was written there, and one team at a time."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import HeldError, RefusedError
from perdure.team import Action, Message, Role, RoleReactMode, Team, UserRequirement, workspace, write_file
from perdure.team.workplace import Lock, _inside, _write, astray

broken: set[str] = set()
ran: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()
    broken.clear()


class Note(Action):
    """Writes what it hears, then fails while it is broken."""

    async def run(self, history: list[Message]) -> Message:
        ran.append(self.name)
        await write_file("notes/first.md", history[-1].content)
        await write_file("notes/second.md", "two")
        if "Note" in broken:
            raise RuntimeError("broken")
        return Message(content="noted", cause_by=Note)


class Read(Action):
    async def run(self, history: list[Message]) -> Message:
        ran.append(self.name)
        if "Read" in broken:
            raise RuntimeError("broken")
        return Message(content=(workspace() / "notes/first.md").read_text(), cause_by=Read)


class Clerk(Role):
    profile: str = "Clerk"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.set_actions([Note, Read])
        self._watch([UserRequirement])
        self._set_react_mode(RoleReactMode.BY_ORDER)


def play(store: perdure.AgentStore, *, session: str = "t", idea: str = "rivers", **options: Any) -> Team:
    made = Team(roles=[Clerk()], store=store, session=session, **options)
    made.run_project(idea)
    asyncio.run(made.run())
    return made


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with perdure.open(str(tmp_path / "agents.db")) as opened:
        yield opened


def cut(store: perdure.AgentStore, at: str, **options: Any) -> None:
    broken.add(at)
    with pytest.raises(RuntimeError, match="broken"):
        play(store, **options)
    broken.clear()


def test_what_is_written_is_recorded_with_its_digest(store: perdure.AgentStore, tmp_path: Path) -> None:
    play(store, workspace=tmp_path / "w")
    state = store.state_at("t")
    assert (tmp_path / "w/notes/first.md").read_text() == "rivers"
    assert list(state["files"]) == ["notes/first.md", "notes/second.md"]
    assert state["files"]["notes/second.md"]["size"] == 3
    assert astray(tmp_path / "w", state["files"]) == []
    (tmp_path / "w/notes/second.md").write_text("too")
    assert [(a.path, a.what) for a in astray(tmp_path / "w", state["files"])] == [("notes/second.md", "changed")]


@pytest.mark.parametrize("code", [None, "w"])
def test_resumed_from_another_folder_it_works_in_the_same_one(
    store: perdure.AgentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str | None
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    cut(store, "Read", workspace=code)
    monkeypatch.chdir(tmp_path / "b")
    made = play(store, workspace=code)
    assert made.workspace == tmp_path / "a" / (code or "workspace")
    assert list((tmp_path / "b").iterdir()) == []
    assert ran == ["Note", "Read", "Read"]


@pytest.mark.parametrize("at", ["Note", "Read"])
def test_another_folder_given_on_resume_is_the_one_from_then_on(
    store: perdure.AgentStore, tmp_path: Path, caplog: pytest.LogCaptureFixture, at: str
) -> None:
    cut(store, at, workspace=tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    cut(store, "Read", workspace=tmp_path / "b")
    assert caplog.records == []
    made = play(store)  # what is recorded holds, though the round has not ended yet
    assert made.workspace == tmp_path / "b"
    assert store.state_at("t")["team"]["workspace"] == str(tmp_path / "b")
    assert not (tmp_path / "a").exists()


def test_the_folder_can_be_moved_by_hand_and_stays_there(store: perdure.AgentStore, tmp_path: Path) -> None:
    cut(store, "Read", workspace=tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    made = Team(roles=[Clerk()], store=store, session="t", workspace=tmp_path / "a")
    made.move(tmp_path / "b")
    broken.add("Read")
    with pytest.raises(RuntimeError, match="broken"):
        asyncio.run(made.run())
    broken.clear()
    assert play(store, workspace=tmp_path / "a").workspace == tmp_path / "b"


@pytest.mark.parametrize("cut_at", ["Note", "Read"])
def test_what_is_missing_or_changed_is_told_before_anything_runs(
    store: perdure.AgentStore, tmp_path: Path, caplog: pytest.LogCaptureFixture, cut_at: str
) -> None:
    cut(store, cut_at, workspace=tmp_path / "w")
    (tmp_path / "w/notes/first.md").unlink()
    (tmp_path / "w/notes/second.md").write_text("other")
    before = len(ran)
    told: list[int] = []
    handler = logging.Handler()
    handler.emit = lambda _record: told.append(len(ran))  # type: ignore[method-assign]
    logging.getLogger("perdure.team").addHandler(handler)
    try:
        with pytest.raises(FileNotFoundError):
            play(store, workspace=tmp_path / "w")
    finally:
        logging.getLogger("perdure.team").removeHandler(handler)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"t: of the 2 files that the team wrote to {tmp_path / 'w'}, 2 are not as it left them: "
        "notes/first.md (missing), notes/second.md (changed)"
    )
    assert told == [before]


def test_a_file_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    for wrong in ("/etc/x", "../x", "a/../../x", "", ".", "storage/team/team.json"):
        with pytest.raises(RefusedError):
            _inside(wrong)
    assert _inside("./a/b.md") == "a/b.md"
    (tmp_path / "out").symlink_to("/")
    with pytest.raises(RefusedError, match="by a link"):
        _write("out/x", "x", folder=tmp_path)


def test_outside_of_a_run_there_is_no_folder() -> None:
    with pytest.raises(RefusedError, match="has a workspace"):
        workspace()
    with pytest.raises(RefusedError, match="has a workspace"):
        asyncio.run(write_file("a", "b"))


def test_two_sessions_do_not_work_in_one_folder_at_a_time(store: perdure.AgentStore, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    held = Lock(tmp_path / "w", "other", store="sqlite:///x.db")
    with pytest.raises(HeldError, match=r"workspace of other \(process \d+, store sqlite:///x.db\)"):
        play(store, workspace=tmp_path / "w")
    assert ran == []
    held.close()
    play(store, workspace=tmp_path / "w")
    play(store, session="u", workspace=tmp_path / "w")
    assert ran == ["Note", "Read"] * 2


def test_the_folder_is_given_back_when_a_run_fails(store: perdure.AgentStore, tmp_path: Path) -> None:
    cut(store, "Note", workspace=tmp_path / "w")
    Lock(tmp_path / "w", "other", store="").close()


def test_a_write_that_was_cut_off_leaves_nothing_once_it_is_done_again(tmp_path: Path) -> None:
    for _ in range(2):
        child = os.fork()
        if child == 0:
            os.rename = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
            _write.__wrapped__("a/note.md", "text", folder=tmp_path)  # type: ignore[attr-defined]
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert [path.suffix for path in (tmp_path / "a").iterdir()] == [".tmp"]
    _write.__wrapped__("a/note.md", "text", folder=tmp_path)  # type: ignore[attr-defined]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["note.md"]
