"""A team from the command line: real processes that are killed, answered, given more, kept apart."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import perdure
from tests.elsewhere import commanded

ROOT = Path(__file__).resolve().parents[2]
SOFTWARE, RESEARCH = (f"{ROOT}/examples/{name}_team.py:team" for name in ("software", "research"))
IDEA = "Count the words of a text"

TEAM = '''
from pathlib import Path

import perdure
import perdure.team
from perdure.team import Action, Message, Role, Team, UserRequirement, write_file

HERE = Path(__file__).parent


@perdure.action(effect="repeatable")
async def gate():
    """Where there is a gate, says that it is there, and waits to be let through."""
    if (HERE / "arrived").exists():
        (HERE / "arrived").write_text("x")
        (HERE / "go").read_text()


class Outline(Action):
    async def run(self, history):
        await gate()
        await write_file("outline.md", history[-1].content)
        return "outlined"


class Choose(Action):
    async def run(self, history):
        return await self._aask("Which title?")


class Print(Action):
    async def run(self, history):
        await write_file("title.md", history[-1].content)
        print("printed")
        return f"printed: {history[-1].content}"


class Asking(Action):
    async def run(self, history):
        return await self._aask("how?")


class Member(Role):
    def __init__(self, action=None, watch=None, **fields):
        super().__init__(**fields)
        if action is not None:
            self.set_actions([action])
            self._watch([watch])


@perdure.team.agent
def paper():
    return Team(roles=[
        Member(Outline, UserRequirement, profile="Author"),
        Member(Choose, Outline, profile="Editor", is_human=True),
        Member(Print, Choose, profile="Printer"),
    ])


@perdure.team.agent
def alone():
    return Team(roles=[Member(Outline, UserRequirement, profile="Author")], workspace="shared")


@perdure.team.agent
def asking():
    return Team(roles=[Member(Asking, UserRequirement, profile="A"), Member(Asking, Asking, profile="B")])
'''


class Place:
    """A folder with the code of a team, in which commands run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "teams.py").write_text(TEAM)

    def start(self, *words: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "perdure.cli", *words]
        env = {**os.environ, "PERDURE_STORE": str(self.path / "perdure.db"), "COLUMNS": "150"}
        return subprocess.Popen(
            command, cwd=cwd or self.path, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def run(self, *words: str, cwd: Path | None = None) -> tuple[int, str, str]:
        """(exit status, stdout, stderr)."""
        environment = {"PERDURE_STORE": str(self.path / "perdure.db"), "COLUMNS": "150"}
        return commanded(*words, folder=cwd or self.path, **environment)

    def show(self, session: str) -> Any:
        return json.loads(self.run("team", "show", session, "--json")[1])

    @contextmanager
    def at_gate(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A run that has come to its gate, and waits there until it is killed or the block ends."""
        os.mkfifo(self.path / "arrived")
        os.mkfifo(self.path / "go")
        with self.start(*words) as process:
            arrived, ended = os.open(self.path / "arrived", os.O_RDONLY | os.O_NONBLOCK), os.pidfd_open(process.pid)
            try:
                ready, _, _ = select.select([arrived, ended], [], [])
                assert arrived in ready
                yield process
            finally:
                os.close(arrived)
                os.close(ended)
                process.kill()
                (self.path / "arrived").unlink()
                (self.path / "go").unlink()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def made_in(folder: Path) -> dict[str, bytes]:
    """What a team has made in its workspace: what it keeps for itself left out."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.relative_to(folder).parts[:2] != ("storage", "team")
    }


def said(store: Path, session: str) -> list[tuple[str, str]]:
    with perdure.open(str(store)) as opened:
        return [(each["cause_by"], each["content"]) for each in opened.state_at(session)["messages"]]


# --- the examples -----------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_the_software_team_killed_three_times_makes_what_it_makes_uncut(place: Place, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    run = ("run", SOFTWARE, "--session", "uncut", "--input", json.dumps({"idea": IDEA, "workspace": "uncut"}))
    status, out, _ = place.run(*run)
    assert (status, out) == (0, "The tests pass: 4 passed\n")
    words = ["team", "run", IDEA, "--id", "cut", "--team", SOFTWARE, "--progress"]
    for line in ("WriteDesign done", "RunTests …", "RunTests …"):
        with place.start(*words, cwd=tmp_path / "elsewhere" if words[0] == "resume" else tmp_path) as process:
            assert process.stderr is not None
            assert any(line in told for told in process.stderr), line
            process.kill()
        assert process.returncode == -signal.SIGKILL
        words = ["resume", "cut", "--progress"]
    status, out, err = place.run("resume", "cut", "--progress", cwd=tmp_path / "elsewhere")
    assert (status, out, "cannot be told" in err) == (0, "The tests pass: 4 passed\n", False)
    assert [(role["published"], role["doing"]) for role in place.show("cut")["roles"]] == [
        (n, None) for n in (1, 1, 2, 3)
    ]
    assert made_in(tmp_path / "workspace/cut") == made_in(tmp_path / "uncut")
    assert sorted(made_in(tmp_path / "uncut")) == [
        "docs/design.md",
        "docs/requirements.md",
        "tests/test_wordcount.py",
        "wordcount.py",
    ]
    assert said(tmp_path / "perdure.db", "cut") == said(tmp_path / "perdure.db", "uncut")
    with perdure.open(str(tmp_path / "perdure.db")) as store:
        states = [store.state_at(each, parts=["team"])["team"] for each in ("cut", "uncut")]
        assert states[0]["spent"] == states[1]["spent"]
        assert states[0]["round"] == states[1]["round"] == 7
        tests = [line["result"]["$tuple"][0] for line in store.journal("cut") if line["action"] == "run_pytest"]
    assert tests == [False, True]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_research_team_asks_back_and_reports(place: Place, tmp_path: Path) -> None:
    status, out, err = place.run("team", "run", "How high?", "--team", RESEARCH, "--json")
    told = json.loads(out)
    assert (status, told["session"], told["status"]) == (0, "how-high", "completed")
    assert told["result"] == (tmp_path / "workspace/how-high/report.md").read_text()
    assert "No --model was given: the replies are those in research_team.yaml" in err
    found = place.show("how-high")
    published = {role["profile"]: role["published"] for role in found["roles"]}
    assert published == {"Tide Researcher": 1, "Storm Researcher": 1, "Record Researcher": 2, "Critic": 2, "Writer": 1}


# --- what is recorded -------------------------------------------------------------------------------------------------


def test_the_model_that_was_given_is_asked_by_whoever_resumes(place: Place, tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("[{reply: one, usd: 0.02}, {reply: two, usd: 0.03, match: how, role: B}]")
    (tmp_path / "elsewhere").mkdir()
    words = ("team", "run", "Go", "--team", "teams.py:asking", "--model", "script:replies.yaml")
    status, _, err = place.run(*words, "--investment", "0.02")
    assert status == 78
    assert "go is idle: 0.02 of 0.02 USD are spent. For more: perdure team invest go USD" in err
    assert place.show("go")["model"] == "script:replies.yaml"
    assert "perdure team invest go USD" in place.run(*words, "--investment", "0.5")[2]
    assert place.run("team", "invest", "go", "1")[0] == 0
    status, out, _ = place.run("resume", "go", cwd=tmp_path / "elsewhere")
    assert (status, out) == (0, "two\n")
    found = place.show("go")
    assert (found["spent"]["usd"], found["investment"]) == (0.05, 1.02)
    assert [role["usd"] for role in found["roles"]] == [0.02, 0.03]


def test_another_idea_model_or_limit_is_refused_with_what_to_do(place: Place) -> None:
    words = ("team", "run", "Go", "--team", "teams.py:alone", "--rounds", "1")
    assert place.run(*words)[0] == 78
    for other, says in (
        (("--rounds", "2"), "perdure team rounds go N"),
        (("--model", "test"), "is changed by hand"),
        (("--model", "openai:x@https://ana:secret@example.org"), "give the key as PERDURE_MODEL_KEY"),
    ):
        status, _, err = place.run("team", "run", "Go", "--team", "teams.py:alone", *other)
        assert (status != 0, says in err, "secret@" in err) == (True, True, False), err
    status, _, err = place.run("team", "run", "Stop", "--id", "go", "--team", "teams.py:alone")
    assert "works on 'Go', not on 'Stop'" in err
    assert place.run(*words)[0] == 78  # the same line goes on, with what it has
    assert place.run("team", "rounds", "go", "3")[0] == 0
    assert place.run("resume", "go")[0] == 0
    assert "no team" in place.run("team", "run", "Go", "--id", "x", "--team", "teams.py:gate")[2]
    with perdure.open(str(place.path / "perdure.db")) as store, store.session("plain") as s:
        s.state["x"] = 1
    for words in (("show", "plain"), ("rounds", "plain", "1")):
        status, _, err = place.run("team", *words)
        assert (status, "plain is no team" in err) == (63, True)


# --- the workspace ----------------------------------------------------------------------------------------------------


def test_two_sessions_in_one_folder_and_the_second_is_told_who_is_there(place: Place) -> None:
    words = ("run", "teams.py:alone", "--input", '"Go"', "--session")
    with place.at_gate(*words, "first") as process:
        for session, says in (("second", "is the workspace of first (process"), ("first", "first is held")):
            status, _, err = place.run(*words, session)
            assert (status, says in err) == (35, True), err
        assert str(process.pid) in place.run(*words, "second")[2]
    assert place.run("resume", "second")[0] == 0
    assert place.run("resume", "first")[0] == 0


def test_files_that_are_gone_are_told_before_anything_runs_and_a_moved_folder_is_found(
    place: Place, tmp_path: Path
) -> None:
    words = ("team", "run", "Go", "--team", "teams.py:paper")
    assert place.run(*words)[0] == 75
    (tmp_path / "workspace/go/outline.md").unlink()
    found = place.show("go")
    assert [(each["path"], each["is"]) for each in found["files"]] == [("outline.md", "missing")]
    assert "outline.md is missing" in place.run("team", "show", "go")[1]
    status, _, err = place.run("resume", "go")
    assert (status, "are not as it left them: outline.md (missing)" in err) == (75, True)
    (tmp_path / "workspace/go").rename(tmp_path / "moved")
    (tmp_path / "moved/outline.md").write_text("Go")
    status, _, err = place.run(*words, "--workspace", "moved")
    assert (status, "as it left them" in err) == (75, False)
    assert place.run("answer", "go", "Editor 2.1", "Storms")[0] == 0
    assert place.run("resume", "go")[1] == "printed\nprinted: Storms\n"
    assert sorted(made_in(tmp_path / "moved")) == ["outline.md", "title.md"]
    assert not (tmp_path / "workspace/go").exists()


# --- people and terminals ---------------------------------------------------------------------------------------------


def test_a_person_in_the_team_is_asked_and_answers_from_another_process(place: Place, tmp_path: Path) -> None:
    status, out, err = place.run("team", "run", "Go", "--team", "teams.py:paper", "--progress")
    assert (status, "Which title?" in out) == (75, True)
    assert "Editor   asks: Which title?" in err
    found = place.show("go")
    assert {role["profile"]: role["asks"] for role in found["roles"]}["Editor"] == "Which title?"
    (question,) = found["questions"]
    assert place.run("answer", "go", str(question["seq"]), "Storms")[0] == 0
    status, out, err = place.run("resume", "go", "--json")
    assert (status, json.loads(out)["result"]) == (0, "printed: Storms")
    assert "printed\n" in err
    assert (tmp_path / "workspace/go/title.md").read_text() == "Storms"
    assert [role["published"] for role in place.show("go")["roles"]] == [1, 1, 1]
    assert said(tmp_path / "perdure.db", "go").count(("teams.Outline", "outlined")) == 1


def test_on_a_terminal_each_role_has_a_line_and_ctrl_c_says_how_to_go_on(place: Place) -> None:
    main, side = pty.openpty()
    os.mkfifo(place.path / "arrived")
    os.mkfifo(place.path / "go")
    arrived = os.open(place.path / "arrived", os.O_RDONLY | os.O_NONBLOCK)
    command = [sys.executable, "-m", "perdure.cli", "team", "run", "Go", "--team", "teams.py:paper"]
    env = {**os.environ, "COLUMNS": "120", "LINES": "30", "TERM": "xterm"}
    env.pop("PERDURE_STORE", None)
    with subprocess.Popen(command, cwd=place.path, env=env, stdin=side, stdout=side, stderr=side) as process:
        os.close(side)
        told = b""

        def until(wanted: bytes) -> None:
            nonlocal told
            while wanted not in told:
                told += os.read(main, 65536)

        until(b"Outline: gate")
        process.send_signal(signal.SIGINT)
        until(b"stopping at the next action or save")
        (place.path / "go").write_text("go")
        until(b"To go on: perdure resume go")
        assert process.wait() == 130
    os.close(main)
    os.close(arrived)
    for column in (b"role", b"does", b"messages", b"Author", b"Editor", b"Printer", b"round 1 of 10"):
        assert column in told
