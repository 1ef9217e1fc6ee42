"""Keys that a copy does not find again (NaN, and what contains it): what changes under them is saved all the same."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

import perdure
from perdure import values

NAN = math.nan


def start() -> dict[str, Any]:
    """A part with such keys in several places."""
    return {NAN: 1, "x": [1], "inner": {(NAN, 1): {"deep": [1]}, "y": 2}, "z": 3}


def _first(of: dict[Any, Any]) -> Any:
    return next(iter(of))


def set_leaf(counts: dict[Any, Any]) -> None:
    counts[_first(counts)] = 2


def delete(counts: dict[Any, Any]) -> None:
    del counts[_first(counts)]


def descend(counts: dict[Any, Any]) -> None:
    counts["inner"][_first(counts["inner"])]["deep"].append(2)


def set_below(counts: dict[Any, Any]) -> None:
    counts["inner"][_first(counts["inner"])]["deep"] = None


def move(counts: dict[Any, Any]) -> None:
    key = _first(counts)
    counts[key] = counts.pop(key)


def move_inside(counts: dict[Any, Any]) -> None:
    key = _first(counts["inner"])
    counts["inner"][key] = counts["inner"].pop(key)


def beside(counts: dict[Any, Any]) -> None:
    counts["z"] = 4


CHANGES = [set_leaf, delete, descend, set_below, move, move_inside, beside]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_under_a_nan_is_there_when_the_session_is_opened_again(change: Callable[[Any], None]) -> None:
    with perdure.open("memory:") as store:
        with store.session("a") as s:
            s.state["counts"] = start()
        with store.session("a") as s:
            change(s.state["counts"])
            expected = copy.deepcopy(s.state["counts"])
        assert values.same(store.state_at("a")["counts"], expected)
        with store.session("a") as s:
            assert values.same(s.state["counts"], expected)
        assert store.verify("a", read_data=True).ok


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_under_a_nan_in_a_value_that_is_handed_over_whole(change: Callable[[Any], None]) -> None:
    new = copy.deepcopy(start())
    change(new)
    found = perdure.Baseline({"counts": start()}).compare({"counts": new})
    told = perdure.patch({"counts": values.decode(values.encode(start()))}, values.decode(found.data))
    assert values.same(told, {"counts": new})


def test_what_is_beside_such_a_key_is_still_a_small_change() -> None:
    new = start()
    beside(new)
    assert perdure.Baseline({"counts": start()}).compare({"counts": new}).ops == [["set", ["counts", "z"], 4]]
