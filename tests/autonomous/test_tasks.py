"""The example tasks come to what their checks ask for, run as users run them; and a check refuses what is wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.stores.file import disk
from perdure.testing.lives import forked
from tests.autonomous import playing, tasks
from tests.autonomous.playing import call, judged, says, task
from tests.autonomous.tasks import EXAMPLES, example, given
from tests.workspace.trees import told

TRACES = Path(os.environ.get("PERDURE_TRACES") or EXAMPLES.parents[1] / "shared/data/traces", "swe-agent")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of all examples, done."""
    place = tmp_path_factory.mktemp("finished")
    for name in tasks.GOALS:
        outcome = tasks.done(name, place / name)
        assert outcome.status == "completed", outcome
    return place


@pytest.mark.parametrize("name", tasks.GOALS)
def test_an_example_passes_its_check(name: str, finished: Path) -> None:
    assert example(name).judge(finished / name, "") == ""


def test_what_is_mended_is_the_program_and_nothing_else(finished: Path) -> None:
    came = told(example("fix_a_test").REPO)
    assert [name for name, thing in told(finished / "fix_a_test").items() if came.get(name) != thing] == ["spans.py"]


def test_the_sums_are_those_of_another_program(finished: Path) -> None:
    """Of awk, which takes all that is no figure out of an amount: each of them has cents."""
    folder = finished / "clean_csv"
    assert (folder / "orders.csv").read_bytes() == (EXAMPLES / "messy_orders/orders.csv").read_bytes()
    awk = r"""
        NR > 1 {
            gsub(/^ +/, "", $1); if (seen[$1]++) { duplicates++; next }
            if ($2 ~ /^(|n\/a|unknown)$/ || $4 ~ /^(|n\/a|-)$/) { out++; next }
            cents = $4; gsub(/[^0-9-]/, "", cents); total += cents; rows++
        }
        END { printf "%d %d %d %.2f", rows, duplicates, out, total / 100 }
    """
    ran = subprocess.run(["awk", "-F;", awk, str(folder / "orders.csv")], capture_output=True, text=True, check=True)
    summary = json.loads((folder / "summary.json").read_text())
    assert " ".join(str(summary[name]) for name in ("rows", "duplicates", "left_out", "total")) == ran.stdout


def test_as_a_user_runs_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "perdure.cli", "run", f"{EXAMPLES}/report.py:agent", "--session", "quay"]
    asked = json.dumps({"goal": tasks.GOALS["report"], "workspace": "quay"})
    ran = subprocess.run(
        [*command, "--input", asked, "--store", "agents.db"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(perdure.__file__).parents[1])},
    )
    assert (ran.returncode, ran.stdout) == (0, "report.md is written, each figure from a document\n"), ran.stderr
    assert example("report").judge(tmp_path / "quay", "") == ""


# --- what is copied into the folder -----------------------------------------------------------------------------------


def seeded(source: Path, folder: Path) -> perdure.Outcome:
    script = [playing.plan(task("1")), says(call("finish_task", result="done")), judged()]
    with perdure.open("memory:") as store:
        return store.run(playing.agent(script, seed=source), "q", input=playing.given(folder))


def test_a_folder_that_is_empty_begins_with_the_files_of_another(tmp_path: Path, folder: Path) -> None:
    source = tmp_path / "source"
    (source / "d/empty").mkdir(parents=True)
    (source / "d/run").write_text("#!/bin/sh\n")
    (source / "d/run").chmod(0o750)
    (source / "link").symlink_to("d/run")
    (source / "__pycache__").mkdir()
    (source / "__pycache__/x.pyc").write_text("made again")
    assert seeded(source, folder).result == "done"
    there = told(source)
    assert told(folder) == {name: thing for name, thing in there.items() if not name.startswith("__pycache__")}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_killed_in_the_middle_of_a_file_that_is_copied_the_copy_is_finished(
    number: int, tmp_path: Path, folder: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in "abc":
        (source / name).write_text(name * 1000)
    script = [playing.plan(task("1")), says(call("finish_task", result="done")), judged()]
    agent, said = playing.agent(script, seed=source), playing.given(folder)
    write, written = disk.write_new, list[Path]()

    def dying(path: Path, content: bytes) -> None:
        written.append(path)
        if len(written) == number:
            write(path, content[:100])
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, content)

    def work() -> bytes:
        disk.write_new = dying
        return perdure.open(tmp_path / "agents.db").run(agent, "q", input=said).status.encode()

    assert os.WIFSIGNALED(forked(work)[1])
    assert told(folder) != told(source)
    with perdure.open(tmp_path / "agents.db") as store:
        assert store.run(agent, "q", input=said).result == "done"
    assert told(folder) == told(source)


def test_what_is_in_a_folder_already_is_worked_on_and_nothing_is_added(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/a").write_text("a")
    (folder / "mine").write_text("mine")
    assert seeded(tmp_path / "source", folder).result == "done"
    assert [path.name for path in folder.iterdir()] == ["mine"]


# --- a check refuses what is wrong ------------------------------------------------------------------------------------


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


WRONG: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "a test that is made to pass": (
        "fix_a_test",
        lambda at: changed(at / "tests/test_spans.py", "(720, 780)", "(600, 780)"),
        "tests/test_spans.py is not as it was",
    ),
    "a test that is gone": ("fix_a_test", lambda at: (at / "tests/test_spans.py").unlink(), "is not as it was"),
    "a program that is not mended": (
        "fix_a_test",
        lambda at: changed(at / "spans.py", "max(found[-1][1], end)", "end"),
        "1 failed, 9 passed",
    ),
    "a document that is not named": ("report", lambda at: changed(at / "report.md", "tides.md", "a file"), "tides.md"),
    "a figure of its own": ("report", lambda at: changed(at / "report.md", "3.90", "3.91"), "3.91 is in no document"),
    "a quotation of its own": ("report", lambda at: changed(at / "report.md", "been dry", "stayed dry"), "stayed dry"),
    "no report": ("report", lambda at: (at / "report.md").unlink(), "report.md is not there"),
    "a wrong sum": ("clean_csv", lambda at: changed(at / "summary.json", '"total": "4', '"total": "5'), "total is 5"),
    "a row that is changed": ("clean_csv", lambda at: changed(at / "cleaned.csv", "497.00", "498.00"), "1001"),
    "a row that is there twice": (
        "clean_csv",
        lambda at: (at / "cleaned.csv").write_text(
            "\n".join([*(t := (at / "cleaned.csv").read_text().splitlines()), t[1]])
        ),
        "a row is there twice",
    ),
    "no summary": ("clean_csv", lambda at: (at / "summary.json").unlink(), "cannot be read: FileNotFoundError"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_check_refuses_what_is_wrong(what: str, finished: Path, tmp_path: Path) -> None:
    name, spoil, told_so = WRONG[what]
    shutil.copytree(finished / name, tmp_path / name)
    assert example(name).judge(tmp_path / name, "") == ""
    spoil(tmp_path / name)
    assert told_so in example(name).judge(tmp_path / name, "all is well")


# --- more documents ---------------------------------------------------------------------------------------------------


def about(name: str, text: str) -> str:
    """A line of a report on a recorded run of an agent: a figure and a sentence of it, as they stand there."""
    figure = re.findall(r"\d+", text)[-1]
    words = re.search(r"[A-Za-z][A-Za-z ,']{30,60}", text)
    assert words is not None
    return f'* {name}: {figure}, "{words.group().strip()}"'


@pytest.mark.skipif(not TRACES.is_dir(), reason="the recorded runs of agents are not there")
def test_a_report_on_a_folder_of_recorded_runs(folder: Path) -> None:
    shutil.copytree(TRACES, folder, dirs_exist_ok=True)
    report = example("report")
    found = report.documents(folder)
    assert len(found) > 20
    text = "# Runs\n\n" + "\n".join(about(name, text) for name, text in found.items())
    wrong = text.replace("* ", "* 99.999 of ", 1)
    script = [
        playing.plan(task("1", "read"), task("2", "write", needs=["1"])),
        *[
            says(*[call("read_file", path=name, lines=40) for name in list(found)[at : at + 8]])
            for at in range(0, 24, 8)
        ],
        says(call("finish_task", result="read")),
        judged(),
        says(call("write_file", path="report.md", text=wrong)),
        says(call("finish_task", result="written")),
        judged(),
        {"match": "99.999 is in no document", **says(call("write_file", path="report.md", text=text))},
        says(call("finish_task", result="written, each figure from a run")),
        judged(),
    ]
    with perdure.open("memory:") as store:
        outcome = store.run(
            playing.agent(script, tools=report.tools, judge=report.judge), "q", input=given("report", folder)
        )
        assert outcome.result == "written, each figure from a run", outcome
    assert report.judge(folder, "") == ""
    assert {name for name in told(folder) if name != "report.md"} >= set(found)
