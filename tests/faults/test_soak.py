"""Many writers on many sessions, some of them killed: the count at the end is exact, memory stays, in every store."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.testing.soak import Crowd, Plan, Report, counted
from perdure.testing.soak.__main__ import main, text
from tests.servers.places import SQLITE, Place

FULL = os.environ.get("PERDURE_STORM") == "full"
SHORT = Plan("", "soak", sessions=40, processes=4, threads=4, seconds=2.5, kill_every_s=0.6)
LONG = Plan("", "soak")


def soaked(plan: Plan) -> Report:
    crowd = Crowd(plan)
    crowd.run(lambda _: None)
    return counted(crowd)


@pytest.mark.storm
@pytest.mark.timeout(900)
def test_what_many_writers_were_told_is_there_once(place: Place) -> None:
    plan = replace(LONG if FULL else SHORT, url=place.url)
    report = soaked(plan)
    print("\n".join(text(report)))  # noqa: T201 - figures for who asks with -s
    assert not report.problems
    assert report.kills >= 2
    assert report.saves > report.sessions > 0


@pytest.mark.parametrize("place", [SQLITE], indirect=True, ids=repr)
def test_a_store_that_acknowledges_before_its_commit_is_found_out(place: Place) -> None:
    wrap = "perdure.testing.broken_together.AcknowledgesAhead"
    report = soaked(replace(SHORT, url=place.url, wrap=wrap))
    assert any("acknowledged and lost" in problem for problem in report.problems)


def test_it_is_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--sessions", "5", "--processes", "2", "--threads", "2", "--seconds", "1", "--kill-every-s", "0.5"]
    assert main([f"{tmp_path}/agents.db", *options]) == 0
    told = capsys.readouterr().out
    assert "all that was acknowledged is there, once" in told
    assert main(["nowhere://", *options]) == 2
