"""Each command on sessions of every kind: what it prints, what it promises as JSON, what it ends with."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.cli import main

AGENT = """
import perdure
from pathlib import Path

HERE = Path(__file__).parent


@perdure.action(effect="repeatable")
def look(at):
    return (at, b"\\x00")


@perdure.action(effect="once")
def send(to):
    with (HERE / "sent").open("a") as file:
        file.write(to + "\\n")


@perdure.agent(version="1.2")
def agent(s):
    print("the agent speaks")
    s.state.update(n=s.input, text="x" * 500)
    s.state["seen"] = look("sky")
    s.save(reason="looked")
    send("ann")
    s.checkpoint("sent")
    send("bob")
    said = s.ask("Well?", key="well", choices=["yes", 2])
    if said == 2:
        raise ValueError("two is no good")
    return said


def returning(s):
    return s.input


def failing(s):
    try:
        {}["no"]
    except KeyError as error:
        raise ValueError("boom") from error
"""

PAGE = (Path(__file__).resolve().parents[2] / "docs/cli.md").read_text()


class Cli:
    """The command line in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """(exit status, stdout, stderr)."""
        with pytest.raises(SystemExit) as left:
            main(list(words))
        out, err = self._capsys.readouterr()
        return int(left.value.code or 0), out, err

    def json(self, *words: str, status: int = 0) -> Any:
        """The document that the command prints, and nothing else."""
        found, out, _ = self(*words, "--json")
        assert found == status, out
        return json.loads(out)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    (tmp_path / "agent.py").write_text(AGENT)
    return Cli(capsys)


@pytest.fixture
def waiting(cli: Cli) -> Cli:
    """A session that has seen all kinds of things, and waits for an answer."""
    assert cli("run", "agent.py:agent", "-s", "w", "--input", "7", "--label", "team=a")[0] == 75
    return cli


# --- the shapes that are promised ------------------------------------------------------------------------------------

OPEN = {"result", "state", "body", "labels"}
"""Names under which anything may stand."""


def names(value: Any, at: str = "") -> set[str]:
    """The paths of all names in a document."""
    if isinstance(value, list):
        return {path for item in value for path in names(item, f"{at}[]")}
    if not isinstance(value, dict):
        return set()
    found = {f"{at}.{name}" for name in value}
    return found.union(*(names(item, f"{at}.{name}") for name, item in value.items() if name not in OPEN))


def promised(command: str) -> Any:
    """The example in the documentation."""
    section = PAGE.split(f"### `perdure {command}")[1].split("\n### ")[0]
    found = re.search(r"```json\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


NOT_HERE = {"inspections": [], "choices": [], "spent": {}, "agent": None, "files": None}
"""What `show` has only of runs that failed or had a price, of `perdure agent`, and where there is a workspace."""


def test_the_json_of_ls_show_log_and_state_is_as_promised(waiting: Cli) -> None:
    cli = waiting
    cli.json("rollback", "w", "sent")
    assert cli.json("resume", "w", status=75)["questions"][0]["choices"] == ["again", "reuse"]
    for command in ("ls", "show", "log", "state"):
        document = cli.json(command, *(["w"] if command != "ls" else []))
        example = promised(command)
        if command == "show":
            example |= NOT_HERE | {"rollbacks": [back | {"files": None} for back in example["rollbacks"]]}
        assert names(document) == names(example), command


def test_the_json_of_run_is_as_promised(waiting: Cli) -> None:
    failed = waiting.json("run", "agent.py:failing", "-s", "f", status=1)
    asked = waiting.json("resume", "w", status=75)
    assert names(failed) | names(asked) == names(promised("run"))
    assert set(failed) == set(asked) == set(promised("run"))


def test_the_json_of_verify_is_as_promised_and_names_the_damage(waiting: Cli) -> None:
    cli = waiting
    assert cli.json("verify")["ok"]
    status, out, _ = cli("verify", "w")
    told = out.splitlines()
    assert (status, told[0]) == (0, "w: 12 records, no fault; snapshot #8 restored (3 parts)")
    assert told[1].startswith("read 12 records and 0 chunks, ")
    assert cli("verify", "--read-data", "w")[1].endswith(": every byte\n")
    assert cli.json("verify", "w", "--read-data", "2/3")["read"]["data"] == "2/3"
    assert cli("verify", "--read-data=5/3")[0] == 2
    with closing(sqlite3.connect("perdure.db", isolation_level=None)) as db:
        db.execute("UPDATE records SET body = zeroblob(length(body)) WHERE key & 255 = 7")
    found = cli.json("verify", status=20)
    accepted = cli.json("verify", "--accept-restored", "the disk died", status=20)
    assert names(found) | names(accepted) == names(promised("verify"))
    assert 7 in [problem["seq"] for problem in found["sessions"][0]["problems"]]
    status, out, _ = cli("verify", "w")
    assert (status, out.splitlines()[-2]) == (20, "  provably good: its snapshot #8, and none that is newer")
    assert cli("log", "w")[0] == 20


def test_the_json_of_decisions_is_as_promised(waiting: Cli) -> None:
    cli = waiting
    assert set(cli.json("checkpoint", "w", "here")) == set(promised("checkpoint"))
    assert set(cli.json("answer", "w", "well", "yes")) == set(promised("answer"))
    assert set(cli.json("rollback", "w", "here")) == set(promised("rollback"))


# --- run and resume --------------------------------------------------------------------------------------------------


def test_what_an_agent_prints_does_not_spoil_the_json(cli: Cli) -> None:
    status, out, err = cli("run", "agent.py:agent", "-s", "w", "--json")
    assert (status, json.loads(out)["status"]) == (75, "waiting")
    assert "the agent speaks" in err


@pytest.mark.parametrize(
    ("given", "printed", "as_json"),
    [
        (["--input", '{"a": [1, null]}'], '{\n  "a": [\n    1,\n    null\n  ]\n}\n', {"a": [1, None]}),
        (["--input-text", "12"], "12\n", "12"),
        (["--input", "12"], "12\n", 12),
        ([], "", None),
    ],
)
def test_the_result_is_printed_and_stays(cli: Cli, given: list[str], printed: str, as_json: Any) -> None:
    assert cli("run", "agent.py:returning", "-s", "r", *given)[:2] == (0, printed)
    assert cli("resume", "r")[:2] == (0, printed)
    assert cli.json("resume", "r")["result"] == as_json


def test_a_result_that_json_does_not_hold_is_tagged(cli: Cli) -> None:
    with perdure.open("perdure.db") as store:
        store.run(lambda _: {"b": b"x", "t": (1,)}, "r")
    document = cli.json("log", "r")
    (completed,) = [r["body"] for r in document["records"] if r["kind"] == "status"]
    assert completed["result"] == {"b": {"$bytes": "eA=="}, "t": {"$tuple": [1]}}


def test_a_question_is_answered_by_the_command_that_is_printed(waiting: Cli) -> None:
    _, out, _ = waiting("resume", "w")
    assert re.findall(r"perdure (answer w \d+ \S+)", out) == ["answer w 11 yes", "answer w 11 2"]
    assert waiting("answer", "w", "11", "nix")[0] == 68
    assert waiting("answer", "w", "11", "yes")[0] == 0
    assert waiting("resume", "w")[:2] == (0, "the agent speaks\nyes\n")
    assert Path("sent").read_text() == "ann\nbob\n"


def test_an_answer_is_the_choice_itself_not_its_text(waiting: Cli) -> None:
    assert waiting("answer", "w", "well", "2")[0] == 0
    status, _, err = waiting("resume", "w")
    assert status == 1
    assert "two is no good" in err


def test_a_failure_shows_the_lines_of_the_agent_and_how_to_go_on(cli: Cli) -> None:
    status, out, err = cli("run", "agent.py:failing", "-s", "f")
    assert (status, out) == (1, "")
    assert re.findall(r'File "(.*?)", line \d+, in (\w+)', err) == [(str(Path("agent.py").resolve()), "failing")] * 2
    assert "KeyError: 'no'" in err
    assert err.endswith("ValueError: boom\nf failed; what was done is kept. Mend the cause, then: perdure resume f\n")
    assert cli.json("ls", "--status", "failed")["sessions"][0]["reason"] == "ValueError: boom"


def test_code_that_changed_so_that_it_cannot_go_on_says_so(waiting: Cli) -> None:
    assert waiting("answer", "w", "well", "yes")[0] == 0
    Path("agent.py").write_text(AGENT.replace('send("ann")', 'send("eve")'))
    sys.modules.pop("perdure_entry_agent")
    status, _, err = waiting("resume", "w")
    assert status == 61
    assert "send(to='eve')" in err
    assert "send(to='ann')" in err
    assert "--accept-change" in err
    (info,) = waiting.json("ls")["sessions"]
    assert info["status"] == "failed"
    assert info["reason"].startswith("diverged: ")
    assert Path("sent").read_text() == "ann\nbob\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--input", "tides"], "--input-text"),
        (["--input", "NaN"], "not JSON"),
        (["--input", "1", "--input-text", "1"], "not both"),
        (["--label", "team"], "NAME=VALUE"),
        (["--wait", "-1"], "--wait"),
    ],
)
def test_a_wrong_command_line_is_status_2_and_makes_no_store(cli: Cli, words: list[str], told: str) -> None:
    status, _, err = cli("run", "agent.py:returning", "-s", "r", *words)
    assert status == 2
    assert told in " ".join(err.split())
    assert not Path("perdure.db").exists()


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("agent.py:nix", "it has: look, send, agent, returning, failing"),
        ("agent.py", "write file.py:function"),
        ("nix.py:agent", "no file"),
        ("nix:agent", "no module 'nix'"),
        ("broken.py:agent", 'broken.py", line 1'),
    ],
)
def test_no_such_function(cli: Cli, target: str, told: str) -> None:
    Path("broken.py").write_text("1 / 0\n")
    status, _, err = cli("run", target, "-s", "r")
    assert status == 80
    assert told in err
    assert "perdure/runtime" not in err
    assert not Path("perdure.db").exists()


def test_a_file_that_was_moved_since(cli: Cli) -> None:
    assert cli("run", "agent.py:failing", "-s", "r")[0] == 1
    Path("agent.py").rename("moved.py")
    status, _, err = cli("resume", "r")
    assert status == 80
    assert f"r recorded {Path.cwd()}/agent.py:failing as its function: no file " in err
    assert "perdure run FILE.py:FUNCTION --session r (entry)" in err
    assert cli("run", "moved.py:failing", "--session", "r")[0] == 1, "it goes on: no `entry`, the agent's own error"


def test_a_module_of_the_current_folder_is_found(cli: Cli) -> None:
    assert cli("run", "agent:returning", "-s", "r", "--input", "1")[0] == 0
    assert cli.json("show", "r")["entry"] == "agent:returning"


# --- looking ---------------------------------------------------------------------------------------------------------


def test_show_tells_where_a_session_stands(waiting: Cli) -> None:
    _, out, _ = waiting("show", "w", "--last", "1")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "session w" in lines
    assert "labels team=a" in lines
    assert "restore points, the last 1 of 2" in lines
    assert "9 send(to='bob') once result 1" in lines
    assert lines[-1] == "then: perdure resume w"


def test_a_log_reads_line_by_line(waiting: Cli) -> None:
    _, out, _ = waiting("log", "w")
    assert [line.split()[2] for line in out.splitlines()][:4] == [
        "opened",
        "owned",
        "action_started",
        "action_finished",
    ]
    _, out, _ = waiting("log", "w", "--ndjson", "--after", "2")
    started, finished, saved, *_ = (json.loads(line) for line in out.splitlines())
    assert started["body"]["args"] == {"at": "sky"}
    assert finished["body"]["value"] == {"$tuple": ["sky", {"$bytes": "AA=="}]}
    assert (saved["seq"], saved["body"]["reason"]) == (5, "looked")


def test_state_is_shortened_but_for_one_part(waiting: Cli) -> None:
    _, out, _ = waiting("state", "w")
    assert "500 in all" in out
    assert "x" * 500 not in out
    assert waiting("state", "w", "--part", "text")[1] == "x" * 500 + "\n"
    assert waiting("state", "w", "--part", "nix")[0] == 46
    assert waiting("state", "w", "--at", "nix")[0] == 46
    assert waiting.json("state", "w", "--at", "sent", "--part", "n") == {
        "session": "w",
        "at": 8,
        "state": {"n": 7},
        "absent": [],
    }


def test_ls_of_an_empty_store_and_of_some(waiting: Cli) -> None:
    assert waiting("ls", "--prefix", "v")[1] == "no sessions like that\n"
    assert [info["session"] for info in waiting.json("ls", "--prefix", "w")["sessions"]] == ["w"]
    assert waiting("ls")[1].splitlines()[1].split()[:3] == ["w", "waiting", "waits"]


def test_markup_and_control_characters_are_only_text(cli: Cli) -> None:
    with perdure.open("perdure.db") as store, store.session("[red]x[/red]") as session:
        session.state["\x1b[31m[bold]"] = "\x1b[0m"
        session.save(reason="\x1b[2J")
    for command in ("show", "state", "log"):
        _, out, _ = cli(command, "[red]x[/red]")
        assert "\x1b" not in out, command
    assert "[bold]" in cli("state", "[red]x[/red]")[1]
    assert cli("ls")[1].splitlines()[1].startswith("[red]x[/red]")


# --- deciding --------------------------------------------------------------------------------------------------------


def test_rolled_back_to_a_name_that_a_person_gave(waiting: Cli) -> None:
    cli = waiting
    assert cli.json("checkpoint", "w", "anchor", "--at", "5", "--by", "ann")["seq"] == 5
    assert [(p["seq"], p["name"]) for p in cli.json("show", "w")["points"]] == [(5, "anchor"), (8, "sent")]
    done = cli.json("rollback", "w", "anchor", "--reason", "again")
    assert (done["to"], done["standing"]) == (5, [6, 9])
    shown = cli.json("show", "w")
    assert (shown["status"], [p["seq"] for p in shown["points"]]) == ("paused", [5])
    assert [action["call"] for action in shown["standing"]] == ["send(to='ann')", "send(to='bob')"]
    asked = cli.json("resume", "w", status=75)["questions"][0]
    assert asked["prompt"].startswith("send(to='ann')")
    assert Path("sent").read_text() == "ann\nbob\n"


@pytest.mark.parametrize(("point", "to"), [("-1", 8), ("0", 1), ("5", 5)])
def test_points_by_number(waiting: Cli, point: str, to: int) -> None:
    assert waiting.json("rollback", "w", point)["to"] == to
    assert waiting.json("state", "w")["state"].get("n") == (7 if to > 1 else None)


def test_a_completed_session_can_be_rolled_back_and_completes_again(waiting: Cli) -> None:
    waiting("answer", "w", "well", "yes")
    assert waiting("resume", "w")[0] == 0
    assert waiting("rollback", "w", "sent")[0] == 0
    asked = waiting.json("resume", "w", status=75)["questions"][0]
    waiting("answer", "w", str(asked["seq"]), "reuse")
    asked = waiting.json("resume", "w", status=75)["questions"][0]
    waiting("answer", "w", str(asked["seq"]), "yes")
    assert waiting.json("resume", "w")["result"] == "yes"
    assert Path("sent").read_text() == "ann\nbob\n"


REFUSED = [
    (["rollback", "w", "nix"], 46),
    (["rollback", "w", "99"], 46),
    (["checkpoint", "w", "12"], 63),
    (["checkpoint", "w", ""], 63),
    (["checkpoint", "w", "x", "--at", "3"], 46),
    (["settle", "w", "3", "maybe"], 68),
    (["settle", "w", "5", "done"], 68),
    (["settle", "w", "9", "not-done", "--result", "1"], 2),
    (["settle", "w", "9", "done", "--result", "{"], 2),
    (["answer", "w", "99", "yes"], 68),
    (["answer", "w", "well"], 2),
    (["answer", "w", "well", "yes", "--value", "1"], 2),
]


def test_what_cannot_be_decided_so_is_refused_and_changes_nothing(waiting: Cli) -> None:
    before = waiting("log", "w", "--ndjson")[1]
    for words, status in REFUSED:
        assert waiting(*words)[0] == status, words
    assert waiting("log", "w", "--ndjson")[1] == before


def test_a_handle_is_rolled_back_and_is_idle(cli: Cli) -> None:
    with perdure.open("perdure.db") as store, store.session("h") as session:
        session.state["n"] = 1
        first = session.save()
        session.state["n"] = 2
    assert cli.json("rollback", "h", str(first), "--by", "ann")["to"] == first
    assert cli.json("ls")["sessions"][0]["status"] == "idle"
    with perdure.open("perdure.db") as store, store.session("h") as session:
        assert session.state == {"n": 1}
    assert cli.json("verify")["ok"]


def test_what_is_in_doubt_is_settled_before_a_rollback(cli: Cli) -> None:
    Path("doubt.py").write_text(
        "import perdure\n"
        "@perdure.action(effect='once')\n"
        "def send(): raise OSError('cut')\n"
        "def agent(s):\n"
        "    s.state['n'] = 1\n"
        "    s.save()\n"
        "    send()\n"
    )
    assert cli("run", "doubt.py:agent", "-s", "d")[0] == 1
    before = cli("log", "d", "--ndjson")[1]
    status, _, err = cli("rollback", "d", "-1")
    assert status == 68
    assert "settle it, then roll back" in err
    assert cli("log", "d", "--ndjson")[1] == before
    (doubt,) = [action["seq"] for action in cli.json("show", "d")["journal"]]
    assert cli("settle", "d", str(doubt), "not-done")[0] == 0
    assert cli.json("rollback", "d", "-1")["standing"] == []
    assert cli.json("verify")["ok"]


def test_undos_are_owed_until_it_goes_on(cli: Cli) -> None:
    Path("undone.py").write_text(
        "import perdure\n"
        "from pathlib import Path\n"
        "def note(text):\n"
        "    with Path('notes').open('a') as file: file.write(text + '\\n')\n"
        "def unbook(): note('unbook')\n"
        "@perdure.action(effect='once', undo=unbook)\n"
        "def book(): note('book')\n"
        "def agent(s):\n"
        "    s.state['n'] = 1\n"
        "    s.checkpoint('start')\n"
        "    book()\n"
        "    return s.ask('fine?')\n"
    )
    assert cli("run", "undone.py:agent", "-s", "u")[0] == 75
    (booked,) = [action["seq"] for action in cli.json("show", "u")["journal"]]
    assert cli.json("rollback", "u", "start")["undo"] == [booked]
    assert Path("notes").read_text() == "book\n"
    assert cli("resume", "u")[0] == 75
    assert Path("notes").read_text() == "book\nunbook\nbook\n"
    assert cli.json("verify")["ok"]
