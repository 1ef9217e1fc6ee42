"""Handles of any version in any order, with saves, rollbacks, edits, forks and retention between, against a model.

The model of a branch is the list of its states, each with a version. One can go back to those that were saved, and
leaves what was put in their place. It knows nothing of records.
"""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import perdure
from perdure.errors import NoPointError, VersionError
from perdure.session.keeping import migration as graph
from tests.property.lives import RUNS_MAX, everywhere, live
from tests.property.plays import PLAYS
from tests.property.programs import Program, programs

FULL = os.environ.get("PERDURE_STORM") == "full"

VERSIONS = ("", "1", "2", "3")
EDGES = {("", "1"), ("1", "2"), ("2", "3"), ("3", "1")}
WAYS = {
    ("", "1"): ["1"],
    ("", "2"): ["1", "2"],
    ("", "3"): ["1", "2", "3"],
    ("1", "2"): ["2"],
    ("1", "3"): ["2", "3"],
    ("2", "3"): ["3"],
    ("2", "1"): ["3", "1"],
    ("3", "1"): ["1"],
    ("3", "2"): ["1", "2"],
}

OPERATIONS = st.one_of(
    st.tuples(st.just("open"), st.sampled_from(VERSIONS)),
    st.tuples(st.just("open"), st.sampled_from(VERSIONS)),
    st.tuples(st.just("save"), st.integers(0, 9)),
    st.tuples(st.just("back"), st.integers(0, 9)),
    st.tuples(st.just("operator back"), st.integers(0, 9)),
    st.tuples(st.just("edit"), st.integers(0, 9)),
    st.tuples(st.just("fork"), st.integers(0, 9)),
    st.tuples(st.just("gc"), st.integers(1, 3)),
)


@dataclass
class Branch:
    """The present branch of one session: (number, version, state) of its restore points."""

    opened: str
    points: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)

    @property
    def version(self) -> str:
        return self.points[-1][1] if self.points else self.opened

    @property
    def state(self) -> dict[str, Any]:
        return copy.deepcopy(self.points[-1][2]) if self.points else {}


class Lives:
    """A store and its model."""

    def __init__(self, store: perdure.AgentStore) -> None:
        self.store, self.name = store, "s"
        self.branch: Branch | None = None
        self.version = ""
        self.every: dict[int, dict[str, Any]] = {}
        self.saved: set[int] = set()
        self.dropped = False

    def do(self, what: str, n: Any) -> None:
        if self.branch is None:
            with self.store.session(self.name, version="1" if what != "open" else n):
                pass
            self.branch = Branch("1" if what != "open" else n)
            self.version = self.branch.opened
            return
        getattr(self, what.replace(" ", "_"))(n)

    def newest(self) -> int:
        return self.store.snapshots(self.name)[-1].seq

    def add(self, state: dict[str, Any], version: str) -> None:
        assert self.branch is not None
        seq = self.newest()
        self.branch.points.append((seq, version, copy.deepcopy(state)))
        self.every[seq] = copy.deepcopy(state)

    def comes_to(self, version: str) -> None:
        """What the model makes of an opening by code of this version."""
        assert self.branch is not None
        if version != self.branch.version:
            state, way = self.branch.state, WAYS.get((self.branch.version, version))
            if self.branch.points:
                state["came"] = [*state.get("came", []), *(way or [])]
            self.branch.points.append((-1, version, state))

    def settled(self) -> None:
        """The number of a point that the opening made, if it did."""
        assert self.branch is not None
        if self.branch.points and self.branch.points[-1][0] == -1:
            _, version, state = self.branch.points.pop()
            self.add(state, version)

    def open(self, version: str) -> None:
        assert self.branch is not None
        here = self.branch.version
        if version != here and self.branch.points and (here, version) not in WAYS:
            before = [*self.store.log(self.name)]
            with pytest.raises(VersionError):
                self.store.session(self.name, version=version)
            assert [*self.store.log(self.name)] == before
            return
        self.version = version
        self.save(None)

    def save(self, n: int | None) -> None:
        """Opens, perhaps changes something, and closes."""
        assert self.branch is not None
        self.comes_to_mine()
        with self.store.session(self.name, version=self.version) as s:
            self.settled()
            assert s.state == self.branch.state
            if n is not None:
                s.state["n"] = s.state.get("n", 0) + n + 1
                state = dict(s.state)
        if n is not None:
            self.add(state, self.version)
            self.saved.add(self.newest())

    def comes_to_mine(self) -> None:
        """Another version than that of the last opening may be there after a rollback."""
        assert self.branch is not None
        if (
            self.branch.version != self.version
            and self.branch.points
            and (
                self.branch.version,
                self.version,
            )
            not in WAYS
        ):
            self.version = self.branch.version
        self.comes_to(self.version)

    def _target(self, n: int) -> int | None:
        assert self.branch is not None
        saved = [seq for seq, _, _ in self.branch.points if seq in self.saved]
        return saved[n % len(saved)] if saved else None

    def _left(self, target: int) -> None:
        assert self.branch is not None
        while self.branch.points[-1][0] != target:
            self.branch.points.pop()

    def back(self, n: int) -> None:
        """On an open handle, which goes on there in its own version."""
        self.save(None)
        assert self.branch is not None
        target = self._target(n)
        if target is None:
            return
        version = next(v for seq, v, _ in self.branch.points if seq == target)
        if version != self.version and (version, self.version) not in WAYS:
            return
        with self.store.session(self.name, version=self.version) as s:
            try:
                state = s.rollback(target)
            except NoPointError:
                assert self.dropped
                return
            self._left(target)
            self.comes_to(self.version)
            self.settled()
            assert state == self.branch.state

    def operator_back(self, n: int) -> None:
        target = self._target(n)
        if target is None:
            return
        try:
            self.store.rollback(self.name, target)
        except NoPointError:
            assert self.dropped
            return
        self._left(target)

    def edit(self, n: int) -> None:
        assert self.branch is not None
        self.store.edit(self.name, {"edited": n})
        self.add(self.branch.state | {"edited": n}, self.branch.version)

    def fork(self, n: int) -> None:
        """Goes on in a fork of a point, or of the end."""
        assert self.branch is not None
        target = self._target(n) if n % 2 else None
        into = f"{self.name}f"
        try:
            self.store.fork(self.name, at=target, into=into)
        except NoPointError:
            assert self.dropped
            return
        if target is not None:
            self._left(target)
        self.name = into

    def gc(self, n: int) -> None:
        self.dropped = True
        self.store.gc(self.name, keep_last=n, dry_run=False)

    def check(self) -> None:
        """What the store says of all that was made."""
        assert self.branch is not None
        assert self.store.detail(self.name).version == self.branch.version
        for info in self.store.sessions():
            assert [str(problem) for problem in self.store.verify(info.id).problems] == []
        assert self.store.state_at(self.name) == self.branch.state
        there = {point.seq for point in self.store.snapshots(self.name)}
        for seq, _, state in self.branch.points:
            if seq in there or not self.dropped:
                assert self.store.state_at(self.name, seq) == state
        if not self.dropped and self.name == "s":
            assert {seq: self.store.state_at("s", seq) for seq in self.every} == self.every


@pytest.fixture
def _any_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """From each version to the next there is a step that changes nothing."""
    steps = [graph.Step(f"{n}", f"{n + 1}", "", "same", lambda state: state) for n in range(RUNS_MAX + 5)]
    monkeypatch.setattr(graph, "_steps", {("", step.source, step.target): step for step in steps})


@pytest.mark.usefixtures("_any_version")
@pytest.mark.parametrize("name", [name for name, program in PLAYS.items() if program.form != "script"])
def test_a_play_whose_code_is_renewed_at_each_entry_ends_as_if_unharmed(name: str) -> None:
    assert everywhere(PLAYS[name], want=live(PLAYS[name]), renewing=True) is None


@pytest.mark.storm
@pytest.mark.usefixtures("_any_version")
@settings(
    max_examples=settings().max_examples // 4,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@given(programs(ops_max=5).filter(lambda program: program.form != "script"))
def test_any_program_whose_code_is_renewed_ends_as_if_unharmed(program: Program) -> None:
    assert everywhere(program, want=live(program), pairs=3, renewing=True) is None


def step_to(target: str) -> Any:
    def step(state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "came": [*state.get("came", []), target]}

    return step


@settings(max_examples=600 if FULL else 60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(OPERATIONS, min_size=2, max_size=14))
def test_whatever_is_done_each_point_is_of_its_version(
    monkeypatch: pytest.MonkeyPatch, operations: list[tuple[str, Any]]
) -> None:
    steps = {("", a, b): graph.Step(a, b, "", f"to_{b}", step_to(b)) for a, b in EDGES}
    monkeypatch.setattr(graph, "_steps", steps)
    with perdure.open("memory:") as store:
        lives = Lives(store)
        for what, n in operations:
            lives.do(what, n)
        if lives.branch is not None:
            lives.check()
