"""What differs between two points: whatever the two are, the changes lead from one state to exactly the other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import perdure
from perdure import values
from perdure.errors import NoPointError, SessionUnknownError
from perdure.recovery.difference import ABSENT, Diff
from perdure.session.keeping.snapshot import Reader
from perdure.state.delta import patch
from tests.property.strategies import plain_values


@pytest.fixture
def store():
    with perdure.open("memory:") as opened:
        yield opened


def encoded(state: Any) -> bytes:
    return values.encode(state)


def applied(state: dict[str, Any], diff: Diff) -> dict[str, Any]:
    """The state with the changes applied, each of which finds what it says was there."""
    for change in diff.changes:
        rest = [change.start, change.deleted] if change.op == "splice" else []
        carried = [] if change.value is ABSENT else [copy.deepcopy(change.value)]
        patch(state, [[change.op, [*change.path], *rest, *carried]])
    return state


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plain_values(), plain_values(), plain_values())
def test_the_changes_lead_from_one_to_the_other(one, two, three):
    with perdure.open("memory:") as store:
        for session, states in {"a": (one, two, three), "b": (three, one)}.items():
            with store.session(session) as s:
                for value in states:
                    s.state["x"] = copy.deepcopy(value)
                    s.state[f"y{len(s.state)}"] = [copy.deepcopy(value)]
                    s.checkpoint("here")
        points = {name: [0, *(p.seq for p in store.snapshots(name))] for name in "ab"}
        places = [(name, seq) for name, seqs in points.items() for seq in seqs]
        for session, at in places:
            for other, to in places:
                for was in (False, True):
                    begin, end = at or 1, to or 1
                    if begin == 1 or end == 1:
                        continue
                    diff = store.diff(session, begin, to=end, other=other, was=was)
                    state = applied(store.state_at(session, at), diff)
                    assert encoded(state) == encoded(store.state_at(other, to))
                    assert bool(diff) == (encoded(store.state_at(session, at)) != encoded(state))


def test_of_neighbours_only_the_delta_is_read(store, monkeypatch):
    with store.session("a") as s:
        s.state.update(log=["one"], n=1)
        first = s.save()
        s.state["log"].append("two")
        s.state["n"] = 2
        second = s.save()
        s.state["n"] = 3
    told = [("extend", "$.log", ["two"]), ("set", "$.n", 2)]
    monkeypatch.setattr(Reader, "chunk", None)
    monkeypatch.setattr("perdure.recovery.difference.snapshot", None)
    found = store.diff("a", first, to=second)
    assert [(c.op, c.at, c.value) for c in found.changes] == told
    assert not found.was_known
    assert [(c.op, c.at, c.value) for c in store.diff("a", to=second).changes] == told
    assert [(c.at, c.value) for c in store.diff("a").changes] == [("$.n", 3)]


def test_what_was_there_is_told_when_it_is_asked_for(store):
    with store.session("a") as s:
        s.state.update(plan=["a", "b", "c", "d"], n=1, gone=True)
        s.checkpoint("before")
        s.state["plan"][1:3] = ["x"]
        s.state["n"] = 2
        s.state["new"] = None
        del s.state["gone"]
    found = {c.at: c for c in store.diff("a", "before", was=True).changes}
    assert (found["$.plan"].was, found["$.plan"].value) == (["b", "c"], ["x"])
    assert (found["$.n"].was, found["$.n"].value) == (1, 2)
    assert (found["$.new"].was, found["$.new"].value) == (ABSENT, None)
    assert (found["$.gone"].was, found["$.gone"].value) == (True, ABSENT)


def test_points_of_branches_that_were_left_and_of_forks(store):
    with store.session("a") as s:
        s.state["n"] = 0
        s.checkpoint("zero")
        s.state["n"] = 1
        old = s.save()
        s.rollback("zero")
        s.state["n"] = 2
    store.fork("a", at=old, into="f")
    (change,) = store.diff("a", old, was=True).changes
    assert (change.at, change.was, change.value) == ("$.n", 1, 2)
    (change,) = store.diff("a", other="f", was=True).changes
    assert (change.was, change.value) == (2, 1)
    assert not store.diff("a", old, other="f")
    assert store.diff("a", 1, to="zero").before.seq == 0


def test_what_is_no_point_is_refused(store):
    with store.session("a") as s:
        s.state["n"] = 0
    for at in (1000, 2, "never"):
        with pytest.raises(NoPointError):
            store.diff("a", at)
        with pytest.raises(NoPointError):
            store.diff("a", to=at)
    with pytest.raises(SessionUnknownError):
        store.diff("a", other="b")
