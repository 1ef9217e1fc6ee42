"""What another session takes over from branches and effects that are left: undone once, repeated never."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.recovery import carried
from perdure.testing.lives import forked
from tests.restoring.damaged import PAID, Rows, look, pay_by_key, seqs_of
from tests.restoring.test_rungs import big, lose_chunk_of


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    PAID.clear()
    yield tmp_path / "agents.db"
    PAID.clear()


# --- another branch ---------------------------------------------------------------------------------------------------


@perdure.steps
def reading(s: perdure.Session) -> None:
    """Keeps large parts, each paid for, each of a step of its own."""
    n = s.state["n"] = s.state.get("n", 0) + 1
    s.state[f"book {n}"] = [pay_by_key(f"book {n}"), big(f"{n}")]
    look(sum(len(part[1]) for name, part in s.state.items() if name != "n"))
    if n == 1 and s.strategy is None:
        s.checkpoint("early")
        s.ask("Is that the right way?", key="way", choices=["yes"])
    if n == 5:
        s.ask("Go on?", key="go", choices=["yes"])
    if n == 6:
        s.complete(sorted(s.state))


def two_branches(path: Path) -> int:
    """The session `q`, of which retention has left the newest snapshot, and an early one of a branch that was left."""
    with perdure.open(path) as store:
        assert store.run(reading, "q").status == "waiting"
        early = store.snapshots("q")[-1].seq
        store.rollback("q", 0, by="alex", strategy="another")
        assert store.run(reading, "q").status == "waiting"
        store.gc("q", keep_last=1, dry_run=False)
    assert {f"book {n}": 1 for n in range(1, 6)} == PAID
    return early


def test_where_no_snapshot_of_the_present_branch_is_whole_one_of_another_branch_is_gone_on_from(path: Path) -> None:
    early = two_branches(path)
    lose_chunk_of(path, "book 4")
    rows = Rows(path, "q")
    before = rows.records()
    with perdure.open(path) as store:
        waits = store.run(reading, "q")
        told = waits.restored
        assert told is not None
        assert (told.session, told.rung, told.source, told.lost) == ("q~r1", "replaced", "q", 0)
        assert [one.seq for one in told.skipped] != []
        opening = [entry for entry in store.log("q~r1") if entry.kind == "opened"][-1]
        assert opening["origin"]["seq"] == early
        store.answer("q~r1", "way", "yes")
        assert store.run(reading, "q").status == "waiting"
        store.answer("q~r1", "go", "yes")
        done = store.run(reading, "q")
        assert done.result == [*(f"book {n}" for n in range(1, 7)), "n"]
    assert {f"book {n}": 1 for n in range(1, 7)} == PAID, "what was paid on either branch is paid"
    assert rows.records()[: len(before)] == before, "the damaged one is written over"


def test_what_was_paid_on_the_branch_that_cannot_be_had_any_more_is_what_the_keys_answer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without what is carried over, the test above fails."""
    monkeypatch.setattr(carried, "_counts", lambda *_: False)
    two_branches(path)
    lose_chunk_of(path, "book 4")
    with perdure.open(path) as store:
        store.run(reading, "q")
        store.answer("q~r1", "way", "yes")
        store.run(reading, "q")
    assert PAID["book 3"] == 2


# --- undos ------------------------------------------------------------------------------------------------------------

LEDGER = "PERDURE_TEST_LEDGER"


def note(line: str) -> None:
    with Path(os.environ[LEDGER]).open("a") as file:
        file.write(f"{line}\n")


def noted() -> Counter[str]:
    """What has happened in the world. A service that knows idempotency keys does nothing twice under one."""
    lines = [tuple(line.split(" under ")) for line in Path(os.environ[LEDGER]).read_text().splitlines()]
    return Counter(what for what, _ in set(lines))


@perdure.action(effect="idempotent")
def release(room: str, idempotency_key: perdure.IdempotencyKey | None = None) -> None:
    note(f"release {room} under {idempotency_key}")


@perdure.action(effect="idempotent", undo=release)
def book(room: str, idempotency_key: perdure.IdempotencyKey | None = None) -> str:
    note(f"book {room} under {idempotency_key}")
    return f"booked {room}"


@perdure.agent
def script(s: perdure.Session) -> list[str]:
    done = s.state["done"] = [book("blue")]
    s.save()
    done.append(book("red"))
    s.save()
    done.append(book("green"))
    s.ask("Go on?", key="go", choices=["yes"])
    return done


@perdure.steps
def steps(s: perdure.Session) -> None:
    done = s.state.setdefault("done", [])
    if len(done) == 3:
        s.ask("Go on?", key="go", choices=["yes"])
        s.complete(done)
        return
    done.append(book(("blue", "red", "green")[len(done)]))


AGENTS = pytest.mark.parametrize("agent", [script, steps], ids=["script", "steps"])
RESULT = ["booked blue", "booked red", "booked green"]


@pytest.fixture
def harmed(path: Path, monkeypatch: pytest.MonkeyPatch, agent: Any) -> Path:
    """The session `q`: of two rooms it cannot be read any more that they were next, only that they are booked."""
    monkeypatch.setenv(LEDGER, str(path.parent / "ledger"))
    with perdure.open(path) as store:
        assert store.run(agent, "q").status == "waiting"
        points = seqs_of(store, "q", "saved")
    Rows(path, "q").spoil(*points)  # the states, and no start of an effect
    return path


def to_its_end(path: Path, agent: Any) -> Any:
    with perdure.open(path) as store:
        for _ in range(10):
            outcome = store.run(agent, "q", restore="fresh-start")
            if outcome.status != "waiting":
                return outcome.result
            for asked in outcome.questions:
                if asked.kind == "doubt":
                    store.settle(asked.session, asked.seq, "not-done", by="truth")
                else:
                    store.answer(asked.session, asked.seq, "yes")
    raise AssertionError("it asks for ever")


def stands() -> Counter[str]:
    """How often each room is booked and not released."""
    world = noted()
    return Counter({room: world[f"book {room}"] - world[f"release {room}"] for room in ("blue", "red", "green")})


@AGENTS
def test_what_can_be_undone_is_undone_once_before_the_code_comes_to_it_again(agent: Any, harmed: Path) -> None:
    assert to_its_end(harmed, agent) == RESULT
    assert stands() == {"blue": 1, "red": 1, "green": 1}
    world = noted()
    assert world["release green"] == 1, "it was behind the damage"
    assert max(world.values()) <= 2


@AGENTS
@pytest.mark.parametrize("point", ["restore.fenced", "effect.before", "effect.after"])
@pytest.mark.parametrize("times", [1, 2])
def test_killed_on_the_way_each_is_undone_once_all_the_same(agent: Any, point: str, times: int, harmed: Path) -> None:
    def life() -> bytes:
        left = [times]

        def kill(reached: str) -> None:
            left[0] -= reached == point
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        faults.hook = kill
        to_its_end(harmed, agent)
        return b""

    forked(life)
    assert to_its_end(harmed, agent) == RESULT
    assert stands() == {"blue": 1, "red": 1, "green": 1}
    assert noted()["release green"] == 1


@AGENTS
def test_a_build_that_carries_no_undo_over_is_noticed(
    agent: Any, harmed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried, "rolled_back", _owing_nothing(carried.rolled_back))
    to_its_end(harmed, agent)
    assert noted()["release green"] == 0, "the tests above would not see it"


def _owing_nothing(right: Any) -> Any:
    def rolled_back(tip: Any, target: Any, actions: Any, **told: Any) -> Any:
        del actions
        return right(tip, target, [], **told)

    return rolled_back
