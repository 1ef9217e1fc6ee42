"""The demonstration does what it says: the agent is really killed, and a broken promise would be noticed."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

import perdure
from perdure import demo, values
from perdure.demo.book import Line
from perdure.demo.findings import Findings, found_on, promises
from perdure.demo.instants import instants
from perdure.demo.stage import BOOK, CORPUS, SESSION, Stage, example, prepared, traces_at_hand
from perdure.demo.tally import Tally, tally
from perdure.errors import RefusedError
from perdure.log.entry import Entry
from perdure.runtime import entry

KILLS = 4


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """The stage that a demonstration with kills has left."""
    folder = tmp_path_factory.mktemp("demo") / "stage"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERDURE_TRACES", str(CORPUS))
        assert demo.main(folder=folder, kills=KILLS, seed=7) == 0
    return Stage(folder)


@pytest.fixture(scope="module")
def log(killed: Stage) -> list[Entry]:
    with perdure.open(str(killed.store)) as store:
        return list(store.log(SESSION))


def counted(log: list[Entry], killed: Stage, *more: Line) -> Tally:
    return tally(log, [*killed.lines(), *more])


def test_the_agent_was_killed_and_went_on(killed: Stage, log: list[Entry]) -> None:
    found = counted(log, killed)
    assert 2 <= found.owners <= KILLS + 1  # a machine that is busy may miss one
    assert len({line.pid for line in killed.lines()}) == found.owners
    assert (found.begun_again, found.twice, found.lost, found.unrecorded, found.undecided) == (0, 0, 0, 0, 0)
    assert found.tools["write_report"] == 4
    assert found.points == len([line for line in log if line.kind == "saved"])


def test_it_comes_to_what_an_unharmed_run_comes_to(killed: Stage, tmp_path: Path) -> None:
    agent = entry.load(f"{example()}:agent")
    given = {"folder": str(CORPUS), "reports": str(tmp_path / "reports")}
    with perdure.open(str(tmp_path / "agents.db")) as store:
        outcome = store.run(agent, "unharmed", input=given)
        state = store.state_at("unharmed")
    with perdure.open(str(killed.store)) as store:
        assert store.run(agent, SESSION) == outcome
        assert values.encode(store.state_at(SESSION)) == values.encode(state)
    assert outcome.status == "completed"
    assert killed.reports() == Stage(tmp_path).reports()
    assert len(killed.reports()) == 4


def test_without_input_it_reads_the_corpus_and_writes_into_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with perdure.open("memory:") as store:
        outcome = store.run(entry.load(f"{example()}:agent"), "mine")
    assert outcome.result["runs"] == 16
    assert (tmp_path / "trace-reports/mine/report.md").exists()


def begun(killed: Stage, tool: str) -> Line:
    return next(line for line in killed.lines() if (line.what, line.tool) == ("begin", tool))


@pytest.mark.parametrize("tool", ["find_traces", "run_python", "write_report"])
def test_a_finished_action_that_begins_again_is_noticed(killed: Stage, log: list[Entry], tool: str) -> None:
    last = killed.lines()[-1].pid
    assert counted(log, killed, replace(begun(killed, tool), pid=last)).begun_again == 1


def test_in_the_same_process_too(killed: Stage, log: list[Entry]) -> None:
    assert counted(log, killed, begun(killed, "plan")).begun_again == 1


def test_a_lost_save_a_second_report_and_an_action_off_the_record_are_noticed(killed: Stage, log: list[Entry]) -> None:
    report = begun(killed, "write_report")
    saved = next(line for line in killed.lines() if line.what == "saved")
    assert counted(log, killed, replace(saved, seq=log[-1].seq + 1)).lost == 1
    assert counted(log, killed, *[replace(report, what="end")] * 2).twice == 1
    assert counted(log, killed, replace(report, call="00ff")).unrecorded == 1


def test_a_log_that_lost_an_outcome_is_noticed(killed: Stage, log: list[Entry]) -> None:
    last = next(e.seq for e in reversed(log) if e.kind == "action_finished")
    assert tally([e for e in log if e.seq != last], killed.lines()).undecided == 1


def test_each_promise_can_be_broken(killed: Stage) -> None:
    found = found_on(killed)
    kills = found.tally.owners - 1

    def kept(seen: Findings, *, times: int = kills) -> list[bool]:
        return [promise.kept for promise in promises(seen, unharmed=found, kills=times)]

    def with_tally(field: str) -> Findings:
        return replace(found, tally=replace(found.tally, **{field: 1}))

    assert all(kept(found))
    broken = [kept(with_tally(name)) for name in ("begun_again", "twice", "lost", "unrecorded", "undecided")]
    broken += [kept(found, times=kills + 1), kept(replace(found, state=b""))]
    assert [row.index(False) for row in broken] == list(range(len(kept(found))))


def test_a_foreign_folder_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    assert demo.main(folder=tmp_path) == RefusedError.exit_status
    assert "mine.txt" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_an_earlier_demonstration_is_replaced(tmp_path: Path) -> None:
    stage = prepared(tmp_path / "new", CORPUS)
    (stage.folder / BOOK).write_text("old")
    assert prepared(stage.folder, CORPUS).lines() == []
    (stage.folder / "mine.txt").touch()
    with pytest.raises(RefusedError):
        prepared(stage.folder, CORPUS)
    with pytest.raises(RefusedError):
        prepared(stage.folder / "mine.txt", CORPUS)


def test_a_folder_named_for_traces_must_have_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert traces_at_hand() == CORPUS
    monkeypatch.setenv("PERDURE_TRACES", str(tmp_path))
    with pytest.raises(RefusedError, match="PERDURE_TRACES"):
        traces_at_hand()


def test_instants_are_spread_in_order_and_drawn_again_by_seed(killed: Stage) -> None:
    acts = [line for line in killed.lines() if line.what != "saved"]
    for kills in range(6):
        drawn, again = (
            instants(killed.lines(), kills=kills, chance=random.Random(3), hardest="write_report") for _ in range(2)
        )
        assert drawn == again
        places = [acts.index(instant.line) for instant in drawn]
        assert places == sorted(places)
        assert len(drawn) == kills
        assert sum(acts[place].tool == "write_report" for place in places) >= (kills > 1)
