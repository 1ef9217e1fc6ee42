"""Whatever is handed over next, the difference found leads from the last value to exactly its bytes."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perdure
from perdure import values
from perdure.errors import StateChangedError, UnstorableError
from perdure.state.foreign import Baseline, differences
from tests.property.strategies import values as any_values
from tests.property.test_state_shadow import mutate, value


def fresh(data: bytes) -> Any:
    return values.decode(data)


def check(old: dict[str, Any], new: dict[str, Any], ops: list[Any]) -> None:
    patched = perdure.patch(fresh(values.encode(old)), fresh(values.encode(ops)))
    assert values.encode(patched) == values.encode(new)


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_a_state_that_changes_and_is_copied_each_time(seed: int) -> None:
    rnd = random.Random(seed)
    state = {name: value(rnd) for name in "abc"[: rnd.randrange(1, 4)]}
    base, last = Baseline(state), values.encode(state)
    for _ in range(6):
        for _ in range(rnd.randrange(4)):
            mutate(rnd, state)
        new = copy.deepcopy(state)
        try:
            found = base.compare(new)
        except UnstorableError:
            return
        assert bool(found) == (values.encode(new) != last)
        check(fresh(last), new, found.ops)
        base.advance(found)
        last = values.encode(new)


@given(any_values(), any_values())
@settings(max_examples=150, deadline=None)
def test_two_values_that_have_nothing_to_do_with_each_other(one: Any, other: Any) -> None:
    check({"a": one, "b": 1}, {"b": 1, "a": other}, differences({"a": one, "b": 1}, {"b": 1, "a": other}))


def chat(length: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"message {n} " * 20} for n in range(length)], "turn": length}


def test_the_size_of_the_difference_follows_the_change() -> None:
    base = Baseline(chat(200))
    for change in (
        lambda new: new["messages"].append({"role": "user", "content": "one more"}),
        lambda new: new["messages"].insert(0, {"role": "system", "content": "before"}),
        lambda new: new["messages"].pop(7),
        lambda new: new["messages"][100].update(content="another"),
        lambda new: new["messages"].__setitem__(slice(0, 150), []),
    ):
        new = copy.deepcopy(chat(200))
        change(new)
        found = base.compare(new)
        check(chat(200), new, found.ops)
        assert 0 < len(found.data) < 200


@pytest.mark.parametrize(
    ("was", "now"),
    [(1, True), (1, 1.0), (0.0, -0.0), ((1,), [1]), ({1: 2}, {True: 2}), ({"a": 1, "b": 2}, {"b": 2, "a": 1})],
)
def test_values_that_python_calls_equal_differ(was: Any, now: Any) -> None:
    found = Baseline({"x": was}).compare({"x": now})
    assert found
    check({"x": was}, {"x": now}, found.ops)


def test_an_old_difference_is_refused() -> None:
    base = Baseline({"x": 1})
    first, second = base.compare({"x": 2}), base.compare({"x": 3})
    base.advance(first)
    with pytest.raises(StateChangedError):
        base.advance(second)
    assert base.compare({"x": 2}).ops == []


def test_what_cannot_be_stored_is_named_and_the_baseline_stays() -> None:
    base = Baseline({"plan": [{"tool": 1}]})
    with pytest.raises(UnstorableError, match=r"\$\.plan\[0\]\.tool"):
        base.compare({"plan": [{"tool": object()}]})
    assert not base.compare({"plan": [{"tool": 1}]})
