"""`edit`, and what commands say of sessions in every state, also of one that another process runs."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import perdure
from tests.e2e.test_cli_commands import names, promised
from tests.e2e.test_cli_keeping import run

AGENT = """
import time
from pathlib import Path
import perdure


@perdure.action(effect="repeatable")
def slow(n):
    Path("reached").touch()
    while not Path("go").exists():
        time.sleep(0.02)
    return n


def sound(state):
    if not all(type(one) is int for one in state.get("todo", [])):
        raise ValueError("todo holds numbers")


@perdure.steps(validate=sound)
def worker(s):
    if not s.state:
        s.state.update(todo=[1, 2], pair=(1, 2), done=[])
    elif s.ask("Go on?", key="go") == "yes":
        s.complete(dict(s.state))


@perdure.steps
def busy(s):
    s.state["n"] = slow(s.state.get("n", 0) + 1)
    if s.state["n"] > 1:
        s.complete(s.state["n"])


def script(s):
    s.checkpoint("start")
    return s.ask("OK?", key="ok")
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PERDURE_STORE", "VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    Path("agents.py").write_text(AGENT)
    assert run(capsys, "run", "agents.py:worker", "--session", "w")[0] == 75
    assert run(capsys, "run", "agents.py:script", "--session", "s")[0] == 75


def editor(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """A program that does this to the `text` of the file that it is given."""
    code = f"import sys, pathlib\nf = pathlib.Path(sys.argv[1])\ntext = f.read_text()\n{body}\nf.write_text(text)\n"
    Path("editor.py").write_text(code)
    monkeypatch.setenv("EDITOR", f"{sys.executable} editor.py")


def state(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    return dict(json.loads(run(capsys, "state", "w", "--json")[1])["state"])


def test_a_state_is_changed_in_an_editor_on_a_branch_with_a_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(monkeypatch, "text = text.replace('1,\\n    2\\n  ],', '1,\\n    2,\\n    3\\n  ],', 1)")
    words = ("edit", "w", "--branch", "by hand", "--reason", "one more", "--by", "ann")
    status, out, _ = run(capsys, *words)
    assert (status, out.endswith("To go on: perdure resume w\n")) == (0, True)
    shown = run(capsys, "show", "w")[1]
    assert "by hand" in shown
    assert "one more" in shown
    with perdure.open("perdure.db") as store:
        assert store.state_at("w") == {"todo": [1, 2, 3], "pair": (1, 2), "done": []}
        before, now = store.branches("w")
        assert (now.name, now.by, now.is_present) == ("by hand", "ann", True)
        assert store.state_at("w", before.point)["todo"] == [1, 2]
        (told,) = store.detail("w").interventions
        assert (told.what, told.by, told.why) == ("edit", "ann", "one more")
    assert run(capsys, "answer", "w", "go", "yes")[0] == 0
    assert json.loads(run(capsys, "resume", "w")[1])["todo"] == [1, 2, 3]
    assert not list(Path().glob("w-*.json"))


def test_what_was_written_is_kept_when_it_cannot_be_taken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for body, status, says in (
        ("text = text[:-4]", 2, "is not JSON"),
        ("text = '[]'", 63, "a state is an object"),
        ("text = text.replace('1', '\"one\"')", 63, "todo holds numbers"),
        ("sys.exit(3)", 63, "ended with 3"),
    ):
        editor(monkeypatch, body)
        ended, _, err = run(capsys, "edit", "w", "todo")
        assert (ended, says in err) == (status, True), err
        (kept,) = Path().glob("w-*.json")
        assert str(kept) in err
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        kept.unlink()
    editor(monkeypatch, "")
    assert run(capsys, "edit", "w")[1] == "nothing was changed\n"
    assert state(capsys)["todo"] == [1, 2]
    assert run(capsys, "edit", "w", "nope")[0] == 46
    monkeypatch.setenv("EDITOR", "no-such-editor")
    assert "cannot be run" in run(capsys, "edit", "w")[2]
    monkeypatch.delenv("EDITOR")
    assert run(capsys, "edit", "w")[0] == 2


def test_a_secret_is_neither_shown_nor_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_SECRETS", "allow")
    with perdure.open("perdure.db", secrets="allow") as store:
        store.edit("w", {"pair": {"password": "Xk29-fjQ81-aabbZ", "n": 1}})
    editor(monkeypatch, "assert 'Xk29' not in text\ntext = text.replace('\"n\": 1', '\"n\": 2')")
    assert run(capsys, "edit", "w")[0] == 0
    with perdure.open("perdure.db", secrets="allow") as store:
        assert store.state_at("w")["pair"] == {"password": "Xk29-fjQ81-aabbZ", "n": 2}
    editor(monkeypatch, "text = text.replace('\"pair\"', '\"couple\"')")
    assert "would be lost" in run(capsys, "edit", "w")[2]


def test_a_file_of_changes_is_taken_whole_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.json").write_text('{"todo[0]": 5, "done[7]": 1}')
    assert run(capsys, "edit", "w", "--patch", "p.json")[0] == 63
    Path("p.json").write_text('[["set", ["todo", 0], 5], ["extend", ["done"], ["x"]]]')
    made = json.loads(run(capsys, "edit", "w", "--patch", "p.json", "--json")[1])
    assert names(made) == names(promised("edit"))
    assert state(capsys) | {"pair": 0} == {"todo": [5, 2], "done": ["x"], "pair": 0}
    assert run(capsys, "edit", "w", "--set", "todo[0]=6", "--unset", "done")[0] == 0
    assert run(capsys, "edit", "w", "--set", 'todo[0]="six"')[0] == 63
    assert run(capsys, "edit", "w", "--set", 'todo[0]="six"', "--unchecked")[0] == 0
    assert run(capsys, "edit", "w", "--set", "a=1", "--patch", "p.json")[0] == 2
    assert run(capsys, "edit", "w", "todo", "--set", "a=1")[0] == 2


def said(text: str) -> str:
    """An error as one line, without the frame that a terminal gets."""
    return " ".join(text.translate({ord(c): " " for c in "│╭╮╰╯─"}).split())


def test_a_file_of_changes_is_json_or_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text("# by hand\ntodo: [5, 6]\npair: {n: null, words: plain text, 'yes': \"no\", x: -2.5e1}\n")
    assert run(capsys, "edit", "w", "--patch", "p.yaml")[0] == 0
    assert state(capsys) == {
        "todo": [5, 6],
        "pair": {"n": None, "words": "plain text", "yes": "no", "x": -25.0},
        "done": [],
    }
    Path("p.yml").write_text('- [extend, [todo], [7]]\n- [set, "todo[0]", 1]\n')
    assert run(capsys, "edit", "w", "--patch", "p.yml")[0] == 0
    assert state(capsys)["todo"] == [1, 6, 7]


@pytest.mark.parametrize(
    ("name", "text", "status", "says"),
    [
        ("p.json", '{"todo": [1,}', 2, "p.json:1:13: is not JSON"),
        ("p.json", '{"todo": NaN}', 2, "NaN is not JSON"),
        ("p.json", "5", 63, "5 is no list of changes"),
        ("p.json", "[5]", 63, "change 1, 5, is none"),
        ("p.json", '[["set", ["todo"], []], ["put", ["todo"], 1]]', 63, "change 2, "),
        ("p.json", '[["set", ["todo", 0]]]', 63, "change 1, set at $.todo[0]: 1 values come behind the path, not 0"),
        ("p.json", '[["set", [5], 1]]', 63, "a path begins with the name of a part"),
        ("p.json", '{"done[7]": 1}', 63, "change 1, set at $.done[7]: 7 is not"),
        ("p.json", '[["del", ["nope", "x"]]]', 63, "change 1, del at $.nope.x: there is no 'nope'"),
        ("p.yaml", "todo:\n  - 1\n  - no\n", 2, "p.yaml:3: todo[1]: no means one thing"),
        ("p.yaml", "pair: {a: 010, b: 1:30}\n", 2, "pair.b: 1:30 means"),
        ("p.yaml", "todo: &x [1]\ndone: *x\n", 2, "p.yaml:2: done: *x: aliases"),
        ("p.yaml", "todo: [1\n", 2, "is no YAML"),
        ("p.yaml", "todo: [1]\ntodo: [2]\n", 2, "p.yaml:2: todo"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_place(
    capsys: pytest.CaptureFixture[str], name: str, text: str, status: int, says: str
) -> None:
    before = state(capsys)
    Path(name).write_text(text)
    ended, _, err = run(capsys, "edit", "w", "--patch", name)
    assert ended == status, err
    assert says in said(err)
    assert state(capsys) == before


def test_without_its_code_a_state_is_changed_when_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    Path("agents.py").rename("elsewhere.py")
    for name in [name for name in sys.modules if name.startswith("perdure_entry")]:
        del sys.modules[name]
    status, _, err = run(capsys, "edit", "w", "--set", "todo=[]")
    assert (status, "--unchecked" in err) == (80, True)
    assert run(capsys, "edit", "w", "--set", "todo=[]", "--unchecked")[0] == 0


def test_a_script_says_why_its_state_is_not_changed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(monkeypatch, "raise SystemExit('it is not opened')")
    for words in ((), ("--set", "a=1")):
        status, _, err = run(capsys, "edit", "s", *words)
        assert (status, "builds its state anew" in err) == (63, True)


def test_a_session_that_another_process_runs_is_paused_first(capsys: pytest.CaptureFixture[str]) -> None:
    words = [sys.executable, "-m", "perdure.cli", "run", "agents.py:busy", "--session", "b", "--quiet"]
    there = {**os.environ, "PYTHONPATH": str(Path(perdure.__file__).parents[1])}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=there) as runs:
        try:
            while not Path("reached").exists():
                assert runs.poll() is None
            status, _, err = run(capsys, "edit", "b", "--set", "n=40")
            assert (status, "first: perdure pause b" in err) == (35, True)
            assert run(capsys, "pause", "b", "--reason", "to edit")[0] == 0
        finally:
            Path("go").touch()
        out = runs.communicate(timeout=30)[0]
    assert "paused" in out
    assert run(capsys, "edit", "b", "--set", "n=40")[0] == 0
    assert run(capsys, "resume", "b")[1] == "41\n"


def test_an_answer_to_what_is_over_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "cancel", "s", "--reason", "enough")
    status, _, err = run(capsys, "answer", "s", "ok", "yes")
    assert (status, "perdure rollback s POINT" in err) == (63, True)
    shown = run(capsys, "show", "s")[1]
    assert "perdure answer" not in shown
    assert "to take it back: perdure rollback s POINT" in shown
    assert run(capsys, "rollback", "s", "start", "--yes")[0] == 0
    assert run(capsys, "resume", "s")[0] == 75


def test_a_result_comes_out_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    pays = "def pay() -> dict[str, list[int | None]]:\n    os._exit(9)"
    Path("pays.py").write_text(f"import os\n\n{pays}\n\ndef agent(s):\n    return s.call(pay)\n")
    words = [sys.executable, "-m", "perdure.cli", "run", "pays.py:agent", "--session", "p", "--quiet"]
    assert subprocess.run(words, check=False, env={**os.environ}).returncode == 9
    assert run(capsys, "resume", "p", "--quiet")[0] == 75
    Path("r.json").write_text('{"id": [1, null]}')
    seq = str(json.loads(run(capsys, "show", "p", "--json")[1])["questions"][0]["seq"])
    assert run(capsys, "settle", "p", seq, "not-done", "--result-file", "r.json")[0] == 2
    assert run(capsys, "settle", "p", seq, "done", "--result-file", "r.json", "--result", "1")[0] == 2
    status, _, err = run(capsys, "settle", "p", seq, "done", "--result", '{"id": [1, "2"]}')
    assert (status, "id[1]: Input should be a valid integer" in err) == (68, True), err
    Path("r.yaml").write_text("id:\n- 1\n- null\n")
    assert run(capsys, "settle", "p", seq, "done", "--result-file", "r.yaml")[0] == 0
    assert json.loads(run(capsys, "resume", "p")[1]) == {"id": [1, None]}


def test_a_result_is_taken_where_its_code_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pays.py").write_text(
        "import os\n\ndef pay() -> int:\n    os._exit(9)\n\ndef agent(s):\n    return s.call(pay)\n"
    )
    words = [sys.executable, "-m", "perdure.cli", "run", "pays.py:agent", "--session", "p", "--quiet"]
    assert subprocess.run(words, check=False, env={**os.environ}).returncode == 9
    assert run(capsys, "resume", "p", "--quiet")[0] == 75
    for name in [name for name in sys.modules if name.startswith("perdure_entry")]:
        del sys.modules[name]
    Path("pays.py").rename("elsewhere.py")
    seq = str(json.loads(run(capsys, "show", "p", "--json")[1])["questions"][0]["seq"])
    status, _, err = run(capsys, "settle", "p", seq, "done", "--result", '"five"')
    assert (status, "the result is not checked" in err) == (0, True)
