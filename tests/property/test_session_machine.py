"""Any program of changes, saves, checkpoints, rollbacks and openings leaves what a plain model has.

The model knows nothing of deltas and keyframes: a point is a whole deep copy, a branch is a list of points. States are
compared by their encoded bytes, so that type, value and order count.
"""

from __future__ import annotations

import functools
import itertools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import perdure
from perdure import limits, values
from perdure.errors import PerdureError, UnstorableError
from perdure.runtime.store import AgentStore
from perdure.session import face
from perdure.session.keeping.keyframer import Keyframer
from perdure.session.keeping.snapshot import Snapshot
from perdure.stores import Store, open_store
from perdure.values import blobs
from tests.property import strategies

NAMES = st.sampled_from(["plan", "notes", "log"])
POINTS = st.sampled_from(["a", "b"])
KEYFRAME_EVERY = 3


def _copy(value: Any) -> Any:
    """A deep copy: that of `copy` makes a read-only array writable; that the codec is exact is proved elsewhere."""
    return values.decode(values.encode(value))


class _Failure(Exception):  # noqa: N818
    """What ends a `with` block badly."""


class SessionMachine(RuleBasedStateMachine):
    """One session of one store, and the model of it."""

    def __init__(self, place: Callable[[], Store]) -> None:
        super().__init__()
        self.store = AgentStore(place())
        self.now: dict[str, Any] = {}
        self.saved: dict[str, Any] = {}
        self.points: dict[int, dict[str, Any]] = {}
        self.branch: list[tuple[int, str | None]] = []
        self.branches: dict[int, list[tuple[int, str | None]]] = {}
        self.session = "machine"
        self.left: dict[str, dict[int, dict[str, Any]]] = {}
        self.s: Any = None

    @initialize()
    def begin(self) -> None:
        self._open()

    def _open(self) -> None:
        self.s = self.store.session(self.session, append_only=["log"])
        self.s.__enter__()
        self.now = _copy(self.saved)

    def _point(self, seq: int, name: str | None = None) -> None:
        self.saved = _copy(self.now)
        self.points[seq] = _copy(self.now)
        self.branch.append((seq, name))
        self.branches[seq] = list(self.branch)

    # --- changes: the same one here and there

    @rule(name=NAMES, value=strategies.values())
    def set_part(self, name: str, value: Any) -> None:
        self.s.state[name], self.now[name] = value, _copy(value)

    @rule(name=NAMES)
    def delete_part(self, name: str) -> None:
        self.s.state.pop(name, None)
        self.now.pop(name, None)

    @rule(value=strategies.plain_values(), times=st.integers(1, 3))
    def append(self, value: Any, times: int) -> None:
        for state in (self.s.state, self.now):
            if not isinstance(state.get("log"), list):
                state["log"] = []
            state["log"] += [_copy(value) for _ in range(times)]

    @rule(
        value=strategies.values(),
        where=st.integers(0, 5),
        what=st.sampled_from(["replace", "insert", "remove", "deeper"]),
    )
    def change_inside(self, value: Any, where: int, what: str) -> None:
        for state in (self.s.state, self.now):
            if not isinstance(state.get("notes"), dict):
                state["notes"] = {"items": []}
            items = state["notes"].setdefault("items", [])
            if not isinstance(items, list):
                items = state["notes"]["items"] = []
            _edit(items, where, what, _copy(value))

    @rule()
    def reorder_parts(self) -> None:
        for state in (self.s.state, self.now):
            if state:
                first = next(iter(state))
                state[first] = state.pop(first)

    # --- saves

    @rule()
    def save(self) -> None:
        changed = values.encode(self.now) != values.encode(self.saved)
        seq = self.s.save()
        assert (seq is not None) == changed
        if seq is not None:
            self._point(seq)

    @rule(name=POINTS)
    def checkpoint(self, name: str) -> None:
        self._point(self.s.checkpoint(name), name)

    @rule()
    def refused_value(self) -> None:
        self.s.state["odd"] = [{"deep": object()}]
        with pytest.raises(UnstorableError, match=r"\$\.odd\[0\]\.deep"):
            self.s.save()
        del self.s.state["odd"]

    # --- going back

    @precondition(lambda self: self.branch)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        named = sorted({name for _, name in self.branch if name})
        to: Any = data.draw(st.sampled_from([0, -1, *(seq for seq, _ in self.branch), *named]))
        length = len(self.branch)
        if isinstance(to, str):
            length = max(i for i, (_, name) in enumerate(self.branch, 1) if name == to)
        elif to > 0:
            length = next(i for i, (seq, _) in enumerate(self.branch, 1) if seq == to)
        del self.branch[length:]
        self.s.rollback(to)
        self.saved = _copy(self.points[self.branch[-1][0]])
        self.now = _copy(self.saved)

    # --- closing and opening again

    @rule()
    def close_and_open(self) -> None:
        changed = values.encode(self.now) != values.encode(self.saved)
        self.s.__exit__(None, None, None)
        if changed:
            self._point(self.store.snapshots(self.session)[-1].seq)
        assert len(self.store.snapshots(self.session)) == len(self.points)
        self._open()

    @rule()
    def fail_and_open(self) -> None:
        error = _Failure()
        self.s.__exit__(_Failure, error, None)
        self._open()

    @rule()
    def drop_and_open(self) -> None:
        self.s._scope.__exit__(None, None, None)
        self.s.close()
        self._open()

    @precondition(lambda self: self.points)
    @rule(data=st.data())
    def go_on_in_a_fork(self, data: st.DataObject) -> None:
        """Of a point of any branch. What is left behind stays as it is."""
        seq = data.draw(st.sampled_from(sorted(self.points)))
        self.s._scope.__exit__(None, None, None)
        self.s.close()
        self.left[self.session] = self.points
        into = f"fork {len(self.left)}"
        self.store.fork(self.session, at=seq, into=into)
        self.session, self.points = into, {n: state for n, state in self.points.items() if n <= seq}
        self.branch, self.saved = list(self.branches[seq]), _copy(self.points[seq])
        self._open()

    # --- what must hold

    @rule(data=st.data())
    @precondition(lambda self: self.points)
    def any_point_is_there(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(sorted(self.points)))
        assert values.encode(self.store.state_at(self.session, seq)) == values.encode(self.points[seq])

    @invariant()
    def the_state_is_what_the_model_has(self) -> None:
        if self.s is not None:
            assert values.encode(dict(self.s.state)) == values.encode(self.now)

    def teardown(self) -> None:
        try:
            if self.s is not None:
                self.s._scope.__exit__(None, None, None)
                self.s.close()
                found = {seq: values.encode(self.store.state_at(self.session, seq)) for seq in self.points}
                assert found == {seq: values.encode(state) for seq, state in self.points.items()}
                assert values.encode(self.store.state_at(self.session)) == values.encode(self.saved)
                self._check_what_was_left()
        finally:
            self.store.close()

    def _check_what_was_left(self) -> None:
        for session, points in self.left.items():
            found = {seq: values.encode(self.store.state_at(session, seq)) for seq in points}
            assert found == {seq: values.encode(state) for seq, state in points.items()}
        for session in (*self.left, self.session) if self.left else ():
            assert [str(problem) for problem in self.store.verify(session, read_data=True).problems] == []


def _edit(items: list[Any], where: int, what: str, value: Any) -> None:
    if what == "insert" or not items:
        items.insert(where, value)
    elif what == "remove":
        del items[where % len(items)]
    elif what == "deeper" and isinstance(items[where % len(items)], (list, dict)):
        inner = items[where % len(items)]
        inner.append(value) if isinstance(inner, list) else inner.update(more=value)
    else:
        items[where % len(items)] = value


def _keyframing() -> Any:
    return mock.patch.object(face, "Keyframer", functools.partial(Keyframer, every=KEYFRAME_EVERY))


def _run(place: Callable[[], Store], *, examples: int, phases: tuple[Phase, ...] = tuple(Phase)) -> None:
    with _keyframing():
        run_state_machine_as_test(
            functools.partial(SessionMachine, place),  # type: ignore[arg-type]
            settings=settings(
                max_examples=settings().max_examples * examples // 100,
                stateful_step_count=30,
                phases=phases,
                database=None,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )


@pytest.mark.storm
def test_in_memory() -> None:
    _run(lambda: open_store("memory:"), examples=80)


def test_in_memory_sealed() -> None:
    _run(lambda: open_store("memory:", keys=bytes(range(32))), examples=20)


@pytest.mark.storm
@pytest.mark.parametrize(("url", "examples"), [("{}.db", 15), ("file:{}", 10)], ids=["sqlite", "file"])
def test_on_disk(url: str, examples: int) -> None:
    numbers = itertools.count()
    folder = Path(tempfile.mkdtemp())
    try:
        _run(lambda: open_store(url.format(folder / f"{next(numbers)}")), examples=examples)
    finally:
        shutil.rmtree(folder)


@pytest.mark.storm
def test_with_leaves_that_are_stored_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all of them: of a few bytes and more, whatever a dictionary has."""
    monkeypatch.setattr(limits, "BLOB_BYTES_MIN", 20)
    monkeypatch.setattr(blobs, "TRIED_BYTES_MAX", 0)
    _run(lambda: open_store("memory:"), examples=20)


# --- controls -------------------------------------------------------------------------------------------------------


def _finds_a_difference() -> bool:
    try:
        _run(lambda: open_store("memory:"), examples=80, phases=(Phase.generate,))
    except (AssertionError, PerdureError, LookupError):
        return True
    return False


def test_so_many_saves_make_keyframes() -> None:
    with _keyframing(), AgentStore(open_store("memory:")) as store:
        with store.session("machine") as s:
            for n in range(3 * KEYFRAME_EVERY):
                s.state["n"] = n
                s.save()
        assert store.backend.keyframes("machine")


def test_a_delta_that_is_left_out_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Snapshot.__init__

    def wrong(self: Snapshot, manifest: Any, encoded: list[bytes], *rest: Any, **named: Any) -> None:
        right(self, manifest, encoded[1:] if len(encoded) > 1 else encoded, *rest, **named)

    monkeypatch.setattr(Snapshot, "__init__", wrong)
    assert _finds_a_difference()


def test_a_shadow_that_moves_before_the_commit_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = perdure.Session._save

    def wrong(self: Any, name: str | None, reason: str | None) -> Any:
        self._core.shadow.advance(self._core._changes())
        return right(self, name, reason)

    monkeypatch.setattr(perdure.Session, "_save", wrong)
    assert _finds_a_difference()


def test_a_rollback_that_keeps_the_state_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = perdure.Session.rollback

    def wrong(self: Any, to: str | int, **options: Any) -> Any:
        kept = dict(self.state)
        right(self, to, **options).update(kept)

    monkeypatch.setattr(perdure.Session, "rollback", wrong)
    assert _finds_a_difference()
