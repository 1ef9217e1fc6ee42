"""The rungs on a log that can be read: an earlier snapshot, missing parts, migrations, a given point; and kills."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.errors import DamageError, MigrationError, NoPointError, RefusedError, SuspendedError
from perdure.recovery import Hooks, RestorePolicy
from perdure.runtime.restoring import handle_of
from perdure.session.keeping.snapshot import Reader, manifest_of
from perdure.state import keyframe
from perdure.testing.lives import forked
from tests.restoring.damaged import PAID, Rows, look, pay, script, steps


@pytest.fixture
def path(tmp_path: Path) -> Path:
    PAID.clear()
    return tmp_path / "agents.db"


def big(name: str) -> str:
    """Large enough for a chunk of its own."""
    return "".join(hashlib.sha512(f"{name} {n}".encode()).hexdigest() for n in range(400))


# --- a point that is asked for ----------------------------------------------------------------------------------------


@perdure.steps
def counting(s: perdure.Session) -> None:
    n = s.state["n"] = s.state.get("n", 0) + 1
    s.checkpoint(f"n{n}")
    if n == 3:
        s.ask("Go on?", key="go", choices=["yes"])
    if n == 4:
        s.complete(n)


def test_a_run_goes_back_to_the_point_it_was_given_once(path: Path) -> None:
    with perdure.open(path) as store:
        store.run(counting, "q")
        ends = [one.seq for one in store.snapshots("q") if one.name is None]
        told = store.run(counting, "q", restore=f"at:{ends[0]}").restored
        assert told is not None
        assert (told.seq, told.rung) == (ends[0], "at")
        (back,) = [entry for entry in store.log("q") if entry.kind == "rolled_back"]
        assert (back["to"], back["by"], back["restored"]["rung"]) == (ends[0], "restore", "at")
        named = store.run(counting, "q", restore="at:n2").restored
        assert named is not None


def test_a_point_that_is_not_there_changes_nothing(path: Path) -> None:
    with perdure.open(path) as store:
        store.run(counting, "q")
        before = store.backend.head("q").seq
        with pytest.raises(NoPointError):
            store.run(counting, "q", restore="at:nowhere")
        with pytest.raises(DamageError, match="is new"):
            store.run(counting, "new", restore="at:3")
        assert store.backend.head("q").seq == before
        assert [one.id for one in store.sessions()] == ["q"]


def test_a_point_is_for_one_run(path: Path) -> None:
    again = perdure.steps(restore=RestorePolicy("at", at=3))(lambda s: s.complete(1))
    with perdure.open(path) as store, pytest.raises(RefusedError, match="each time"):
        store.run(again, "q")


def test_what_is_in_doubt_behind_the_point_is_settled_first(path: Path) -> None:
    def in_doubt() -> bytes:
        def agent(s: perdure.Session) -> None:
            s.checkpoint("start")
            pay("ann")

        faults.hook = lambda point: os.kill(os.getpid(), signal.SIGKILL) if point == "effect.after" else None
        perdure.open(path).run(agent, "q")
        return b""

    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        return pay("ann")

    forked(in_doubt)
    with perdure.open(path) as store:
        waits = store.run(agent, "q", restore="at:start")
        assert waits.status == "waiting"
        (doubt,) = waits.questions
        assert doubt.kind == "doubt"
        store.settle("q", doubt.seq, "done", result="paid ann")
        after = store.run(agent, "q", restore="at:start")
        assert after.status == "waiting", "the effect stands on the branch that was left"
        store.answer("q", after.questions[0].seq, "reuse")
        assert store.run(agent, "q").result == "paid ann"
    assert PAID["ann"] == 0, "nothing was paid in this process"


# --- migrations -------------------------------------------------------------------------------------------------------


def renamed(state: dict[str, Any]) -> dict[str, Any]:
    if state["n"] > 2:
        raise ValueError("more than two")
    return {"count": state["n"]}


def test_a_migration_that_fails_goes_back_only_if_the_policy_says_so(path: Path) -> None:
    @perdure.steps(version="2")
    def newer(s: perdure.Session) -> None:
        s.state["count"] += 1
        if s.state["count"] == 5:
            s.complete(s.state["count"])

    @perdure.steps(version="1")
    def older(s: perdure.Session) -> None:
        s.state["n"] = s.state.get("n", 0) + 1
        if s.state["n"] == 4:
            raise RuntimeError("the old code ends")

    perdure.migration("1", "2", agent=newer)(renamed)
    with perdure.open(path) as store:
        store.run(older, "q")
        before = store.backend.head("q").seq
        with pytest.raises(MigrationError, match="more than two"):
            store.run(newer, "q")
        assert store.backend.head("q").seq == before
        done = store.run(newer, "q", restore=RestorePolicy(back_for_migration=True))
        assert done.result == 5
        assert done.restored is not None
        assert done.restored.rung == "earlier"
        assert "more than two" in done.restored.skipped[0].why
        (back,) = [entry for entry in store.log("q") if entry.kind == "rolled_back"]
        assert store.state_at("q", back["to"]) == {"n": 2}


def test_where_no_snapshot_can_be_migrated_nothing_is_changed(path: Path) -> None:
    @perdure.steps(version="2")
    def newer(s: perdure.Session) -> None:
        s.complete(s.state)

    @perdure.steps(version="1")
    def older(s: perdure.Session) -> None:
        s.state["n"] = s.state.get("n", 10) + 1
        if s.state["n"] == 14:
            raise RuntimeError("the old code ends")

    perdure.migration("1", "2", agent=newer)(renamed)
    with perdure.open(path) as store:
        store.run(older, "q")
        before = store.backend.head("q").seq
        with pytest.raises(MigrationError):
            store.run(newer, "q", restore=RestorePolicy(back_for_migration=True))
        assert store.backend.head("q").seq == before


# --- a state of which chunks are lost ---------------------------------------------------------------------------------


@perdure.steps
def reading(s: perdure.Session) -> None:
    """Keeps large parts, each of a step of its own."""
    n = s.state["n"] = s.state.get("n", 0) + 1
    if n > 1:
        s.state[f"book {n}"] = big(f"{n}")
    look(sum(len(part) for name, part in s.state.items() if name != "n"))
    if n == 5:
        s.ask("Go on?", key="go", choices=["yes"])
    if n == 6:
        s.complete(sorted(s.state))


def thinned(path: Path, *, named: str = "") -> list[int]:
    """The session `q` at its question, of which retention has left the newest snapshot, and that of this name."""
    with perdure.open(path) as store:
        store.run(reading, "q")
        points = [one.seq for one in store.snapshots("q")]
        if named:
            store.checkpoint("q", named, at=points[1])
        store.gc("q", keep_last=1, dry_run=False)
        return [one.seq for one in store.snapshots("q")]


def lose_chunk_of(path: Path, part: str) -> None:
    """Loses the chunk that holds this part in the newest keyframe."""
    with perdure.open(path) as store:
        backend = store.backend
        of, record = backend.keyframes("q")[-1]
        reader, asked = Reader(backend, "q"), []

        def load(digest: bytes) -> bytes:
            asked.append(digest)
            return reader.chunk(digest)

        keyframe.restore(manifest_of(reader, of, record), load, part=part)
    for digest in asked:
        Rows(path, "q").change("DELETE FROM chunks WHERE digest = ?", digest)


def test_a_state_of_which_a_chunk_is_lost_leads_to_an_earlier_one(path: Path) -> None:
    *_, first, newest = thinned(path, named="early")
    lose_chunk_of(path, "book 4")
    with perdure.open(path) as store:
        told = store.run(reading, "q").restored
        assert told is not None
        assert (told.rung, told.seq, told.session) == ("earlier", first, "q")
        assert [one.seq for one in told.skipped] == [newest]
        (back,) = [entry for entry in store.log("q") if entry.kind == "rolled_back"]
        assert (back["to"], back["by"], back["restored"]["rung"]) == (first, "restore", "earlier")
        store.answer("q", "go", "yes")
        assert store.run(reading, "q").result == ["book 2", "book 3", "book 4", "book 5", "book 6", "n"]


def test_parts_that_cannot_be_had_are_named_if_the_policy_allows_it(path: Path) -> None:
    thinned(path)
    lose_chunk_of(path, "book 3")

    @perdure.steps
    def careful(s: perdure.Session) -> None:
        assert s.restored is not None
        if "book 3" in s.state:
            len(s.state["book 3"])
        s.complete([*s.restored.missing, *sorted(s.state)])

    with perdure.open(path) as store:
        before = store.backend.head("q").seq
        with pytest.raises(DamageError):
            store.run(careful, "q")
        edits = [entry for entry in store.log("q", after=before) if entry.kind in ("edited", "rolled_back")]
        assert edits == [], "off without the policy"
        done = store.run(careful, "q", restore=RestorePolicy(partial=True), accept_change=True)
        told = done.restored
        assert told is not None
        assert (told.rung, told.missing) == ("partial", ("book 3",))
        assert done.result == ["book 3", "book 2", "book 4", "n"]


def test_after_parts_are_missing_the_like_of_each_effect_is_asked_about(path: Path) -> None:
    @perdure.steps
    def forgetful(s: perdure.Session) -> None:
        """Knows what it has paid by the part that is lost."""
        s.state.setdefault("n", 0)
        s.state["n"] += 1
        if "paid" not in s.state:
            s.state["paid"] = [pay("ann"), big("a")]
        if s.restored is None and s.state["n"] == 3:
            raise RuntimeError("the first life ends")
        if s.state["n"] == 3:
            s.complete(s.state["paid"][0])

    with perdure.open(path) as store:
        store.run(forgetful, "q")
        store.gc("q", keep_last=1, dry_run=False)
    lose_chunk_of(path, "paid")
    with perdure.open(path) as store:
        waits = store.run(forgetful, "q", restore=RestorePolicy(partial=True))
        assert waits.status == "waiting"
        assert "may have happened" in waits.questions[0].prompt
        store.settle("q", waits.questions[0].seq, "done", result="paid ann")
        assert store.run(forgetful, "q").result == "paid ann"
    assert PAID == {"ann": 1}


# --- handles and children ---------------------------------------------------------------------------------------------


def test_a_handle_is_not_replaced_unless_it_is_asked_for(path: Path) -> None:
    with perdure.open(path) as store:
        for number in range(3):
            with store.session("h") as s:
                s.state["n"] = number
                s.save()
    last = Rows(path, "h")
    with perdure.open(path) as store:
        saved = [one.seq for one in store.snapshots("h")]
    last.spoil(saved[-1])
    before = last.records()
    with perdure.open(path) as store:
        with pytest.raises(DamageError):
            store.session("h")
        with store.session("h", restore="latest-valid") as s:
            assert s.id == "h~r1"
            assert s.restored is not None
            assert s.state["n"] == 1
    assert last.records() == before


def test_a_handle_waits_for_doubts_as_an_error() -> None:
    with pytest.raises(SuspendedError):
        handle_of(perdure.Outcome("waiting", reason="before it goes back"))


# --- killed on the way ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", [script, steps], ids=["script", "steps"])
@pytest.mark.parametrize("point", ["restore.fenced", "fork.before", "fork.inside", "fork.after", "append.inside"])
def test_killed_anywhere_one_session_takes_the_place(agent: Any, point: str, path: Path) -> None:
    with perdure.open(path) as store:
        assert store.run(agent, "q").status == "waiting"
        starts = [entry.seq for entry in store.log("q") if entry.kind == "action_started"]
    rows = Rows(path, "q")
    rows.spoil(starts[3])
    before = rows.records()

    def killed() -> bytes:
        faults.hook = lambda met: os.kill(os.getpid(), signal.SIGKILL) if met == point else None
        perdure.open(path).run(agent, "q")
        return b""

    forked(killed)
    with perdure.open(path) as store:
        told = store.run(agent, "q").restored
        assert told is not None
        assert told.session == "q~r1"
        assert {one.id for one in store.sessions()} == {"q", "q~r1"}
        assert store.verify("q~r1", read_data=True).ok
    assert rows.records()[: len(before)] == before
    assert PAID == {"ann": 1, "bob": 1, "cy": 1}


def test_hooks_and_ladder_together(path: Path) -> None:
    """Damage first, then what is no data: the report has both."""

    @perdure.steps(hooks=Hooks(validate=lambda state: state["n"] > 0))
    def agent(s: perdure.Session) -> None:
        n = s.state["n"] = s.state.get("n", 0) + 1
        if n == 4 and s.restored is None:
            raise RuntimeError("the first life ends")
        if n == 5:
            s.complete(n)

    with perdure.open(path) as store:
        store.run(agent, "q")
        newest = store.snapshots("q")[-1].seq
    Rows(path, "q").spoil(newest)
    with perdure.open(path) as store:
        done = store.run(agent, "q")
        assert done.result == 5
        assert done.restored is not None
        assert (done.restored.rung, done.restored.attempts) == ("replaced", 1)
