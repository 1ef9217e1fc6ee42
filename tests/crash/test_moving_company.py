"""A session with children and keys of the whole store, cut off on its way: nothing of it does anything again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import perdure
from perdure.ops import receiving
from perdure.session.rules.shared import PREFIX
from tests.crash import outside
from tests.crash.test_moving import dying_at

FULL = os.environ.get("PERDURE_STORM") == "full"
POINTS = ["import.begun", "import.part", "import.whole"]
TOPICS = ("tides", "moons")


@perdure.action(effect="once", key=lambda what: what, scope="store")
def pay(what: str) -> str:
    outside.happens(f"pay {what}")
    return what


@perdure.action(effect="once")
def fetch(topic: str) -> str:
    outside.happens(f"fetch-{topic}")
    return topic


def research(s: perdure.Session) -> list[str]:
    s.state["notes"] = ["a note on it"] * 40
    s.save()
    return [fetch(s.input), pay("licence")]


def agent(s: perdure.Session) -> list[list[str]]:
    children = [s.spawn(research, input=topic, key=topic) for topic in TOPICS]
    found = [child.result() for child in children]
    pay("report")
    s.ask("Good?", key="good")
    return found


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(outside, "FILE", tmp_path / "outside")
    monkeypatch.setattr(receiving, "BATCH_BYTES", 400)
    with perdure.open(tmp_path / "source.db") as store:
        assert store.run(agent, "q").status == "waiting"
        store.export_file("q", tmp_path / "file")
    return tmp_path / "file"


def takes_in(place: Path, file: Path) -> None:
    with perdure.open(place / "agents.db") as store:
        store.import_file(file)


def check_half(store: perdure.AgentStore) -> None:
    """Whatever is there whole has with it all that it needs."""
    whole = {info.id for info in store.sessions() if info.status != "damaged"}
    keys = {session for session in whole if session.startswith(PREFIX)}
    children = {f"q/{topic}" for topic in TOPICS}
    assert not whole & children or len(keys) == 2, whole
    assert "q" not in whole or children <= whole, whole


@pytest.mark.storm
@pytest.mark.parametrize("point", POINTS)
def test_it_goes_on_and_does_nothing_again(point: str, file: Path, tmp_path: Path) -> None:
    before, hit, place = outside.seen(), 0, tmp_path / "target"
    new(place)
    while dying_at(point, hit + 1, lambda: takes_in(place, file)):
        hit += 1 if FULL else 2
        with perdure.open(place / "agents.db") as store:
            check_half(store)
            if point != "import.whole" or "q" not in {info.id for info in store.sessions()}:
                store.import_file(file)
            (question,) = store.questions("q")
            store.answer("q", question.seq, "yes")
            assert store.run(agent, "q").result == [[topic, "licence"] for topic in TOPICS]
            assert all(store.verify(info.id, read_data=True).ok for info in store.sessions())
        assert outside.seen() == before
        new(place)
    assert hit >= 4


def new(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
