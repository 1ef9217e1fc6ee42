"""An autonomous agent from the command line: real processes that are killed, stopped, answered, given more."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import perdure
from perdure.cli import asking, main
from tests.autonomous.playing import call, judged, plan, says, task

GOAL = "Write a greeting"
ID = "write-a-greeting"
TOOLS = ("write_file", "append_file", "run_shell")
GREETING = [
    plan(task("1", "write it", check="grep -q hello greeting.txt"), task("2", "sign it", needs=["1"])),
    says(call("write_file", path="greeting.txt", text="hello\n"), reply="I begin with the text.", usd=0.25),
    says(call("finish_task", result="written")),
    says(call("append_file", path="greeting.txt", text="Ada\n"), usd=0.25),
    says(call("finish_task", result="signed by Ada")),
    judged(),
]

GATED = [*GREETING[:2], says(call("gate")), *GREETING[2:4], says(call("gate")), *GREETING[4:]]
AGENT = '''
from pathlib import Path

import perdure
from perdure import autonomous
from perdure.tools import Toolbox, files, shell

HERE = Path(__file__).parent


@perdure.action(effect="repeatable")
def gate() -> str:
    """Where there is a gate, says that it is there, and waits to be let through."""
    if (HERE / "arrived").exists():
        (HERE / "arrived").write_text("x")
        (HERE / "go").read_text()
    return "open"


@autonomous.agent
def gated() -> autonomous.Agent:
    return autonomous.Agent(tools=lambda folder: Toolbox.of(files(folder), shell(folder), gate))
'''


class Place:
    """A folder with a script, in which commands run: in this process, or in one that can be sent a signal."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self._capsys = path, capsys

    def write(self, script: list[Any]) -> None:
        (self.path / "script.yaml").write_text(yaml.safe_dump(script))

    def run(self, *words: str) -> tuple[int, str, str]:
        """(exit status, stdout, stderr)."""
        with pytest.raises(SystemExit) as left:
            main(list(words))
        return int(left.value.code or 0), *self._capsys.readouterr()

    @contextmanager
    def at_gate(self, *words: str, cwd: Path | None = None) -> Iterator[subprocess.Popen[str]]:
        """A process that has come to the gate of its agent, and waits there."""
        command = [sys.executable, "-m", "perdure.cli", *words]
        with subprocess.Popen(command, cwd=cwd, text=True, stderr=subprocess.PIPE) as process:
            try:
                self.wait_at_gate(process)
                yield process
            finally:
                process.kill()

    def wait_at_gate(self, process: subprocess.Popen[str]) -> None:
        """Until it is there."""
        arrived, ended = os.open(self.path / "arrived", os.O_RDONLY | os.O_NONBLOCK), os.pidfd_open(process.pid)
        ready, _, _ = select.select([arrived, ended], [], [])
        assert arrived in ready
        os.close(arrived)
        os.close(ended)

    def show(self, session: str = ID) -> Any:
        return json.loads(self.run("show", session, "--json")[1])

    def calls(self, session: str = ID) -> list[str]:
        """The tools that were carried out to their end, in order."""
        with perdure.open("perdure.db") as store:
            return [line["action"] for line in store.journal(session) if line["action"] in TOOLS]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Place(tmp_path, capsys)


def agent(*options: str, goal: str = GOAL) -> tuple[str, ...]:
    approve = () if "--approve" in options else ("--approve", "never")
    return ("agent", goal, "--model", "script:script.yaml", *options, *approve)


# --- whole, killed, stopped -------------------------------------------------------------------------------------------


def test_a_goal_is_reached_and_the_same_line_again_prints_the_same(place: Place) -> None:
    place.write(GREETING)
    words = agent("--budget", "steps=50", "--budget", "usd=2", "--rule", "Be brief.", "--progress")
    status, out, err = place.run(*words)
    assert (status, out) == (0, "signed by Ada\n"), err
    assert (place.path / "workspace" / ID / "greeting.txt").read_text() == "hello\nAda\n"
    for line in (
        "step 0   checkpoint start (#",
        "step 1   plan: 1: write it; 2: sign it",
        "step 1   checkpoint plan (#",
        "write_file(path='greeting.txt', text='hello\\n') done in",
        "I begin with the text.",
        "task 1 is done: written",
        "task 2 is done: signed by Ada",
        f"{ID}: 2 of 2 tasks done, 6 of 50 steps, ",
        "0.5 of 2 usd, ",
    ):
        assert line in err
    before = place.show()
    assert place.run(*(word for word in words if word != "--progress"))[:2] == (0, "signed by Ada\n")
    assert place.show()["records"] == before["records"]
    told = before["agent"]
    assert (told["goal"], told["model"], told["milestones"]) == (GOAL, "script:script.yaml", ["plan"])
    assert [(one["id"], one["status"], one["result"]) for one in told["tasks"]] == [
        ("1", "done", "written"),
        ("2", "done", "signed by Ada"),
    ]
    assert (told["budget"], told["spent"]["usd"]) == ({"steps": 50, "usd": 2}, 0.5)
    assert (before["files"]["folder"], before["files"]["count"]) == (str(place.path / "workspace" / ID), 1)
    with perdure.open("perdure.db") as store:
        assert store.state_at(ID)["rules"] == ["Be brief."]


def test_killed_and_stopped_the_same_line_and_resume_go_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(GATED)
    (place.path / "gated.py").write_text(AGENT)
    (place.path / "elsewhere").mkdir()
    os.mkfifo(place.path / "arrived")
    os.mkfifo(place.path / "go")
    elsewhere, store = place.path / "elsewhere", ("--store", f"{place.path}/perdure.db")
    words = agent("--agent", "gated.py:gated", *store)
    with place.at_gate(*words):
        pass  # killed there
    with place.at_gate(*words) as process:
        (place.path / "go").write_text("go")
        place.wait_at_gate(process)  # the second one
    with place.at_gate("resume", ID, *store, cwd=elsewhere) as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert "stopping at the next action or save" in process.stderr.readline()
        (place.path / "go").write_text("go")
        assert f"To go on: perdure resume {ID}" in process.stderr.read()
        assert process.wait() == 130
    assert place.calls() == ["write_file", "run_shell", "append_file"]
    monkeypatch.chdir(elsewhere)
    for name in ("arrived", "go"):
        (place.path / name).unlink()
    assert place.run("resume", ID, *store)[:2] == (0, "signed by Ada\n")
    assert (place.path / "workspace" / ID / "greeting.txt").read_text() == "hello\nAda\n"
    assert list(elsewhere.iterdir()) == []
    monkeypatch.chdir(place.path)
    assert place.calls() == ["write_file", "run_shell", "append_file"]


# --- people -----------------------------------------------------------------------------------------------------------


def test_a_person_is_asked_before_files_change_and_answers_from_another_process_or_in_place(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(GREETING)
    first = subprocess.run(
        [sys.executable, "-m", "perdure.cli", *agent("--approve", "write")], capture_output=True, check=False
    )
    assert (first.returncode, b"waits for 1 decision" in first.stdout) == (75, True), first.stderr
    (question,) = place.show()["questions"]
    assert question["prompt"].startswith('May write_file(path="greeting.txt", text="hello')
    assert place.run(*question["commands"][0].split()[1:])[0] == 0
    status, out, _ = place.run("resume", ID)
    assert status == 75  # the command that checks the task, which may do anything
    assert "grep -q hello greeting.txt" in out
    with perdure.open("perdure.db") as store:
        (asked,) = store.questions(ID)
        store.answer(ID, asked.seq, "no", by="ann")
    assert place.run("resume", ID)[0] == 75, "it goes on, and asks about the next change"
    assert place.calls() == ["write_file"]
    assert [one["rejected"] for one in place.show()["agent"]["tasks"]] == [1, 0]
    monkeypatch.setattr(asking, "is_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\n"))
    assert place.run("resume", ID)[0] == 95, "asked in place until the script has no more to say"
    assert place.calls() == ["write_file", "append_file", "run_shell"]


def test_at_a_terminal_it_is_asked_in_place_under_its_plan(place: Place) -> None:
    os.mkfifo(place.path / "go")
    place.write([*GREETING[:3], says(call("run_shell", command=f"cat {place.path}/go")), *GREETING[4:]])
    main_end, side = pty.openpty()
    command = [sys.executable, "-m", "perdure.cli", *agent("--approve", "write")]
    env = {**os.environ, "COLUMNS": "120", "LINES": "30", "TERM": "xterm"}
    told = b""
    with subprocess.Popen(command, env=env, stdin=side, stdout=side, stderr=side) as process:
        os.close(side)

        def until(wanted: bytes) -> None:
            nonlocal told
            while wanted not in told:
                told += os.read(main_end, 65536)
            told = told.partition(wanted)[2]

        until(b"checkpoint plan (#")
        for question in (b"write_file(", b'run_shell(command="grep', b'run_shell(command="cat'):
            until(b"May " + question)
            until(b"[y/n]:")
            os.write(main_end, b"y\n")
        until(b"[x] 1: write it -> written")
        until(b"[>] 2: sign it (needs 1)")
        until(b"run_shell(command='cat")
        until(b"1 of 2 tasks done, 4 of 200 steps, ")
        (place.path / "go").write_text("go")
        until(b"2 of 2 tasks done, 6 of 200 steps, ")
        until(b"signed by Ada")
        assert process.wait() == 0
    os.close(main_end)


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_out_of_its_budget_it_is_idle_and_goes_on_with_more(place: Place) -> None:
    place.write(GREETING)
    status, _, err = place.run(*agent("--budget", "steps=3", "--budget", "usd=0.3"))
    assert status == 78
    more = f"perdure send {ID} --message '{{\"steps\": 50}}'"
    assert f"{ID} is idle: 3 of 3 steps are spent. For more: {more}" in err
    assert more in place.run("show", ID)[1]
    assert json.loads(place.run("resume", ID, "--json")[1])["reason"] == "3 of 3 steps are spent"
    assert place.run("send", ID, "--message", '{"steps": 10}')[0] == 0
    status, _, err = place.run("resume", ID)
    assert (status, "0.5 of 0.3 usd are spent" in err) == (78, True)
    assert place.run("send", ID, "--message", '{"usd": 1}')[0] == 0
    assert place.run("send", ID, "Sign it as Ada.")[0] == 0
    assert place.run(*agent("--budget", "steps=3", "--budget", "usd=0.3"))[:2] == (0, "signed by Ada\n")
    assert place.show()["agent"]["budget"] == {"steps": 13, "usd": 1.3}


# --- dead ends --------------------------------------------------------------------------------------------------------


def test_a_dead_end_is_left_another_way_and_shown(place: Place) -> None:
    careful: Mapping[str, Any] = {"system": "take small steps"}
    place.write(
        [
            plan(task("1", "write it", check="grep -q hello greeting.txt")),
            says(call("write_file", path="greeting.txt", text="nonsense"), call("run_shell", command="echo mail sent")),
            says(call("give_up", reason="nobody understands it")),
            {**careful, **says(call("write_file", path="greeting.txt", text="hello"))},
            {**careful, **says(call("finish_task", result="written"))},
        ]
    )
    status, out, err = place.run(*agent("--progress"))
    assert (status, out) == (0, "written\n")
    assert "back to plan (#" in err
    assert "with its files: " in err
    assert "nobody understands it" in err
    assert "trying 'careful'" in err
    shown = place.run("show", ID)[1]
    for line in (
        "(plan), then careful, ",
        "still stands: run_shell(command='echo mail sent')",
        "files: greeting.txt (taken away)",
        "[x] 1: write it -> written",
    ):
        assert line in shown
    (rollback,) = place.show()["rollbacks"]
    assert (rollback["name"], rollback["strategy"]) == ("plan", "careful")
    assert "nobody understands it" in rollback["reason"]
    assert rollback["standing"] == ["run_shell(command='echo mail sent')"]
    assert rollback["files"]["changes"] == [{"path": "greeting.txt", "what": "delete"}]


# --- a folder that is somewhere else ----------------------------------------------------------------------------------


def test_a_folder_that_was_moved_is_named_once(place: Place) -> None:
    place.write(GREETING)
    assert place.run(*agent("--budget", "steps=3"))[0] == 78
    (place.path / "workspace" / ID).rename(place.path / "moved")
    assert place.run("resume", ID)[0] == 82, "it is not there, and none is made in its place"
    assert place.run(*agent("--workspace", "moved"))[0] == 78
    assert place.run("send", ID, "--message", '{"steps": 10}')[0] == 0
    assert place.run("resume", ID)[0] == 0
    assert (place.path / "moved/greeting.txt").read_text() == "hello\nAda\n"
    assert not (place.path / "workspace" / ID).exists()


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "status", "says_"),
    [
        (("Go",), 63, "--model openai:gpt-5 (any of pydantic-ai's; the key is in OPENAI_API_KEY), --model script:FILE"),
        (("Go", "--model", "openai:x@https://ana:secret@example.org"), 63, "give the key as PERDURE_MODEL_KEY"),
        (("Go", "--model", "script:none.yaml"), 95, "the script"),
        ((" ", "--model", "test"), 63, "an agent begins with a goal"),
        (("Go", "--model", "test", "--budget", "usd"), 2, "write it as UNIT=N, like usd=1.5"),
        (("Go", "--model", "test", "--budget", "euro=1"), 63, "its units are steps, seconds, tokens, usd"),
        (("Go", "--model", "test", "--budget", "usd=nan"), 63, "it is a number from 0 on"),
        (("Go", "--model", "test", "--approve", "always"), 63, "it is one of once, write, never"),
        (("Go", "--model", "test", "--window", "10"), 2, "2000"),
        (("Go", "--model", "test", "--agent", "other.py:plain"), 80, "is no agent: declare a function"),
        (("Go", "--model", "test", "--allow", "http://example.org/x"), 63, "it is the name of a host"),
    ],
)
def test_what_cannot_be_run_is_told(place: Place, words: tuple[str, ...], status: int, says_: str) -> None:
    (place.path / "other.py").write_text("def plain(s): ...")
    found, _, err = place.run("agent", *words)
    err = " ".join(err.replace("│", " ").split())
    assert says_ in err
    assert found == status
    assert "secret@" not in err
    with perdure.open("perdure.db") as store:
        assert store.sessions() == [], "and nothing of it is recorded"


def test_another_goal_model_or_limit_is_refused_with_the_command_that_helps(place: Place) -> None:
    place.write(GREETING)
    (place.path / "other.yaml").write_text("[]")
    first = agent("--budget", "steps=1", "--rule", "Be brief.")
    assert place.run(*first)[0] == 78
    for words, says_ in (
        (agent("--budget", "steps=2"), f"perdure send {ID} --message '{{\"usd\": 1}}'"),
        (agent("--rule", "Be long."), f'perdure send {ID} --message \'{{"rule": "TEXT"}}\''),
        (("agent", GOAL, "--model", "script:other.yaml"), f"perdure state {ID} --set 'agent.model="),
        (agent("--approve", "once"), "was started with 'never', not with approve 'once'; give another session (--id)"),
        (agent("--id", ID, goal="Stop"), "not with goal 'Stop'"),
    ):
        status, _, err = place.run(*words)
        assert says_ in err
        assert status == 45
    assert place.run("agent", GOAL)[0] == 78, "what is not said is as it was"


def test_another_model_by_hand_is_asked_from_then_on(place: Place) -> None:
    place.write(GREETING[:2])
    (place.path / "rest.yaml").write_text(yaml.safe_dump(GREETING[2:]))
    assert place.run(*agent())[0] == 95
    assert place.run("state", ID, "--set", f'agent.model="script:{place.path}/rest.yaml"')[0] == 0
    assert place.run("resume", ID, "--accept-change")[0] == 0
    assert (place.path / "workspace" / ID / "greeting.txt").read_text() == "hello\nAda\n"
