"""A migration, of one session and of a store, is killed at each instant that it names; done again, it is the same."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import perdure
from perdure import faults, values
from perdure.errors import MigrationError
from perdure.log import summary
from perdure.session.keeping import migration as graph
from perdure.session.keeping import reentry
from perdure.testing.lives import forked
from tests.crash import outside

OLD, NEW = "1", "5"
AT_MOST = 4 if os.environ.get("PERDURE_STORM") == "full" else 2
"""So often each point is killed at."""

POINTS = ("migrate.before", "migrate.after", "append.before", "append.inside", "append.after", "edit.before")


@pytest.fixture(autouse=True)
def _steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five versions in a chain, a way around, a dead end, and a step in the middle that refuses one session."""
    monkeypatch.setattr(graph, "_steps", {})
    for way in (("1", "2", "3", "4", "5"), ("2", "2b", "2c", "2d", "5"), ("3", "3b")):
        for source, target in itertools.pairwise(way):
            graph._steps["", source, target] = graph.Step(source, target, "", f"to_{target}", step_to(target))


def step_to(target: str) -> Callable[[dict], None]:
    def step(state: dict) -> None:
        if target == "4" and state.get("odd"):
            raise ValueError("it is odd")
        state["came"] = [*state.get("came", []), target]

    return step


@perdure.action(effect="once")
def pay(n: int) -> int:
    outside.happens(f"pay {n}")
    return n


def worker(version: str) -> Callable[[perdure.Session], None]:
    """It pays in its second step; the old version never comes to the end of that."""

    def agent(s: perdure.Session) -> None:
        if not s.state:
            s.state.update(n=s.input, odd=s.input == 3)
            return
        pay(s.input)
        if version == OLD:
            raise RuntimeError("the old version ends here")
        s.complete(dict(s.state))

    agent.__module__, agent.__qualname__ = "acme.agents", "agent"
    return perdure.steps(version=version)(agent)


SESSIONS = {f"s{n}": n for n in range(1, 5)}


@pytest.fixture(params=["agents.db", "agents"], ids=["sqlite", "file"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with sessions of the old version, each in the middle of a step that has paid."""
    monkeypatch.setattr(outside, "FILE", tmp_path / "outside")
    found = Path(tmp_path, "here", request.param)
    found.parent.mkdir()
    with perdure.open(url_of(found)) as store:
        for session, n in SESSIONS.items():
            assert store.run(worker(OLD), session, input=n).status == "failed"
    return found


def url_of(path: Path) -> str:
    return str(path) if path.suffix else f"file:{path}"


def copy_of(path: Path, folder: Path) -> Path:
    shutil.copytree(path.parent, folder)
    return folder / path.name


def in_a_process(work: Callable[[], None], *, kill: tuple[str, int] | None = None) -> Counter[str]:
    """Does it in a process of its own, which is killed when it comes to this point for the so-manieth time."""
    reached = Counter[str]()

    def hook(point: str) -> None:
        reached[point] += 1
        if kill == (point, reached[point]):
            os.kill(os.getpid(), signal.SIGKILL)

    def live() -> bytes:
        faults.hook = hook
        work()
        return values.encode(dict(reached))

    told, status = forked(live)
    assert bool(status) == (kill is not None), (status, told)
    return Counter(values.decode(told)) if kill is None else Counter()


def whole_store(path: Path) -> Callable[[], None]:
    def work() -> None:
        with perdure.open(url_of(path)) as store:
            store.migrate(NEW, fn=worker(NEW))

    return work


def one_by_one(path: Path) -> Callable[[], None]:
    """The new code opens each; the odd one stays with the old."""

    def work() -> None:
        with perdure.open(url_of(path)) as store:
            for session, n in SESSIONS.items():
                try:
                    store.run(worker(NEW), session)
                except MigrationError:
                    assert n == 3

    return work


def by_hand(path: Path) -> Callable[[], None]:
    def work() -> None:
        with perdure.open(url_of(path)) as store:
            if store.state_at("s1")["n"] == 1:
                store.edit("s1", {"n": 1000})

    return work


def states(path: Path) -> dict[str, tuple[str, bytes]]:
    """The version and the state of each session, which is whole."""
    with perdure.open(url_of(path)) as store:
        for session in SESSIONS:
            assert [str(problem) for problem in store.verify(session).problems] == []
        return {s: (store.detail(s).version, values.encode(store.state_at(s))) for s in SESSIONS}


def ends(path: Path) -> dict[str, bytes]:
    """What comes of each session with the code of its version; each has paid once by then."""
    with perdure.open(url_of(path)) as store:
        found = {}
        for session, n in SESSIONS.items():
            outcome = store.run(worker(OLD if n == 3 else NEW), session)
            assert outcome.status == ("failed" if n == 3 else "completed"), outcome
            assert outcome.result is None or outcome.result.get("came", [])[-1:] == [NEW]
            found[session] = values.encode(outcome.result)
    assert outside.effects()["pay"] == len(SESSIONS)
    assert len(set(outside.seen())) == len(SESSIONS)
    return found


@pytest.mark.parametrize("doing", [whole_store, one_by_one, by_hand])
def test_killed_anywhere_it_is_done_again(
    doing: Callable[[Path], Callable[[], None]], path: Path, tmp_path: Path
) -> None:
    before = states(path)
    whole = copy_of(path, tmp_path / "whole")
    reached = in_a_process(doing(whole))
    after = states(whole)
    assert before["s3"] == after["s3"]
    assert before != after
    found = ends(whole)
    points = [point for point in POINTS if reached[point]]
    assert {"migrate.after", "edit.before"} & {*points} == {
        whole_store: {"migrate.after"},
        one_by_one: set(),
        by_hand: {"edit.before"},
    }[doing]
    for kill in ((point, times) for point in points for times in range(1, min(reached[point], AT_MOST) + 1)):
        killed = copy_of(path, tmp_path / "-".join(map(str, kill)))
        in_a_process(doing(killed), kill=kill)
        if doing is not one_by_one:
            between = states(killed)
            assert all(between[session] in (before[session], after[session]) for session in SESSIONS), kill
        in_a_process(doing(killed))
        assert states(killed) == after, kill
        assert ends(killed) == found, kill


def test_all_the_points_of_a_migration_are_killed_at() -> None:
    assert {point for point in faults.POINTS if point.startswith(("migrate.", "edit."))} <= {*POINTS}


@pytest.mark.parametrize("wrong", ["starts from the state before", "forgets the version", "keeps half of a failed way"])
def test_a_build_that_is_wrong_is_caught(wrong: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if wrong == "starts from the state before":
        monkeypatch.setattr(reentry, "REPLACING", frozenset())
    elif wrong == "forgets the version":
        monkeypatch.setattr(summary, "_replaced", lambda *_: {})
    else:
        monkeypatch.setattr(graph, "taken", half_way)
    before = states(path)
    with pytest.raises((AssertionError, perdure.PerdureError)):  # noqa: PT012 - wherever it shows
        whole_store(path)()
        after = states(path)
        assert after["s3"] == before["s3"]
        whole_store(path)()
        assert states(path) == after
        ends(path)


def half_way(state: dict, steps: list[graph.Step]) -> dict:
    for step in steps:
        try:
            step.fn(state)
        except ValueError:
            break
    return state
