"""A state of another version is brought to that of the code when the session is opened, whole or not at all."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from typing import TypedDict

import pydantic
import pytest

import perdure
from perdure.errors import MigrationError, RefusedError, VersionError
from perdure.session.keeping import migration as graph


@pytest.fixture(autouse=True)
def _steps(monkeypatch):
    """Each test declares its own steps."""
    monkeypatch.setattr(graph, "_steps", {})


@pytest.fixture(params=["memory:", "sqlite", "file", "sealed"])
def store(request, tmp_path):
    urls = {"sqlite": f"sqlite:///{tmp_path}/a.db", "file": f"file:///{tmp_path}/a", "sealed": "memory:"}
    keys = {"keys": bytes(range(32))} if request.param == "sealed" else {}
    with perdure.open(urls.get(request.param, request.param), **keys) as opened:
        yield opened


def chain(*versions: str) -> None:
    """A step from each to the next, which tells of itself in the state."""
    for source, target in itertools.pairwise(versions):
        perdure.migration(source, target)(noting(target))


def noting(target: str):
    def step(state):
        state["came"] = [*state.get("came", []), target]

    step.__qualname__ = f"to_{target}"
    return step


def worker(version: str, *, fail: bool = False, made: list[int] | None = None, **declared):
    """Steps: the first fills the state, the second calls, saves, and completes unless it fails."""
    made = [] if made is None else made

    @perdure.action(effect="once")
    def pay(n: int) -> int:
        made.append(n)
        return n

    @perdure.steps(version=version, **declared)
    def agent(s):
        if not s.state:
            s.state.update(a=1)
            return
        s.state["paid"] = pay(7)
        s.save()
        if fail:
            raise ValueError("on the way")
        s.complete(dict(s.state))

    return agent


def kinds(store, session: str) -> list[str]:
    return [entry.kind for entry in store.log(session)]


def test_the_shortest_way_is_taken_and_recorded_and_nothing_is_called_again(store):
    chain("1", "2", "3", "4", "5")
    perdure.migration("2", "5")(noting("5 at once"))
    made: list[int] = []
    assert store.run(worker("1", fail=True, made=made), "a").status == "failed"
    found = store.run(worker("5", made=made), "a")
    assert found.result == {"a": 1, "came": ["2", "5 at once"], "paid": 7}
    assert made == [7]
    record = next(entry for entry in store.log("a") if entry.kind == "migrated")
    assert [step[:2] for step in record["steps"]] == [["1", "2"], ["2", "5"]]
    assert (store.detail("a").version, store.verify("a").ok) == ("5", True)


def test_the_old_states_stay_readable_across_the_seam(store):
    chain("1", "2")
    store.run(worker("1", fail=True), "a")
    store.run(worker("2"), "a")
    record = next(entry for entry in store.log("a") if entry.kind == "migrated")
    assert store.state_at("a", record["parent"]) == {"a": 1}
    assert store.state_at("a", record.seq) == {"a": 1, "came": ["2"]}
    assert [change.op for change in store.diff("a", record["parent"], to=record.seq).changes] == ["set"]
    assert record.seq in [point.seq for point in store.snapshots("a")]
    assert [branch.why for branch in store.branches("a")] == ["opened"]


def test_of_ways_of_the_same_length_the_first_by_name_is_taken_whatever_the_order_of_declaring(store):
    for source, target in [("b", "z"), ("c", "z"), ("a", "c"), ("a", "b")]:
        perdure.migration(source, target)(noting(f"{source}{target}"))
    with store.session("h", version="a") as s:
        s.state["n"] = 1
    with store.session("h", version="z") as s:
        assert s.state["came"] == ["ab", "bz"]


@pytest.mark.parametrize(("source", "target"), [("1.9", "1.10"), ("1.10", "1.9"), ("", "1"), ("1", "")])
def test_without_a_way_both_versions_and_the_steps_are_named_and_nothing_is_written(store, source, target):
    chain("7", "8")
    with store.session("h", version=source) as s:
        s.state["n"] = 1
    before = [*store.log("h")]
    with pytest.raises(VersionError) as raised:
        store.session("h", version=target)
    text = str(raised.value)
    assert f'@perdure.migration("{source}", "{target}")' in text
    assert "7 to 8" in text
    assert ("older than the state" in text) == ((source, target) in [("1.10", "1.9"), ("1", "")])
    assert [*store.log("h")] == before
    with store.session("h", version=source) as s:
        assert s.state["n"] == 1


def test_a_step_back_is_a_step(store):
    perdure.migration("2", "1")(noting("1"))
    with store.session("h", version="2") as s:
        s.state["n"] = 1
    with store.session("h", version="1") as s:
        assert s.state["came"] == ["1"]


def test_a_step_that_fails_changes_nothing_and_the_old_code_goes_on(store):
    chain("1", "2", "3")

    @perdure.migration("3", "4")
    def breaks(state):
        state.clear()
        raise KeyError("a")

    store.run(worker("1", fail=True), "a")
    before = [*store.log("a")]
    with pytest.raises(MigrationError, match=r"3 to 4 \(.*breaks\) failed: KeyError"):
        store.run(worker("4"), "a")
    assert [*store.log("a")] == before
    assert store.state_at("a") == {"a": 1, "paid": 7}
    assert store.run(worker("1"), "a").status == "completed"


def returns_a_list(state):
    return [state]


def leaves_a_function(state):
    state["f"] = print


@pytest.mark.parametrize("step", [returns_a_list, leaves_a_function])
def test_what_is_no_state_is_refused(store, step):
    perdure.migration("1", "2")(step)
    with store.session("h", version="1") as s:
        s.state["n"] = 1
    before = [*store.log("h")]
    with pytest.raises(MigrationError):
        store.session("h", version="2")
    assert [*store.log("h")] == before


class Typed(TypedDict):
    a: int
    b: int


class Model(pydantic.BaseModel):
    a: int = 0
    b: int = 0


@dataclasses.dataclass
class Data:
    a: int = 0
    b: int = 0


def refuses(state):
    return "b" in state


SCHEMA = {"type": "object", "required": ["b"]}


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"state": Typed}, "field 'b' of Typed is missing"),
        ({"state": Model}, "no field 'came'"),
        ({"state": Data}, "no field 'came'"),
        ({"validate": refuses}, "refuses says so"),
        ({"validate": SCHEMA}, "'b' is a required property"),
    ],
)
def test_the_state_after_the_steps_must_be_one_of_the_code(store, declared, says):
    perdure.migration("1", "2")(noting("2") if declared.get("state") is not Typed else lambda s: s)
    with store.session("h", version="1") as s:
        s.state["a"] = 1
    before = [*store.log("h")]
    with pytest.raises(MigrationError, match=says):
        store.session("h", version="2", **declared)
    assert [*store.log("h")] == before


def test_going_back_before_a_migration_brings_the_old_state_which_is_migrated_again(store):
    chain("1", "2")
    with store.session("h", version="1") as s:
        s.state["n"] = 1
        s.checkpoint("early")
    with store.session("h", version="2") as s:
        s.state["came"].append("more")
        s.save()
        state = s.rollback("early")
        assert state == {"n": 1, "came": ["2"]}
        s.state["n"] = 2
    assert kinds(store, "h").count("migrated") == 2
    assert store.state_at("h") == {"n": 2, "came": ["2"]}
    store.rollback("h", "early")
    assert store.detail("h").version == "1"
    with store.session("h", version="1") as s:
        assert s.state == {"n": 1}
    assert store.verify("h").ok


def test_a_rollback_that_owes_an_undo_keeps_it_over_a_migration(store):
    chain("1", "2")
    undone: list[int] = []

    def unpay(n: int) -> None:
        undone.append(n)

    @perdure.action(effect="once", undo="unpay")
    def pay(n: int) -> int:
        return n

    with store.session("h", version="1") as s:
        s.state["n"] = 1
        s.checkpoint("early")
        s.call(pay, 5)
    store.rollback("h", "early")
    with store.session("h", version="2", undos={"unpay": unpay}) as s:
        assert s.state["came"] == ["2"]
    assert undone == [5]


def test_a_question_that_was_asked_is_not_asked_again_by_the_new_version(store):
    chain("1", "2")

    def agent(version):
        @perdure.steps(version=version)
        def steps(s):
            if not s.state:
                s.state["a"] = 1
                return
            s.complete([s.ask("Go on?"), s.receive(), s.random()])

        return steps

    store.run(agent("1"), "a")
    waits = store.run(agent("1"), "a").questions
    store.send("a", "hello")
    found = store.run(agent("2"), "a")
    assert found.questions == waits
    store.answer("a", waits[0].seq, "yes")
    assert store.run(agent("2"), "a").result[:2] == ["yes", "hello"]
    assert kinds(store, "a").count("asked") == 1


def test_a_fork_of_an_old_point_is_of_the_old_version(store):
    chain("1", "2")
    with store.session("h", version="1") as s:
        s.state["n"] = 1
        s.checkpoint("early")
    with store.session("h", version="2") as s:
        s.state["n"] = 2
    store.fork("h", at=3, into="old")
    store.fork("h", into="new")
    with store.session("old", version="1") as s:
        assert s.state == {"n": 1}
    with store.session("new", version="2") as s:
        assert s.state == {"n": 2, "came": ["2"]}
    assert kinds(store, "new").count("migrated") == 1
    assert store.verify("old").ok
    assert store.verify("new").ok


def test_before_the_first_save_there_is_nothing_to_migrate(store):
    @perdure.migration("1", "2")
    def never(state):
        raise AssertionError(state)

    made: list[int] = []

    def agent(version, *, fail):
        @perdure.action(effect="once")
        def pay(n: int) -> int:
            made.append(n)
            return n

        @perdure.steps(version=version)
        def steps(s):
            pay(1)
            if fail:
                raise ValueError("no")
            s.complete(1)

        return steps

    store.run(agent("1", fail=True), "a")
    assert store.run(agent("2", fail=False), "a").status == "completed"
    assert made == [1]


def test_a_script_has_one_version_and_its_state_follows_from_its_code(store):
    def script(version):
        @perdure.agent(version=version)
        def agent(s):
            s.state["version"] = version
            return s.ask("Go on?", key="go")

        return agent

    store.run(script("1"), "a")
    store.answer("a", "go", "yes")
    assert store.run(script("2"), "a").result == "yes"
    assert "migrated" not in kinds(store, "a")
    assert store.state_at("a") == {"version": "2"}


def test_an_optimistic_handle_migrates_in_a_commit_of_its_own(store):
    chain("1", "2")
    with store.session("h", version="1") as s:
        s.state["n"] = 1
    with store.session("h", version="2", optimistic=True) as s:
        assert s.state["came"] == ["2"]
    assert kinds(store, "h")[-2:] == ["status", "migrated"]


def test_a_step_of_one_agent_is_taken_by_no_other(store):
    mine, other = worker("1", fail=True), worker("1", fail=True)
    other.__qualname__ = "other"
    perdure.migration("1", "2", agent="other")(noting("2"))
    for agent, session in ((mine, "a"), (other, "b")):
        store.run(agent, session)
    with pytest.raises(VersionError):
        store.run(worker("2"), "a")
    new = worker("2")
    new.__qualname__ = "other"
    assert store.run(new, "b").result["came"] == ["2"]


def test_two_functions_for_one_step_are_refused_and_the_same_one_again_is_not():
    perdure.migration("1", "2")(returns_a_list)
    perdure.migration("1", "2")(returns_a_list)
    with pytest.raises(RefusedError, match="bind each to its agent"):
        perdure.migration("1", "2")(refuses)
    with pytest.raises(RefusedError, match="one version to another"):
        perdure.migration("1", "1")(refuses)

    async def awaits(state):
        return state

    with pytest.raises(RefusedError, match="coroutine"):
        perdure.migration("3", "4")(awaits)


def test_in_an_event_loop(store):
    chain("1", "2")

    def agent(version, *, fail):
        @perdure.steps(version=version)
        async def steps(s):
            if not s.state:
                s.state["n"] = 1
                return
            if fail:
                raise ValueError("no")
            s.complete(dict(s.state))

        return steps

    async def lives():
        await store.arun(agent("1", fail=True), "a")
        assert (await store.arun(agent("2", fail=False), "a")).result == {"n": 1, "came": ["2"]}
        async with store.aio.session("h", version="1") as s:
            s.state["n"] = 1
            await s.checkpoint("early")
        async with store.aio.session("h", version="2") as s:
            assert s.state["came"] == ["2"]
            s.state["n"] = 2
            await s.save()
            assert await s.rollback("early") == {"n": 1, "came": ["2"]}

    asyncio.run(lives())


def test_replay_begins_where_the_code_has_the_version(store):
    chain("1", "2")
    store.run(worker("1", fail=True), "a")
    store.run(worker("2"), "a")
    found = store.replay("a", worker("2"))
    assert found.same
    assert found.calls == 1
