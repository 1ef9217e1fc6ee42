"""A handle: the user's own code goes on with a session."""

from __future__ import annotations

import dataclasses
import threading

import pydantic
import pytest

import perdure
from perdure import errors, values


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    url = "memory:" if request.param == "memory" else str(tmp_path / "s.db")
    with perdure.open(url, lease_s=0.5) as opened:
        yield opened


def test_save_and_a_clean_exit_commit(store):
    with store.session("a") as s:
        s.state["x"] = [1]
        assert s.save() == 3
        s.state["x"].append(2)
    assert store.state_at("a") == {"x": [1, 2]}
    assert store.state_at("a", 3) == {"x": [1]}


def test_an_exception_saves_nothing_but_its_status(store):
    def fail_after_a_save() -> None:
        with store.session("a") as s:
            s.state["x"] = 1
            s.save()
            s.state["x"] = 2
            _ = 1 // 0

    with pytest.raises(ZeroDivisionError):
        fail_after_a_save()
    assert store.state_at("a") == {"x": 1}
    assert store.info("a").status == "failed"
    assert "ZeroDivisionError" in store.info("a").reason


def test_a_save_without_a_change_writes_nothing(store):
    with store.session("a") as s:
        s.state["x"] = 1
        assert s.save() is not None
        assert s.save() is None
        assert s.checkpoint("here") is not None


def test_a_refused_value_names_its_path_and_the_next_save_works(store):
    with store.session("a") as s:
        s.state["plan"] = [{"tool": 1}]
        s.save()
        s.state["plan"][0]["tool"] = object()
        s.state["plan"].append("kept")
        with pytest.raises(errors.UnstorableError, match=r"\$\.plan\[0\]\.tool"):
            s.save()
        s.state["plan"][0]["tool"] = 2
        s.save()
    assert store.state_at("a") == {"plan": [{"tool": 2}, "kept"]}


def test_parts_keep_their_order_and_are_loaded_when_touched(store):
    with store.session("a") as s:
        s.state.update(b=1, a=[2], c={"d": 3})
    with store.session("a") as s:
        assert list(s.state) == ["b", "a", "c"]
        del s.state["b"]
        s.state["b"] = 9
    assert list(store.state_at("a").items()) == [("a", [2]), ("c", {"d": 3}), ("b", 9)]


def test_rollback_returns_the_fresh_state_and_what_was_left_stays_readable(store):
    with store.session("a") as s:
        s.state["x"] = 1
        s.checkpoint("start")
        s.state["x"] = 2
        second = s.save()
        state = s.rollback("start", reason="no good", strategy="slower")
        assert state["x"] == 1
        assert s.strategy == "slower"
        state["x"] = 3
    assert store.state_at("a") == {"x": 3}
    assert store.state_at("a", second) == {"x": 2}


def test_an_unknown_point_is_refused_and_the_known_ones_are_named(store):
    with store.session("a") as s:
        s.state["x"] = 1
        s.checkpoint("start")
        with pytest.raises(errors.NoPointError, match="start"):
            s.rollback("strat")


@dataclasses.dataclass
class Plan:
    todo: list[str] = dataclasses.field(default_factory=list)
    done: int = 0


class Chat(pydantic.BaseModel):
    messages: list[str] = pydantic.Field(default_factory=list)
    turns: int = 0


@pytest.mark.parametrize("cls", [Plan, Chat])
def test_the_fields_of_a_typed_state_are_the_parts(store, cls):
    first, second = list(cls.__dataclass_fields__ if cls is Plan else cls.model_fields)
    with store.session("a", state=cls) as s:
        getattr(s.state, first).append("one")
        setattr(s.state, second, 5)
    assert store.state_at("a") == {first: ["one"], second: 5}
    with store.session("a", state=cls) as s:
        assert type(s.state) is cls
        assert getattr(s.state, first) == ["one"]


def test_a_class_that_is_no_state_is_refused_and_the_session_is_free_again(store):
    with pytest.raises(errors.EntryError, match="dataclass"):
        store.session("a", state=threading.Event)
    with store.session("a") as s:
        s.state["x"] = 1


def test_an_append_only_part_is_found_when_an_old_item_is_rewritten(store):
    with store.session("a", append_only=["log"]) as s:
        s.state["log"] = [{"n": n} for n in range(400)]
        s.save()
        s.state["log"][7]["n"] = "rewritten"
    assert store.state_at("a")["log"][7] == {"n": "rewritten"}


def test_steps_store_an_old_item_that_was_rewritten_when_they_complete_at_the_latest(store):
    @perdure.steps(append_only=["log"])
    def steps(s):
        if "log" not in s.state:
            s.state["log"] = [{"n": n} for n in range(4000)]
        elif s.state["log"][7]["n"] == 7:
            s.state["log"][7]["n"] = "rewritten"
            s.state["log"].append({"n": 4000})
        else:
            s.complete(None)

    store.run(steps, "s")
    assert store.state_at("s")["log"][7] == {"n": "rewritten"}


def test_a_step_that_does_nothing_but_rewrite_an_old_item_has_done_something(store):
    @perdure.steps(append_only=["log"])
    def steps(s):
        if "log" not in s.state:
            s.state["log"] = [{"n": n} for n in range(4000)]
        elif s.state["log"][7]["n"] == 9:
            s.complete(None)
        else:
            s.state["log"][7]["n"] += 1

    store.run(steps, "s")
    assert [store.state_at("s", point.seq)["log"][7]["n"] for point in store.snapshots("s")] == [7, 8, 9, 9]


def test_strict_append_only_raises(store):
    s = store.session("a", append_only=["log"], strict=True)
    s.state["log"] = [{"n": 1}]
    s.save()
    s.state["log"][0]["n"] = 2
    with pytest.raises(errors.AppendOnlyError):
        s.save()
    s.close()


def test_a_session_is_for_one_thread_at_a_time(store):
    inside, release = threading.Event(), threading.Event()

    def slow() -> int:
        inside.set()
        assert release.wait(10)
        return 1

    with store.session("a") as s:
        worker = threading.Thread(target=lambda: s.call(slow))
        worker.start()
        assert inside.wait(10)
        with pytest.raises(errors.RefusedError, match="another thread"):
            s.save()
        release.set()
        worker.join()


def test_a_declared_action_in_a_thread_without_a_session_is_refused(store):
    @perdure.action(effect="repeatable")
    def search(q: str) -> str:
        return q

    caught: list[BaseException] = []

    def work() -> None:
        try:
            search("x")
        except errors.NoSessionError as error:
            caught.append(error)

    assert search("plain") == "plain"
    with store.session("a"):
        assert search("journaled") == "journaled"
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    assert len(caught) == 1


def test_results_are_handed_out_as_a_replay_would_give_them(store):
    given = {"items": (1, 2)}
    with store.session("a") as s:
        got = s.call(lambda: given)
        assert values.same(got, given)
        assert got is not given


def test_a_tool_that_changes_its_arguments_is_told(store):
    def grow(items: list[int]) -> None:
        items.append(1)

    with pytest.raises(errors.ArgumentsChangedError, match="grow"), store.session("a") as s:
        s.call(grow, [])


def test_a_generator_is_refused_before_it_runs(store):
    def numbers():
        yield 1

    with store.session("a") as s, pytest.raises(errors.RefusedError, match="generator"):
        s.call(numbers)


def test_a_closed_session_says_so(store):
    with store.session("a") as s:
        s.state["x"] = 1
    with pytest.raises(errors.ClosedError):
        s.save()
    with pytest.raises(errors.ClosedError):
        _ = s.state


@pytest.mark.parametrize("effect", ["once", "idempotent", "repeatable"])
def test_inside_an_action_the_session_is_only_for_calls(store, effect):
    with store.session("a") as s:

        def tool(what: str) -> None:
            {"state": lambda: s.state, "save": s.save, "rollback": lambda: s.rollback(0), "ask": lambda: s.ask("?")}[
                what
            ]()

        for what in ("state", "save", "rollback", "ask"):
            with pytest.raises(errors.RefusedError, match=r"inside (the action tool|an action)"):
                s.action(tool, effect=effect)(what)


def test_what_is_left_after_a_crash_is_pending_and_can_be_left_behind(store):
    def crash_after_a_call() -> None:
        with store.session("a") as s:
            s.state["x"] = 1
            s.save()
            s.call(str, 5)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        crash_after_a_call()
    with store.session("a") as s:
        assert [(p.name, p.outcome) for p in s.pending] == [("str", "result")]
        s.rollback(0)
        assert s.pending == []
        s.state["x"] = 2
    assert store.state_at("a") == {"x": 2}


def test_a_session_is_given_back_even_when_closing_it_fails(store, monkeypatch):
    s = store.session("a")
    s.state["x"] = 1
    s.save()

    def fail() -> None:
        raise errors.StoreFailedError("no space for the keyframe")

    monkeypatch.setattr(s._keyframer, "close", fail)
    with pytest.raises(errors.StoreFailedError):
        s.close()
    with store.session("a") as again:
        assert again.state["x"] == 1


def test_one_object_in_two_places_is_told_and_comes_back_as_two(store, caplog):
    with store.session("a") as s:
        plan = ["x"]
        s.state["doc"] = {"plan": plan, "copy": plan}
        s.save()
        assert "$.doc.plan" in caplog.text
        assert "$.doc.copy" in caplog.text
    with store.session("a") as s:
        s.state["doc"]["plan"].append("y")
        assert s.state["doc"]["copy"] == ["x"]
