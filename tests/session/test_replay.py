"""What a replay tells of code that does not do what is recorded: the first difference, at its record and its path."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import EntryError, NoPointError, SessionUnknownError
from perdure.runtime.replay import Difference, Replay
from perdure.runtime.store import AgentStore
from perdure.session.declare import agent_of

RUN: list[Any] = []
"""What was done for real."""


@perdure.action(effect="repeatable")
def look(number: int) -> str:
    RUN.append(number)
    return f"item {number}"


@perdure.action(effect="once", not_done=(ValueError,))
def pay(amount: int) -> int:
    RUN.append(amount)
    if amount == 99:
        raise ValueError("too much")
    return amount


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AgentStore]:
    with perdure.open(str(tmp_path / "agents.db")) as found:
        yield found


def record(store: AgentStore, fn: Callable[[Any], Any], *, status: str = "completed") -> None:
    assert store.run(fn, "s", input=3).status == status


def replayed(store: AgentStore, fn: Callable[[Any], Any]) -> Replay:
    """The replay, which does and writes nothing."""
    RUN.clear()
    before = store.backend.head("s"), store.backend.lease("s"), store.backend.points("s")
    found = store.replay("s", fn)
    assert (RUN, before) == ([], (store.backend.head("s"), store.backend.lease("s"), store.backend.points("s")))
    return found


def differs(kind: str, recorded: str, now: str, path: str = "") -> tuple[str, str, str, str]:
    return kind, path, recorded, now


def told(found: Replay) -> tuple[str, str, str, str] | None:
    d = found.difference
    return None if d is None else (d.kind, d.path, d.recorded, d.now)


class Changes:
    """What the code under test does otherwise."""

    on = ""


def script(s: perdure.Session) -> dict[str, Any]:
    s.state["notes"], s.state["begun"] = [], s.now()
    for number in range(s.input):
        s.state["notes"].append(look(number + 10 if Changes.on == "arguments" and number == 1 else number))
        if Changes.on == "state" and number == 2:
            s.state["notes"][1] = "odd"
        if Changes.on == "chance":
            s.state["notes"][0] += str(random.random())
        s.save()
    if Changes.on == "a save less":
        pay(5)
    elif Changes.on == "order":
        s.checkpoint("paid")
        pay(5)
    else:
        pay(5)
        s.checkpoint("due" if Changes.on == "name" else "paid")
    if Changes.on == "a call more":
        pay(6)
    if Changes.on == "a value more":
        s.random()
    if Changes.on == "an error":
        raise RuntimeError("boom")
    if Changes.on == "a rollback":
        s.rollback("paid")
    return {"plan": [1, 2, 4 if Changes.on == "result" else 3]}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("", None),
        ("arguments", differs("call", "look(number=1)", "look(number=11)", "number")),
        ("state", differs("state", "'item 1'", "'odd'", "$.notes[1]")),
        ("order", differs("call", "pay(amount=5)", "a save")),
        ("a save less", differs("save", "the checkpoint 'paid'", "the return")),
        ("name", differs("save", "the checkpoint 'paid'", "a save that is not recorded")),
        ("a call more", differs("end", "the end", "pay(amount=6)")),
        ("a value more", differs("end", "the end", "s.random()")),
        ("an error", differs("error", "the end", "RuntimeError: boom")),
        ("a rollback", differs("end", "the end", "a rollback to 'paid'")),
        ("result", differs("result", "3", "4", "$.plan[2]")),
    ],
)
def test_the_first_difference_of_a_script(
    change: str, expected: Any, store: AgentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(store, script)
    monkeypatch.setattr(Changes, "on", change)
    found = replayed(store, script)
    assert told(found) == expected
    assert bool(found) is found.same is (expected is None)
    assert found.upto <= found.records == store.backend.head("s").seq


def test_what_varies_by_nature_is_found_at_its_first_save(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Changes, "on", "chance")
    record(store, script)
    found = replayed(store, script).difference
    assert found is not None
    assert (found.kind, found.path, found.seq) == ("state", "$.notes[0]", store.snapshots("s")[0].seq)


def test_a_replay_counts_what_it_went_through(store: AgentStore) -> None:
    record(store, script)
    assert replayed(store, script) == Replay("s", "completed", 17, upto=17, calls=4, saves=5)


@perdure.steps
def steps(s: perdure.Session) -> None:
    if not s.state:
        s.state.update(todo=[1, 2, 3], done=[])
        return
    if not s.state["todo"]:
        s.complete(s.state["done"] if Changes.on != "result" else None)
    elif Changes.on == "early" and len(s.state["todo"]) == 1:
        s.complete([])
    else:
        number = s.state["todo"].pop(0)
        s.state["done"].append(pay(number) * (2 if Changes.on == "state" and number == 2 else 1))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("", None),
        ("state", differs("state", "2", "4", "$.done[1]")),
        ("result", differs("result", "list of 3", "None", "$")),
        ("early", differs("call", "pay(amount=3)", "the return")),
    ],
)
def test_the_first_difference_of_steps(
    change: str, expected: Any, store: AgentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(store, steps)
    monkeypatch.setattr(Changes, "on", change)
    assert told(replayed(store, steps)) == expected


def test_each_step_starts_from_what_is_recorded(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    record(store, steps)
    assert (replayed(store, steps).saves, replayed(store, steps).calls) == (5, 3)
    monkeypatch.setattr(Changes, "on", "state")
    found = replayed(store, steps)
    assert (found.saves, found.difference) == (
        2,
        Difference("state", store.snapshots("s")[2].seq, "$.done[1]", "2", "4"),
    )


# --- sessions that are not completed ---------------------------------------------------------------------------------


def test_a_failed_session_is_replayed_to_its_error(store: AgentStore) -> None:
    def fails(s: perdure.Session) -> None:
        pay(1)
        s.save()
        raise KeyError(text)

    text = "gone"
    record(store, fails, status="failed")
    found = replayed(store, fails)
    assert (told(found), found.status, found.next) == (None, "failed", "an error: KeyError: 'gone'")
    text = "another"
    assert told(replayed(store, fails)) == differs("error", "KeyError: 'gone'", "KeyError: 'another'")


def test_the_recording_ends_where_an_action_failed(store: AgentStore) -> None:
    def fails(s: perdure.Session) -> None:
        pay(1)
        s.save()
        pay(99)

    record(store, fails, status="failed")
    assert replayed(store, fails) == Replay("s", "failed", 8, upto=6, calls=2, saves=1, next="pay(amount=99)")


def test_a_waiting_session_is_replayed_to_its_question(store: AgentStore) -> None:
    def asks(s: perdure.Session) -> Any:
        pay(1)
        s.checkpoint("paid")
        return s.ask("Go on?", key="go")

    record(store, asks, status="waiting")
    found = replayed(store, asks)
    assert (told(found), found.upto, found.saves) == (None, 6, 1)
    assert "#6" in found.next


def test_the_present_branch_is_replayed(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def rolls(s: perdure.Session) -> Any:
        s.checkpoint("start")
        s.state["first"] = look(1)
        if s.strategy is None:
            pay(3)
            s.rollback("start", strategy="other")
        s.state["second"] = look(7 if Changes.on else 2)
        return s.state["second"]

    record(store, rolls)
    assert told(replayed(store, rolls)) is None
    monkeypatch.setattr(Changes, "on", "arguments")
    assert told(replayed(store, rolls)) == differs("call", "look(number=2)", "look(number=7)", "number")


def test_calls_in_parallel_are_answered(store: AgentStore) -> None:
    def both(s: perdure.Session) -> list[str]:
        with s.parallel() as p:
            found = [p.call(look, number) for number in range(3)]
        s.save()
        return [promise.result() for promise in found]

    record(store, both)
    found = replayed(store, both)
    assert (told(found), found.calls, found.saves, found.upto) == (None, 3, 2, found.records)


def test_a_running_session_is_replayed_as_far_as_it_has_come(store: AgentStore) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def slow(s: perdure.Session) -> None:
        s.state["first"] = look(1)
        s.save()
        if threading.current_thread() is running:
            reached.set()
            go_on.wait(30)
        look(2)

    running = threading.Thread(target=lambda: store.run(slow, "s"))
    running.start()
    assert reached.wait(30)
    found = replayed(store, slow)
    go_on.set()
    running.join()
    assert (told(found), found.status, found.next) == (None, "running", "look(number=2)")


# --- which code ------------------------------------------------------------------------------------------------------


def test_the_recorded_entry_point_is_found_again(store: AgentStore) -> None:
    record(store, script)
    assert store.replay("s").same


def test_what_cannot_be_replayed_is_told(store: AgentStore) -> None:
    record(store, script)
    with pytest.raises(EntryError, match="script"):
        store.replay("s", steps)
    with store.session("handle") as s:
        s.state["n"] = 1
    with pytest.raises(EntryError, match="handle"):
        store.replay("handle")
    assert store.run(lambda _: None, "local").status == "completed"
    with pytest.raises(EntryError, match="name the function"):
        store.replay("local")
    with pytest.raises(SessionUnknownError):
        store.replay("nobody", script)
    assert agent_of(script).form == "script"


def test_messages_and_questions_are_answered_and_the_inbox_is_left_alone(store: AgentStore) -> None:
    def serves(s: perdure.Session) -> list[str]:
        taken = [s.receive(), s.ask("Go on?", key="go")]
        s.save()
        return [*taken, s.receive()]

    store.run(serves, "s")
    store.send("s", "hello")
    store.run(serves, "s")
    store.answer("s", "go", "yes")
    assert store.run(serves, "s").status == "idle"
    found = replayed(store, serves)
    assert (told(found), found.next, found.saves) == (None, "a message that is not recorded", 1)
    store.send("s", "again")
    assert (replayed(store, serves).next, len(store.backend.inbox("s"))) == ("a message that is not recorded", 1)
    assert store.run(serves, "s").result == ["hello", "yes", "again"]
    assert replayed(store, serves).upto == store.backend.head("s").seq


@perdure.steps
def counts(s: perdure.Session) -> None:
    notes = s.state.setdefault("notes", [])
    if len(notes) < 8:
        notes.append(look(len(notes)))
    elif s.input == 3:
        s.complete(len(notes))
    else:
        s.complete(look(8))


def test_steps_that_were_dropped_are_left_out(store: AgentStore, tmp_path: Path) -> None:
    record(store, counts)
    assert replayed(store, counts).saves == 9
    store.gc("s", keep_last=3, dry_run=False)
    found = replayed(store, counts)
    assert (told(found), found.saves, found.upto) == (None, 1, store.backend.head("s").seq)
    with perdure.open(str(tmp_path / "other.db")) as other:
        store.copy("s", other)
        assert replayed(other, counts) == found


def test_where_all_was_dropped_there_is_nothing_to_compare_with(store: AgentStore) -> None:
    store.run(counts, "s")
    store.gc("s", keep_last=1, dry_run=False)
    with pytest.raises(NoPointError, match="dropped"):
        store.replay("s", counts)
