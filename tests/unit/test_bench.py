"""The benchmark measures every row, end to end at a tiny size. No figure is judged here."""

from __future__ import annotations

import dataclasses
import importlib
import json
import random
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import perdure
from perdure.errors import StoreUrlError
from perdure.testing import bench
from perdure.testing.bench import fresh, places, report, restoring, show
from perdure.testing.bench.counted import Traffic, counted
from perdure.testing.bench.plan import FULL, QUICK, Plan, Sizes
from perdure.testing.bench.rows import ROWS
from perdure.testing.bench.saving import restored_steps
from perdure.testing.bench.single import single
from perdure.testing.bench.traces import Recorded, TracesError
from perdure.testing.bench.turns import take
from perdure.testing.bench.workload import Chat, Documents, Trimmed, dumps, messages_from
from tests import instants

TINY = Sizes(
    steps=12,
    window=4,
    documents=3,
    paragraphs=2,
    replaced=4,
    many=30,
    many_window=10,
    crowd=8,
    calls=15,
    turn=5,
    opens=1,
    points=3,
    moved=2,
    snapshots=300,
    names=100,
    sessions=12,
    messages=20,
)
DOCS = Path(__file__).parents[2] / "docs" / "benchmark.md"
STORES = ["file://{}/store", *(["sqlite:///{}/a.db"] if instants.FULL else [])]


OF_ONE_CHAT = ("w1", "w4", "fork")
"""Sections that look at the store which the first of them leaves."""

TOGETHER = [OF_ONE_CHAT, *((section,) for section in bench.SECTIONS if section not in OF_ONE_CHAT)]


@pytest.fixture
def _small_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processes: each has to load all before it saves anything."""
    monkeypatch.setattr(importlib.import_module("perdure.testing.bench.crowd"), "PROCESSES", 2)


@pytest.fixture
def tiny(tmp_path: Path) -> report.Report:
    """A report of every row, of which only the quickest section was measured."""
    measured = bench.run(tmp_path, TINY, only=["files"])
    values = {key: 2.0 for row in ROWS for key in (row.key, row.beside) if key}
    return dataclasses.replace(measured, figures=report.figures([values], sizes=TINY))


@pytest.mark.usefixtures("_small_crowd")
@pytest.mark.parametrize("sections", TOGETHER, ids="-".join)
def test_every_row_is_measured(sections: tuple[str, ...], tmp_path: Path) -> None:
    found = bench.run(tmp_path, TINY, only=sections)
    assert list(tmp_path.iterdir()) == []
    assert [figure.row.key for figure in found.figures] == [row.key for row in ROWS if row.section in sections]
    assert all((figure.value > 0) == (figure.row.key != "import.optional") for figure in found.figures)
    assert all((figure.beside is not None) == bool(figure.row.beside) for figure in found.figures)


def test_every_row_is_of_a_section() -> None:
    assert {row.section for row in ROWS} == {*bench.SECTIONS}


def test_less_work_than_the_full_is_not_judged(tiny: report.Report) -> None:
    assert tiny.quick
    assert all(figure.holds is None for figure in tiny.figures)


def test_json_has_the_documented_shape(tiny: report.Report) -> None:
    document = json.loads(json.dumps(tiny.document()))
    documented = json.loads(DOCS.read_text().partition("```json\n")[2].partition("```")[0])
    assert list(document) == list(documented)
    assert list(document["machine"]) == list(documented["machine"])
    assert {tuple(row) for row in document["rows"]} == {tuple(documented["rows"][0])}


def test_every_section_is_documented() -> None:
    text = DOCS.read_text()
    assert all(f"| `{section}` |" in text for section in bench.SECTIONS)


def test_lines_show_value_reach_and_the_row(tiny: report.Report, capsys: pytest.CaptureFixture[str]) -> None:
    show.text(tiny)
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith(bench.SECTIONS)]) == len(ROWS)
    (line,) = [line for line in lines if "slowest save over p50" in line and "automatically" in line]
    assert line.count(" x") == 3


def test_medians_over_rounds_are_held_against_the_reach() -> None:
    rounds = [{"w4.list": value} for value in (9.0, 4.0, 5.0)]
    (figure,) = report.figures(rounds, sizes=FULL)
    assert (figure.value, figure.rounds, figure.holds) == (5.0, (9.0, 4.0, 5.0), True)
    (figure,) = report.figures([{"w4.list": 5.1}], sizes=FULL)
    assert figure.holds is False
    (figure,) = report.figures([{"w4.list": 5.1}], sizes=QUICK)
    assert figure.holds is None


def test_main_measures_a_section_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "QUICK", TINY)
    assert bench.main(["--quick", "--only", "w4", "--json", "--folder", str(tmp_path)]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["section"] for row in rows} == {"w4"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("argv", [["--only", "w9"], ["--rounds", "0"], ["--folder", "nowhere"]])
def test_unfit_options_are_refused(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        bench.main(argv)
    assert refused.value.code == 2


@pytest.mark.storm
@pytest.mark.usefixtures("_small_crowd")
@pytest.mark.parametrize("url", STORES)
def test_a_store_is_measured_by_its_url(url: str, tmp_path: Path) -> None:
    found = bench.run(tmp_path, TINY, store=url.format(tmp_path), only=places.SECTIONS)
    rows = [row for row in places.rows(TINY) if row.section not in places.ON_SERVERS]
    with perdure.open(url.format(tmp_path)) as store:
        weighed = store.backend.health(deep=False).used is not None
    there = [row.key for row in rows if weighed or not row.key.endswith(".bytes")]
    assert [figure.row.key for figure in found.figures] == there
    assert all(figure.value > 0 for figure in found.figures)
    assert [path.name for path in tmp_path.iterdir() if "bench" in path.name] == []
    with perdure.open(url.format(tmp_path)) as store:
        assert store.sessions(prefix="perdure-bench") == []


def test_a_store_that_has_no_single_row_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(StoreUrlError, match="no row to compare it with"):
        single("memory:", "x")


def test_turns_and_bytes_are_counted() -> None:
    def answer(server: socket.socket) -> None:
        client, _ = server.accept()
        with client:
            while (asked := client.recv(1000)) and asked != b"end":
                client.sendall(2 * asked)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        url = f"redis://me:pw@127.0.0.1:{server.getsockname()[1]}/0?prefix=x"
        with counted(url) as (relay, through), socket.create_connection(("127.0.0.1", relay.port)) as client:
            assert through == f"redis://me:pw@127.0.0.1:{relay.port}/0?prefix=x"
            assert relay.traffic == Traffic()
            for number in range(1, 4):
                client.sendall(b"12345")
                assert client.recv(10, socket.MSG_WAITALL) == b"1234512345"
                assert relay.traffic == Traffic(number, 5 * number, 10 * number)


@pytest.mark.parametrize("url", ["redis://h1:1,h2:2/0", "s3://b/p?endpoint=https://h", "s3://bucket/p"])
def test_what_cannot_be_counted_is_said_so(url: str) -> None:
    with pytest.raises(StoreUrlError, match="counted is what goes to one server"), counted(url):
        pass


def test_other_sections_of_a_store_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--store", "agents.db", "--only", "w1,w5"])
    assert "--only w5: of a store by its URL choose from w1,w3,w4" in capsys.readouterr().err


def test_a_wrong_restore_is_an_error_and_no_figure(tmp_path: Path) -> None:
    plan = Plan(tmp_path, TINY)
    digested = restored_steps(TINY)
    saved = take(plan, "chat", writers=("automatic",), saves=12, turn=12, digested=digested)["automatic"]
    saved.digests[digested[0]] = saved.digests[digested[-1]]
    with pytest.raises(restoring.WrongStateError):
        restoring.restore(plan, saved)


def test_a_child_that_fails_says_why() -> None:
    with pytest.raises(fresh.ChildError, match="no such luck"):
        fresh.answer_of("-c", "raise SystemExit('no such luck')")


def test_writers_take_turns_and_do_all_the_work(tmp_path: Path) -> None:
    found = take(Plan(tmp_path, TINY), "chat", writers=("append", "row"), saves=7, turn=3)
    assert [len(samples.wall) for samples in found.values()] == [7, 7]
    assert len({samples.deltas for samples in found.values()}) == 1
    assert len((tmp_path / "chat-append" / "deltas.jsonl").read_bytes().splitlines()) == 8


def test_generated_messages_are_those_of_real_runs() -> None:
    work = Chat(messages_from(None))
    deltas = [len(dumps(work.step(k))) for k in range(1, 401)]
    assert 2_800 < sum(deltas) / len(deltas) < 3_800
    assert 18_000 < len(dumps(work.state["doc"])) < 22_000


def test_generated_messages_compress_as_real_ones_do() -> None:
    compressor = pytest.importorskip("zstandard").ZstdCompressor(level=3)
    work = Chat(messages_from(None))
    deltas = [dumps(work.step(k)) for k in range(1, 401)]
    assert 2.4 < sum(map(len, deltas)) / sum(len(compressor.compress(delta)) for delta in deltas) < 3.2


def test_work_is_the_same_in_every_process() -> None:
    code = (
        "from perdure.testing.bench.workload import *; "
        "w = Trimmed(messages_from(None)); print(dumps([w.step(k) for k in range(1, 20)] + [w.state]).hex())"
    )
    first, second = (_printed(code) for _ in range(2))
    assert first == second


def _printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_a_trimmed_state_does_not_grow() -> None:
    work = Trimmed(messages_from(None))
    sizes = {k: work.step(k) and len(work.state["messages"]) for k in range(1, 60)}
    assert (sizes[1], sizes[10], sizes[59]) == (2, 20, 20)


def test_a_step_of_documents_replaces_one() -> None:
    work = Documents(messages_from(None), documents=4, paragraphs=2)
    before = dict(work.state["docs"])
    (((name,), new),) = work.step(1)["set"]
    assert work.state["docs"] == {**before, name: new}
    assert new != before[name]


RUN = [
    {"role": "system", "content": "you are"},
    {"role": "user", "content": "please"},
    {"role": "assistant", "content": "looking for words"},
    {"role": "tool", "content": "several words found"},
]
EVENTS = [
    {"source": "user", "message": "please"},
    {"source": "agent", "action": "run", "message": "running several words"},
    {"source": "agent", "observation": "run", "content": "several words observed"},
]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.traj", json.dumps({"history": RUN}), ("looking", "found")),
        ("a.json", json.dumps([{"traj": RUN}]), ("looking", "found")),
        ("a.jsonl", json.dumps({"history": EVENTS}) + "\n", ("running", "observed")),
    ],
)
def test_recorded_runs_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, expected: tuple[str, str]
) -> None:
    monkeypatch.setattr("perdure.testing.bench.traces.CHANGED", 0.0)
    (tmp_path / name).write_text(text)
    said, answered = Recorded(tmp_path).pair(random.Random(1))
    assert expected[0] in said
    assert expected[1] in answered


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(TracesError, match="no run was found"):
        Recorded(tmp_path)


def test_sizes_are_positive_and_windows_fit() -> None:
    for sizes in (FULL, QUICK, TINY):
        assert all(value > 0 for value in dataclasses.astuple(sizes))
        assert 2 * sizes.window <= sizes.steps
        assert 2 * sizes.many_window <= sizes.many
