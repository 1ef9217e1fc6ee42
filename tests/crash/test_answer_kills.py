"""A run that asks, the process that answers it, and the one that goes on are each killed at every instant they name.

What was answered is answered once, whoever comes next; and a process that was told nothing may answer again.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import perdure
from perdure import faults, values
from perdure.errors import UndecidedError
from perdure.stores import Store
from perdure.stores.file import FileStore
from perdure.stores.sqlite import SqliteStore
from perdure.testing.broken import Passing
from perdure.testing.lives import forked
from tests.crash import outside

EVERY = 1 if os.environ.get("PERDURE_STORM") == "full" else 4
"""Of so many instants one is tried: a number that has nothing in common with the pattern in which they come."""

SEGMENT_BYTES = 1_000
"""Hardly more than a record: nearly every commit begins a segment."""

KINDS: dict[str, Callable[[Path], Store]] = {
    "sqlite": lambda folder: SqliteStore(folder / "agents.db"),
    "file": lambda folder: FileStore(folder / "agents", segment_bytes=SEGMENT_BYTES),
}


@perdure.action(effect="idempotent")
def send(n: int) -> int:
    outside.happens(f"send {n}")
    return n


def agent(s: perdure.Session) -> list[object]:
    said: list[object] = [send(1), s.ask("Go on?", key="go", choices=["yes", "no"])]
    s.state["said"] = said
    s.save()
    return [*said, send(2), s.ask("How many?", key="many")]


def runs(store: perdure.AgentStore) -> None:
    store.run(agent, "a")


def answers(key: str, said: object) -> Callable[[perdure.AgentStore], None]:
    def work(store: perdure.AgentStore) -> None:
        with suppress(UndecidedError):  # a process that was killed had answered
            store.answer("a", key, said)

    return work


LIFE = [runs, answers("go", "yes"), runs, answers("many", 3), runs]
"""What one process after another does."""


def killed(
    open_it: Callable[[Path], Store], place: Path, work: Callable[[perdure.AgentStore], None], *, at: str, hit: int
) -> Counter[str]:
    """Does it in a process that is killed there; what it reached, if it was not."""
    reached = Counter[str]()

    def hook(point: str) -> None:
        reached[point] += 1
        if (point, reached[point]) == (at, hit):
            os.kill(os.getpid(), signal.SIGKILL)

    def life() -> bytes:
        faults.hook = hook
        with perdure.AgentStore(open_it(place)) as store:
            work(store)
        return values.encode(dict(reached))

    told, status = forked(life)
    assert bool(status) == bool(at), told.decode(errors="replace")
    return Counter(values.decode(told)) if told else Counter()


@pytest.fixture(params=KINDS)
def open_it(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Store]:
    monkeypatch.setattr(outside, "FILE", tmp_path / "outside")
    return KINDS[request.param]


def instants(open_it: Callable[[Path], Store], place: Path) -> Iterator[tuple[int, str, int, Path]]:
    """(which process, at which point, its hit, the store as the process finds it)."""
    for number, work in enumerate(LIFE):
        before = place.with_name(f"before {number}")
        shutil.copytree(place, before)
        reached = killed(open_it, place, work, at="", hit=0)
        for point, times in reached.items():
            for hit in range(1, times + 1):
                yield number, point, hit, before


def finish(open_it: Callable[[Path], Store], place: Path, *, first: int) -> None:
    with perdure.AgentStore(open_it(place)) as store:
        for work in LIFE[first:]:
            work(store)
        assert store.run(agent, "a").result == [1, "yes", 2, 3]
        log = list(store.log("a"))
        assert Counter(e.kind for e in log if e.kind in ("asked", "answered")) == {"asked": 2, "answered": 2}
        assert store.verify("a", read_data=True).ok


@pytest.mark.storm
@pytest.mark.timeout(600)
def test_killed_anywhere_it_is_answered_once(open_it: Callable[[Path], Store], tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    tried = Counter[str]()
    for number, point, hit, before in itertools.islice(instants(open_it, tmp_path / "whole"), 0, None, EVERY):
        place = tmp_path / "killed"
        shutil.copytree(before, place)
        outside.clear()
        killed(open_it, place, LIFE[number], at=point, hit=hit)
        finish(open_it, place, first=number)
        assert number == 4 or outside.effects()["send"] <= 3
        shutil.rmtree(place)
        tried[point] += 1
    assert {"append.before", "append.inside", "append.after"} <= {*tried}
    assert EVERY > 1 or tried["send.after"] == 2
    if open_it is KINDS["file"]:
        assert min(tried["rotate.inside"], tried["rotate.after"]) > 1


class AnswersTwice(Passing):
    """Takes an answer that it has already."""

    def send(self, session: str, content: bytes, *, mark: bytes | None = None) -> int | None:
        return self.right.send(session, content)


def test_a_store_that_takes_an_answer_twice_is_caught(tmp_path: Path) -> None:
    def open_it(place: Path) -> Store:
        return AnswersTwice(SqliteStore(place / "agents.db"))

    killed(open_it, tmp_path, runs, at="", hit=0)
    killed(open_it, tmp_path, answers("go", "yes"), at="send.after", hit=1)
    with pytest.raises((AssertionError, perdure.PerdureError)):
        finish(open_it, tmp_path, first=1)
