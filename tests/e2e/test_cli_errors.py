"""Bad input on the command line: each gets its own error and exit status, and leaves everything as it was."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import errors
from perdure.cli import main
from perdure.cli.place import Place

ERRORS = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, errors.PerdureError) and value.__module__ == errors.__name__
]
ARGUMENTS: dict[type, tuple[Any, ...]] = {
    errors.UnstorableError: ("$.plan[3]", "a socket"),
    errors.SecretFoundError: ("$.plan[3]", "a password"),
    errors.RecordedError: ("OddError", "odd"),
    errors.ChildFailedError: ("a/child", "failed", "OddError", "odd"),
    errors.SuspendedError: ("waits for #3", (3,)),
    errors.ModelFailedError: ("ModelHTTPError", "busy"),
    errors.InvalidOutputError: ("a-model", "no such field"),
}
KEYWORDS: dict[type, dict[str, Any]] = {
    errors.ModelFailedError: {"model": "a-model", "status": 503, "retry_after_s": 0.0, "passes": True},
    errors.InvalidOutputError: {"reply": "{}", "cost": {}},
}

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(list(words))
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return run


def code(out: str) -> str:
    (line,) = out.splitlines()
    return str(json.loads(line)["error"]["code"])


@pytest.fixture
def store(cli: Cli) -> Path:
    """A store with one session, `q`."""
    with perdure.open("perdure.db") as opened, opened.session("q") as session:
        session.state["n"] = 1
    return Path("perdure.db")


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_kind_of_error(cli: Cli, monkeypatch: pytest.MonkeyPatch, error: type[errors.PerdureError]) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error(*ARGUMENTS.get(error, ("what happened",)), **KEYWORDS.get(error, {}))

    monkeypatch.setattr(Place, "open", fail)
    status, out, err = cli("ls")
    assert (status, out) == (error.exit_status, "")
    assert err.startswith("error: ")
    assert err.endswith(f" ({error.code})\n")
    status, out, err = cli("ls", "--json")
    assert (status, code(out), err) == (error.exit_status, error.code, "")


@pytest.mark.parametrize(
    "words",
    [
        ["ls"],
        ["show", "q"],
        ["log", "q", "--ndjson"],
        ["state", "q"],
        ["resume", "q"],
        ["checkpoint", "q", "here"],
        ["rollback", "q", "here"],
        ["settle", "q", "3", "done"],
        ["answer", "q", "3", "yes"],
        ["verify"],
    ],
    ids=lambda words: words[0],
)
def test_only_run_makes_a_store(cli: Cli, words: list[str]) -> None:
    for url in ("nix.db", "sqlite:///nix.db", str(Path.cwd() / "nix.db")):
        status, out, err = cli(*words, "--store", url)
        assert status == 31
        assert "nix.db" in (out or err)
    assert list(Path.cwd().iterdir()) == []


COMMANDS = [
    ["show"],
    ["log"],
    ["state"],
    ["resume"],
    ["checkpoint", "x"],
    ["rollback", "x"],
    ["settle", "3", "done"],
    ["answer", "3", "yes"],
]


def test_an_unknown_session_is_never_a_new_one(cli: Cli, store: Path) -> None:
    for command, *rest in COMMANDS:
        status, out, _ = cli(command, "nix", *rest, "--json")
        assert (status, code(out)) == (42, "session-unknown"), command
    _, out, _ = cli("ls", "--json")
    assert [info["session"] for info in json.loads(out)["sessions"]] == ["q"]


def test_an_unknown_session_says_where_to_look(cli: Cli, store: Path) -> None:
    for command, *rest in COMMANDS:
        _, _, err = cli(command, "nix", *rest)
        assert err.startswith(f"error: no session nix in sqlite:///{store.absolute()}; `perdure ls` lists "), command


def test_an_erased_session(cli: Cli, store: Path) -> None:
    with perdure.open(str(store)) as opened:
        opened.backend.delete("q")
    for command, *rest in COMMANDS:
        status, out, _ = cli(command, "q", *rest, "--json")
        assert (status, code(out)) == (44, "session-erased"), command


@pytest.mark.parametrize(
    "session",
    ["a\0b", "x" * 300, "", "..", " q", "cafe\u0301", "\udcff", "a\nb"],
    ids=["nul", "long", "empty", "dots", "space", "not normalised", "not text", "two lines"],
)
def test_no_id_at_all(cli: Cli, store: Path, session: str) -> None:
    for command, *rest in COMMANDS:
        status, out, _ = cli(command, session, *rest, "--json")
        assert (status, code(out)) == (41, "session-id"), command


def test_no_id_at_all_in_run(cli: Cli) -> None:
    Path("agent.py").write_text("def agent(s): return 1\n")
    assert cli("run", "agent.py:agent", "-s", "a\0b")[0] == 41


def test_twins_and_slashes_are_sessions_of_their_own(cli: Cli) -> None:
    ids = ["q", "Q", "caf\u00e9", "cafe", "a/b", "a.b", "a/../b"]
    with perdure.open("perdure.db") as opened:
        for number, session in enumerate(ids):
            with opened.session(session) as handle:
                handle.state["n"] = number
    for number, session in enumerate(ids):
        _, out, _ = cli("state", session, "--json")
        assert json.loads(out)["state"] == {"n": number}


@pytest.mark.parametrize("words", [["ls"], ["show", "q"], ["resume", "q"], ["rollback", "q", "0"]], ids=lambda w: w[0])
def test_a_store_of_a_newer_format_is_left_alone(cli: Cli, store: Path, words: list[str]) -> None:
    with closing(sqlite3.connect(store)) as db:
        db.execute("PRAGMA user_version=99")
    before = store.read_bytes()
    status, out, _ = cli(*words, "--json")
    assert (status, code(out)) == (21, "format-newer")
    assert store.read_bytes() == before


def test_a_file_that_is_no_store_is_left_alone(cli: Cli) -> None:
    Path("perdure.db").write_text("a diary, and no store")
    assert cli("ls")[0] == 31
    assert Path("perdure.db").read_text() == "a diary, and no store"


def test_a_folder_in_which_nothing_can_be_made(cli: Cli) -> None:
    Path("agent.py").write_text("def agent(s): return 1\n")
    status, out, _ = cli("run", "agent.py:agent", "-s", "q", "--json", "--store", "/proc/perdure.db")
    assert (status, code(out)) == (32, "store-failed")


def test_the_store_of_the_environment(cli: Cli, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.rename("other.db")
    monkeypatch.setenv("PERDURE_STORE", "other.db")
    assert cli("show", "q")[0] == 0
    assert cli("show", "q", "--store", "nix.db")[0] == 31
    monkeypatch.setenv("PERDURE_STORE", "")
    assert cli("show", "q")[0] == 31


def test_the_first_page_says_what_to_do_first(cli: Cli) -> None:
    status, out, _ = cli("--help")
    assert status == 0
    assert "perdure demo" in out
    assert "perdure run agent.py:agent --session first" in out
    assert cli("--version") == (0, f"perdure {perdure.__version__}\n", "")
    assert cli("nix")[0] == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--store x.db ls", "--store stands behind the command: perdure COMMAND … --store …"),
        ("--json show q", "--json stands behind the command"),
        ("team --store x.db show q", "--store stands behind the command: perdure team COMMAND"),
        ("ls --key file:k", "--key stands before the command: perdure --key … ls …"),
        ("team show q --config c.yaml", "--config stands before the command: perdure --config … team show …"),
        ("ls --staus failed", "No such option: --staus (Possible options: --status"),
        ("export q q.perdure --protocol", "Option '--protocol' requires an argument."),
        ("rollback q --preveiw", "No such option: --preveiw"),
        ("diff q -1 --bogus=2", "No such option: --bogus"),
        ("replay q --jsn", "No such option: --jsn"),
    ],
)
def test_an_option_that_is_not_there_or_stands_elsewhere(cli: Cli, store: Path, line: str, told: str) -> None:
    status, out, err = cli(*line.split())
    assert (status, out) == (2, "")
    assert told in " ".join(err.replace("│", " ").split())


def test_a_point_may_begin_with_a_dash(cli: Cli, store: Path) -> None:
    assert cli("diff", "q", "0", "-1")[0] == 0
    assert cli("rollback", "q", "--", "--preveiw")[0] == 46, "the name of a checkpoint that is not there"


def test_the_paragraphs_of_a_help_flow(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_WIDTH", "70")
    lines = [line.strip() for line in cli("run", "--help")[1].splitlines()]
    paragraph = lines[next(at for at, line in enumerate(lines) if line.startswith("Ends with 0")) :]
    told = paragraph[: paragraph.index("")]
    assert len(told) > 2
    assert all(len(f"{line} {after.split()[0]}") > 66 for line, after in pairwise(told)), "a line is as full as can be"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("perdure ver", ["verify"]),
        ("perdure show --js", ["--json"]),
        ("perdure show q", ["q"]),
        ("perdure verify q", ["q"]),
        ("perdure log q", ["q"]),
        ("perdure erase q", ["q"]),
        ("perdure show --store nix.db q", []),
    ],
)
def test_a_shell_completes_words(
    cli: Cli, store: Path, monkeypatch: pytest.MonkeyPatch, line: str, told: list[str]
) -> None:
    monkeypatch.setenv("_PERDURE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    _, out, err = cli()
    assert (out.split(), err) == (told, "")
    assert not Path("nix.db").exists()
