"""A session that begins from a snapshot, killed at each point: all of it is there, or nothing and it begins again."""

from __future__ import annotations

from pathlib import Path

import pytest

import perdure
from perdure import faults
from perdure.errors import SessionExistsError
from perdure.runtime.store import AgentStore
from perdure.stores import open_store
from perdure.testing.broken import WritesOneByOne
from tests.crash.test_moving import dying_at

POINTS = ["begin.made", "append.before", "append.inside", "append.after", "begin.whole"]
URLS = ["{}/other.db", "file:{}/files"]
STATE = {"messages": ["hello"] * 100, "large": "x" * 200_000, "config": {"a": (1, {2})}}


def test_the_points_are_those_that_there_are() -> None:
    assert {point for point in faults.POINTS if point.startswith("begin.")} < {*POINTS}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with perdure.open(str(tmp_path / "source.db")) as store:
        with store.session("q") as s:
            s.state.update(STATE)
        store.export_snapshot("q", tmp_path / "q.snapshot")
    return tmp_path / "q.snapshot"


def opened(url: str, tmp_path: Path) -> AgentStore:
    return perdure.open(url.format(tmp_path))


@pytest.mark.parametrize("url", URLS, ids=["sqlite", "file"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_it_is_whole_or_begins_again(point: str, url: str, file: Path, tmp_path: Path) -> None:
    def begin() -> None:
        with opened(url, tmp_path) as store:
            store.begin(file)

    assert dying_at(point, 1, begin)
    with opened(url, tmp_path) as store:
        if point in ("append.after", "begin.whole"):
            with pytest.raises(SessionExistsError):
                store.begin(file)
        else:
            assert store.sessions() == []
            store.begin(file)
        assert store.verify("q", read_data=True).ok
        assert store.state_at("q") == STATE
        with store.session("q") as s:
            s.state["config"] = None
        assert store.state_at("q") == STATE | {"config": None}


def test_a_build_that_writes_it_in_pieces_is_caught(file: Path, tmp_path: Path) -> None:
    def begin() -> None:
        with AgentStore(WritesOneByOne(open_store(str(tmp_path / "other.db")))) as store:
            store.begin(file)

    assert dying_at("append.inside", 2, begin)
    with opened(URLS[0], tmp_path) as store:
        assert [(info.id, info.status) for info in store.sessions()] == [("q", "damaged")]
