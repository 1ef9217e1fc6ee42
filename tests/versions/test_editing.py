"""A state changed by hand: a branch of its own, on which all that was called is still answered."""

from __future__ import annotations

import pytest

import perdure
from perdure.errors import HeldError, RefusedError, UnstorableError
from perdure.state import place
from tests.versions.test_migrations import worker


@pytest.fixture(params=["memory:", "file"])
def store(request, tmp_path):
    with perdure.open(f"file:///{tmp_path}/a" if request.param == "file" else request.param) as opened:
        yield opened


def test_the_code_goes_on_from_what_was_put_there_and_nothing_is_called_again(store):
    made: list[int] = []
    store.run(worker("", fail=True, made=made), "a")
    seq = store.edit("a", {"a": 2, "$.more": {"x": [1]}}, by="ann", reason="asked to")
    assert store.run(worker("", made=made), "a").result == {"a": 2, "more": {"x": [1]}, "paid": 7}
    assert made == [7]
    record = next(entry for entry in store.log("a") if entry.seq == seq)
    assert (record.kind, record["by"], record["reason"]) == ("edited", "ann", "asked to")
    assert store.state_at("a", record["parent"]) == {"a": 1}
    assert [branch.why for branch in store.branches("a")] == ["opened"]
    assert store.verify("a").ok


def test_operations_are_taken_as_they_are_and_go_back_is_possible(store):
    with store.session("h") as s:
        s.state["log"] = [1, 2]
    seq = store.edit("h", [["extend", ["log"], [3]], ["set", ["log", 0], {"k": (1, 2)}]])
    assert store.state_at("h") == {"log": [{"k": (1, 2)}, 2, 3]}
    store.edit("h", {"log[0].k": None})
    assert store.state_at("h", seq) == {"log": [{"k": (1, 2)}, 2, 3]}
    store.fork("h", into="f", at=seq)
    store.rollback("h", 3)
    assert store.state_at("h") == {"log": [1, 2]}
    with store.session("f") as s:
        assert s.state == {"log": [{"k": (1, 2)}, 2, 3]}
    assert store.verify("h").ok
    assert store.verify("f").ok


def test_code_that_starts_its_step_again_finds_what_was_put_there(store):
    def agent(fail):
        @perdure.steps
        def steps(s):
            if not s.state:
                s.state["n"] = 1
                return
            s.save(reason="on the way")
            if fail:
                raise ValueError("no")
            if s.strategy is None:
                s.rollback(0, strategy="other")
            s.complete([s.state["n"], s.strategy])

        return steps

    store.run(agent(fail=True), "a")
    store.edit("a", {"n": 2})
    store.edit("a", {"n": 3})
    assert store.run(agent(fail=False), "a").result == [3, "other"]
    assert [entry.kind for entry in store.log("a")].count("edited") == 4
    assert store.verify("a").ok


def test_a_handle_goes_back_to_what_was_put_there_or_to_what_was_saved(store):
    with store.session("h") as s:
        s.state["n"] = 1
    store.edit("h", {"n": 2})
    with store.session("h") as s:
        s.state["n"] = 10
        assert s.rollback(0) == {"n": 2}
        assert s.rollback(3) == {"n": 1}


def test_what_does_not_fit_is_refused_and_nothing_is_written(store):
    with store.session("h") as s:
        s.state["log"] = [1]
    before = [*store.log("h")]
    for changes in ({"log[7]": 1}, {"log.key": 1}, {"": 1}, {"[0]": 1}, [["unknown", ["log"], 1]]):
        with pytest.raises(RefusedError):
            store.edit("h", changes)
    with pytest.raises(UnstorableError, match=r"changes"):
        store.edit("h", {"log": print})
    with store.session("h"), pytest.raises(HeldError):
        store.edit("h", {"log": 1})
    assert [entry for entry in store.log("h") if entry.kind not in ("owned", "status")] == [
        entry for entry in before if entry.kind not in ("owned", "status")
    ]


def test_a_script_and_one_that_is_over_are_refused_with_the_reason(store):
    store.run(perdure.agent(lambda s: s.ask("?", key="k")), "script")
    with pytest.raises(RefusedError, match="builds its state anew"):
        store.edit("script", {"a": 1})
    store.run(worker(""), "over")
    with pytest.raises(RefusedError, match="roll it back first"):
        store.edit("over", {"a": 1})


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("plan", ["plan"]),
        ("$.plan.steps[0].done", ["plan", "steps", 0, "done"]),
        ('plan["a.b"][3]', ["plan", "a.b", 3]),
        ('["two words"].x', ["two words", "x"]),
        ("plan-b.über", ["plan-b", "über"]),
        (r'plan["say \"hi\""]', ["plan", 'say "hi"']),
    ],
)
def test_a_place_as_people_write_it(text, path):
    assert place.parsed(text) == path


@pytest.mark.parametrize("text", ["", "$", "plan[", "plan[x]", "plan..a", "[0]", "plan]", "plan[0]x", 'plan["a]'])
def test_what_names_no_place_is_refused(text):
    with pytest.raises(RefusedError):
        place.parsed(text)
