"""What a run that an error ended leaves for people to look at; and that it changes nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading
from collections import defaultdict
from typing import Any

import pytest

import perdure
from perdure import values
from perdure.errors import LimitError, NoPointError, UnstorableError
from perdure.state import foreign
from perdure.values import AbsentValue


@pytest.fixture(params=["memory", "sqlite", "file"])
def store(request, tmp_path):
    url = {"memory": "memory:", "sqlite": str(tmp_path / "s.db"), "file": f"file:{tmp_path / 's'}"}[request.param]
    with perdure.open(url) as opened:
        yield opened


def inspections(store, session="a"):
    found = store.detail(session).inspections
    assert store.verify(session).ok
    return found


def test_what_was_not_saved_can_be_looked_at(store):
    def agent(s):
        s.state["notes"] = ["one"]
        s.save()
        s.state["notes"].append("two")
        s.state["more"] = {"x": 1}
        raise ValueError("broken")

    outcome = store.run(agent, "a")
    assert repr(outcome.error) == "ValueError('broken')"
    (found,) = inspections(store)
    assert (found.reason, found.absent) == ("ValueError: broken", ())
    assert store.state_at("a", found.seq) == {"notes": ["one", "two"], "more": {"x": 1}}
    assert store.state_at("a") == {"notes": ["one"]}
    assert [point.seq for point in store.detail("a").points] == [3]


def test_nothing_is_kept_when_nothing_was_changed_since_the_last_snapshot(store):
    def agent(s):
        s.state["notes"] = ["one"]
        s.save()
        raise ValueError("broken")

    store.run(agent, "a")
    store.run(agent, "a")
    assert inspections(store) == ()


def test_a_handle_keeps_nothing_of_what_was_not_saved(store):
    def use():
        with store.session("a") as s:
            s.state["notes"] = ["one"]
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        use()
    assert inspections(store) == ()


def test_the_mark_is_in_the_state_in_the_difference_and_in_the_record(store):
    def agent(s):
        s.state["plan"] = [1, {"tools": {"fetch": threading.Lock(), "search": 2}}]
        s.save()

    path = "$.plan[1].tools.fetch"
    outcome = store.run(agent, "a")
    assert isinstance(outcome.error, UnstorableError)
    assert outcome.error.path == path
    (found,) = inspections(store)
    state = store.state_at("a", found.seq)
    mark = state["plan"][1]["tools"].pop("fetch")
    assert (mark.path, mark.type, mark.kept) == (path, "_thread.lock", None)
    assert state == {"plan": [1, {"tools": {"search": 2}}]}
    told = [(one.seq, one.path, one.type) for one in store.absent("a", found.seq)]
    assert told == [(found.seq, path, "_thread.lock")]
    difference = store.diff("a", 0, to=found.seq)
    assert [one.path for one in difference.absent] == [path]
    assert isinstance(difference.changes[0].value[1]["tools"]["fetch"], AbsentValue)
    assert store.absent("a", 1) == ()


def test_nothing_goes_on_from_it(store):
    def agent(s):
        s.state["notes"] = ["one"]
        s.checkpoint("one")
        s.state["notes"].append("two")
        if broken:
            s.state["lock"] = threading.Lock()
        s.save()
        return s.state["notes"]

    broken = True
    store.run(agent, "a")
    (found,) = inspections(store)
    with pytest.raises(NoPointError):
        store.rollback("a", found.seq)
    with pytest.raises(NoPointError):
        store.checkpoint("a", "named", at=found.seq)
    store.fork("a", into="b")
    broken = False
    for session in ("a", "b"):
        assert store.run(agent, session, accept_change=True).result == ["one", "two"]
        assert store.state_at(session) == {"notes": ["one", "two"]}
        assert store.verify(session).ok


def test_steps_start_again_where_they_would_have(store):
    @perdure.steps
    def agent(s):
        done = s.state.setdefault("done", [])
        done.append(len(done))
        if len(done) == 2 and broken:
            raise ValueError("broken")
        if len(done) == 3:
            s.complete(done)

    broken = True
    store.run(agent, "a")
    (found,) = inspections(store)
    assert store.state_at("a", found.seq) == {"done": [0, 1]}
    assert store.state_at("a") == {"done": [0]}
    broken = False
    assert store.run(agent, "a").result == [0, 1, 2]


def test_what_the_code_did_after_an_actions_error_is_in_it(store):
    def tool():
        raise OSError("gone")

    def agent(s):
        s.state["notes"] = ["one"]
        s.save()
        try:
            s.call(tool)
        finally:
            s.state["notes"].append("after")

    store.run(agent, "a")
    store.run(agent, "a")
    found = inspections(store)
    assert [store.state_at("a", one.seq) for one in found] == [{"notes": ["one", "after"]}] * len(found)
    assert found
    assert store.state_at("a") == {"notes": ["one"]}
    assert len(store.branches("a")) == 1


def test_in_the_middle_of_a_replay_the_state_is_that_of_the_code(store):
    """The changed code fails before it has come to all recorded points, with a state that was never recorded."""

    def first(s):
        for n in range(3):
            s.state["notes"] = [*s.state.get("notes", []), n]
            s.save()
        s.ask("Go on?")

    def second(s):
        s.state["notes"] = ["other", "words", "here", "and", "there"]
        s.save()
        s.state["notes"].append("end")
        raise ValueError("broken")

    store.run(first, "a")
    store.run(second, "a", accept_change=True)
    (found,) = inspections(store)
    assert store.state_at("a", found.seq) == {"notes": ["other", "words", "here", "and", "there", "end"]}
    assert store.state_at("a") == {"notes": [0, 1, 2]}


def test_in_an_event_loop(store):
    async def agent(s):
        s.state["lock"] = {"deep": [threading.Lock()]}
        await s.save()

    outcome = asyncio.run(store.arun(agent, "a"))
    assert isinstance(outcome.error, UnstorableError)
    (found,) = inspections(store)
    assert [one.path for one in found.absent] == ["$.lock.deep[0]"]


def test_a_cancelled_run_leaves_it_too(store):
    async def run():
        began = asyncio.Event()

        async def agent(s):
            s.state["notes"] = ["one"]
            began.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(store.arun(agent, "a"))
        await began.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert store.info("a").status == "failed"
    assert [store.state_at("a", one.seq) for one in inspections(store)] == [{"notes": ["one"]}]


def test_a_typed_state_is_taken_as_it_is(store):
    @dataclasses.dataclass
    class Chat:
        notes: list = dataclasses.field(default_factory=list)
        client: Any = None

    @perdure.agent(state=Chat)
    def agent(s):
        s.state.notes = ["one"]
        s.state.client = object()
        raise ValueError("broken")

    store.run(agent, "a")
    (found,) = inspections(store)
    assert store.state_at("a", found.seq)["notes"] == ["one"]
    assert [one.path for one in found.absent] == ["$.client"]


def test_who_asks_for_a_snapshot_gets_one_with_marks(store):
    def agent(s):
        s.state["notes"] = ["one", lambda: None]
        s.call(ask)
        s.now()
        s.call(ask)

    def ask():
        store.save("a", reason="a look")

    store.run(agent, "a")
    first = inspections(store)[0]
    assert (first.reason, [one.path for one in first.absent]) == ("asked for: a look", ["$.notes[1]"])
    assert store.state_at("a", first.seq)["notes"][0] == "one"


@pytest.mark.parametrize("what", ["cannot be compared", "cannot be written"])
def test_the_first_error_is_told_whatever_becomes_of_the_snapshot(store, monkeypatch, caplog, what):
    def agent(s):
        s.state["notes"] = ["one"]
        raise ValueError("first")

    def broken(*_args, **_kwargs):
        raise MemoryError("second")

    if what == "cannot be compared":
        monkeypatch.setattr(foreign, "differences", broken)
    else:
        append = store.backend.append

        def limited(session, batch, **rest):
            if any(record.kind == "saved" for record in batch.records):
                raise LimitError("second")
            return append(session, batch, **rest)

        monkeypatch.setattr(store.backend, "append", limited)
    with caplog.at_level(logging.WARNING, "perdure.state"):
        outcome = store.run(agent, "a")
    assert repr(outcome.error) == "ValueError('first')"
    assert "second" in caplog.text
    assert (store.info("a").status, store.info("a").reason) == ("failed", "ValueError: first")
    assert inspections(store) == ()


def test_what_it_consists_of_is_kept_of_what_is_not_registered():
    @dataclasses.dataclass
    class Plan:
        steps: list
        lock: Any

    plan = Plan(["a"], threading.Lock())
    kept, (first, second) = values.spare({"plan": plan, "d": 1}, at="$.x")
    assert (first.path, second.path) == ("$.x.plan", "$.x.plan.lock")
    assert kept["plan"].kept["steps"] == ["a"]
    assert kept["plan"].kept["lock"] == second

    counted = defaultdict(lambda: 0, {"k": {"deep": [1]}})
    kept, (only,) = values.spare(counted)
    assert (only.path, kept.kept) == ("$", {"k": {"deep": [1]}})


def test_two_absent_keys_and_elements_stay_two():
    kept, marks = values.spare([{object(): 1, object(): 2}, {object(), object(), 3}])
    assert len(marks) == 4
    assert [len(kept[0]), len(kept[1])] == [2, 3]
    assert values.decode(values.encode(kept)) == kept


def test_what_contains_itself_is_cut_where_it_begins_again():
    ring: list[Any] = [1]
    ring.append({"again": ring})
    kept, (mark,) = values.spare(ring, at="$.ring")
    assert mark.path == "$.ring[1].again"
    assert kept == [1, {"again": mark}]


def test_what_is_too_deep_is_cut_and_what_is_too_much_is_absent_whole(monkeypatch):
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    kept, (mark,) = values.spare({"deep": deep, "ok": 1})
    assert "nested deeper" in mark.why
    assert kept["ok"] == 1
    values.encode([["set", ["part"], kept]])

    monkeypatch.setattr("perdure.limits.ABSENT_COUNT_MAX", 3)
    kept, (mark,) = values.spare([object()] * 4, at="$.many")
    assert kept == mark
    assert mark.path == "$.many"


def test_a_value_that_cannot_be_taken_apart_is_absent():
    class Meta(type):
        def __hash__(cls):
            raise ValueError("no hash")

    class Odd(metaclass=Meta):
        pass

    kept, marks = values.spare({"odd": Odd()}, at="$.x")
    assert marks
    values.encode(kept)
