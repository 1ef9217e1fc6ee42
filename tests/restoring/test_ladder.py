"""Each rung of the ladder: what is gone on from, that the report says so, and that nothing runs twice unasked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import DamageError, RefusedError
from perdure.recovery import RestorePolicy
from tests.restoring import damaged
from tests.restoring.damaged import PAID, Rows, pay, script, seqs_of, steps

AGENTS = pytest.mark.parametrize("agent", [script, steps], ids=["script", "steps"])


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    PAID.clear()
    yield tmp_path / "agents.db"
    PAID.clear()


def filled(path: Path, agent: Any, *, answered: bool = True) -> list[int]:
    """The session `q`: three are paid and it waits, or its question is answered. The records of its starts."""
    with perdure.open(path) as store:
        assert store.run(agent, "q").status == "waiting"
        if answered:
            store.answer("q", "go", "yes", by="tester")
        return seqs_of(store, "q", "action_started")


def driven(
    store: perdure.AgentStore, agent: Any, session: str, *, truth: dict[str, str], restore: str = "latest-valid"
) -> perdure.Outcome:
    """Runs it to its end: doubts and standing effects are decided by what has really happened."""
    outcome = store.run(agent, session, restore=restore)
    for _ in range(20):
        if outcome.status != "waiting":
            return outcome
        for asked in outcome.questions:
            name = next((name for name in truth if f"to='{name}'" in asked.prompt.partition(": on a branch")[0]), "")
            if asked.kind == "doubt":
                how = truth[name]
                store.settle(asked.session, asked.seq, how, result=f"paid {name}" if how == "done" else None)
            elif "still stands" in asked.prompt:
                own, _, other = asked.prompt.partition(": on a branch that was left, ")
                store.answer(asked.session, asked.seq, "reuse" if other.startswith(own) else "again")
            else:
                store.answer(asked.session, asked.seq, "yes")
        outcome = store.run(agent, session, restore=restore)
    raise AssertionError("it asks for ever")


# --- the newest -------------------------------------------------------------------------------------------------------


@AGENTS
def test_a_first_run_was_not_restored_and_the_next_one_says_from_what(agent: Any, path: Path) -> None:
    with perdure.open(path) as store:
        first = store.run(agent, "q")
        assert first.restored is None
        again = store.run(agent, "q")
        assert again.restored is not None
        told = again.restored
        newest = 0 if agent is script else store.snapshots("q")[-1].seq
        assert (told.session, told.seq, told.rung, told.attempts) == ("q", newest, "newest", 1)
        assert (told.answered, told.again, told.doubt) == ((6, 0, 0) if agent is script else (0, 0, 0))
        assert told.after_s >= 0
        assert (told.skipped, told.missing, told.source, told.lost) == ((), (), "", 0)


def test_the_code_sees_that_it_was_restored(path: Path) -> None:
    seen: list[Any] = []

    def agent(s: perdure.Session) -> None:
        seen.append(s.restored)
        s.call(damaged.look, 1)
        if len(seen) == 1:
            raise RuntimeError("once")

    with perdure.open(path) as store:
        store.run(agent, "q")
        store.run(agent, "q")
    assert seen[0] is None
    assert (seen[1].seq, seen[1].answered) == (0, 1)


# --- indexes made anew ------------------------------------------------------------------------------------------------


@AGENTS
@pytest.mark.parametrize("statement", ["UPDATE sessions SET summary = x'00'", "DELETE FROM points"])
def test_what_is_derived_is_made_anew(agent: Any, statement: str, path: Path) -> None:
    filled(path, agent)
    Rows(path, "q").change(statement)
    with perdure.open(path) as store:
        done = store.run(agent, "q")
        assert done.status == "completed"
        if "summary" in statement:
            assert done.restored is not None
            assert done.restored.rung == "rebuilt"
            assert store.verify("q", read_data=True).ok
    assert PAID == {"ann": 1, "bob": 1, "cy": 1, "dee": 1}


# --- records that cannot be read --------------------------------------------------------------------------------------


@AGENTS
@pytest.mark.parametrize("harm", ["spoil", "lose"])
@pytest.mark.parametrize("place", range(6))
def test_whatever_record_of_a_start_is_lost_nothing_is_paid_twice(
    agent: Any, harm: str, place: int, path: Path
) -> None:
    starts = filled(path, agent)
    rows = Rows(path, "q")
    getattr(rows, harm)(starts[place])
    before = rows.records()
    with perdure.open(path) as store:
        if agent is script and place == 0:  # before it there is only the opening
            with pytest.raises(DamageError, match="newest valid"):
                store.run(agent, "q")
        truth = {"ann": "done", "bob": "done", "cy": "done", "dee": "not-done"}
        done = driven(store, agent, "q", truth=truth, restore="fresh-start")
        assert done.result == ["paid ann", "paid bob", "paid cy", "paid dee"]
        assert not store.verify("q").ok
    assert PAID == {"ann": 1, "bob": 1, "cy": 1, "dee": 1}
    assert rows.records()[: len(before)] == before, "nothing that was there is written over"


@AGENTS
def test_the_damaged_session_is_evidence_and_another_goes_on_in_its_place(agent: Any, path: Path) -> None:
    starts = filled(path, agent, answered=False)
    rows = Rows(path, "q")
    rows.spoil(max(starts), rows_last(path))
    before = rows.records()
    with perdure.open(path) as store:
        outcome = store.run(agent, "q")
        told = outcome.restored
        assert told is not None
        assert (told.session, told.source, told.rung) == ("q~r1", "q", "replaced")
        assert told.lost == 2
        assert rows.records() == before, "nothing unreadable is written over"
        assert store.verify("q~r1", read_data=True).ok
        note = next(entry for entry in store.log("q~r1") if entry.kind == "note")
        assert (note["topic"], note["source"], note["report"]["lost"]) == ("lost", "q", 2)
        again = store.run(agent, "q").restored
        assert again is not None
        assert (again.session, again.source) == ("q~r1", "q"), "whoever runs the damaged one finds it"
    assert rows.records() == before


def test_who_looks_on_hears_of_the_rung(path: Path) -> None:
    starts = filled(path, script, answered=False)
    Rows(path, "q").spoil(starts[3])
    told: list[Any] = []
    with perdure.open(path) as store:
        store.observe(told.append)
        store.run(script, "q")
    (judged,) = [event for event in told if type(event).__name__ == "Judged"]
    assert (judged.session, judged.what, judged.details["rung"]) == ("q~r1", "restored", "replaced")


def rows_last(path: Path) -> int:
    with perdure.open(path) as store:
        return store.backend.head("q").seq


def test_a_damaged_session_that_can_be_read_again_does_not_go_on_beside_the_other(path: Path) -> None:
    starts = filled(path, script, answered=False)
    rows = Rows(path, "q")
    whole = rows.body(starts[3])
    rows.spoil(starts[3])
    with perdure.open(path) as store:
        assert store.run(script, "q").restored is not None
    rows.put(starts[3], whole)
    with perdure.open(path) as store:
        over = store.run(script, "q", restore="exact")
        assert over.status == "cancelled"
        assert "q~r1 goes on in its place" in over.reason
        told = store.run(script, "q").restored
        assert told is not None
        assert (told.session, told.source) == ("q~r1", "q")
    assert PAID == {"ann": 1, "bob": 1, "cy": 1}


def test_one_that_took_the_place_may_be_damaged_too(path: Path) -> None:
    starts = filled(path, script, answered=False)
    Rows(path, "q").spoil(starts[5])
    with perdure.open(path) as store:
        store.run(script, "q")
    with perdure.open(path) as store:
        head = store.backend.head("q~r1").seq
    Rows(path, "q~r1").spoil(head)
    with perdure.open(path) as store:
        told = store.run(script, "q").restored
        assert told is not None
        assert (told.session, told.source) == ("q~r2", "q~r1")
    assert PAID == {"ann": 1, "bob": 1, "cy": 1}


def test_exact_refuses_and_changes_nothing(path: Path) -> None:
    starts = filled(path, script)
    rows = Rows(path, "q")
    rows.spoil(starts[3])
    before = rows.records()
    with perdure.open(path) as store:
        for restore in ("exact", RestorePolicy("exact")):
            with pytest.raises(DamageError, match="newest valid"):
                store.run(script, "q", restore=restore)
        assert [one.id for one in store.sessions()] == ["q"]
    assert rows.records() == before


@pytest.mark.parametrize(("use", "at"), [("at", None), ("exact", 3), ("newest", None), ("at", True), ("at", "")])
def test_policies_that_make_no_sense_are_refused(use: str, at: Any) -> None:
    with pytest.raises(RefusedError):
        RestorePolicy(use, at=at)


def test_the_same_in_an_event_loop(path: Path) -> None:
    async def agent(s: perdure.AsyncSession) -> list[str]:
        done = []
        for name in ("ann", "bob"):
            done.append(await s.call(pay, name))
            await s.save()
        await s.ask("Go on?", key="go", choices=["yes"])
        return done

    async def both() -> None:
        with perdure.open(path) as store:
            assert (await store.arun(agent, "q")).status == "waiting"
            bob = seqs_of(store, "q", "action_started")[1]
        rows = Rows(path, "q")
        rows.spoil(bob)
        before = rows.records()
        with perdure.open(path) as store:
            outcome = await store.arun(agent, "q")
            assert outcome.restored is not None
            assert (outcome.restored.rung, outcome.restored.session) == ("replaced", "q~r1")
            assert "may have happened" in outcome.questions[0].prompt
            store.settle("q~r1", outcome.questions[0].seq, "done", result="paid bob")
            assert (await store.arun(agent, "q")).questions[0].kind == "question"
        assert rows.records() == before

    asyncio.run(both())
    assert PAID == {"ann": 1, "bob": 1}
