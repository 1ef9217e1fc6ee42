"""Each operation does what the format says, and one that does not fit is damage."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import DamageError
from perdure.state.delta import Op, patch


def start() -> dict[str, Any]:
    return {"p": {"a": 1, "b": [1, 2, 3], 5: "five"}, "q": (1, [2])}


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (["set", ["p", "a"], 2], {"p": {"a": 2, "b": [1, 2, 3], 5: "five"}, "q": (1, [2])}),
        (["set", ["p", "c"], 2], {"p": {"a": 1, "b": [1, 2, 3], 5: "five", "c": 2}, "q": (1, [2])}),
        (["set", ["p", "b", 2], 9], {"p": {"a": 1, "b": [1, 2, 9], 5: "five"}, "q": (1, [2])}),
        (["set", ["r"], None], {"p": {"a": 1, "b": [1, 2, 3], 5: "five"}, "q": (1, [2]), "r": None}),
        (["del", ["p", 5]], {"p": {"a": 1, "b": [1, 2, 3]}, "q": (1, [2])}),
        (["del", ["p"]], {"q": (1, [2])}),
        (["extend", ["p", "b"], [4, 5]], {"p": {"a": 1, "b": [1, 2, 3, 4, 5], 5: "five"}, "q": (1, [2])}),
        (["splice", ["p", "b"], 0, 2, ["x"]], {"p": {"a": 1, "b": ["x", 3], 5: "five"}, "q": (1, [2])}),
        (["splice", ["p", "b"], 3, 0, [4]], {"p": {"a": 1, "b": [1, 2, 3, 4], 5: "five"}, "q": (1, [2])}),
        (["order", ["p"], ["a"]], {"p": {"b": [1, 2, 3], 5: "five", "a": 1}, "q": (1, [2])}),
        (["order", [], ["p"]], {"q": (1, [2]), "p": {"a": 1, "b": [1, 2, 3], 5: "five"}}),
    ],
)
def test_an_operation(op: Op, expected: dict[str, Any]) -> None:
    patched = patch(start(), [op])
    assert repr(patched) == repr(expected)


@pytest.mark.parametrize(
    "op",
    [
        *(["set", ["q", 0], 1], ["set", ["q", 1, 0], 1], ["set", ["p", "b", 3], 1], ["set", ["p", "b", -1], 1]),
        *(["set", ["p", "b", True], 1], ["set", [], 1], ["set", ["x", "y"], 1], ["set", ["p", "a", "z"], 1]),
        *(["set", ["p", []], 1], ["del", ["p", "x"]], ["del", ["p", "b", 0]], ["extend", ["p"], [1]]),
        *(["extend", ["p", "b"], "xy"], ["splice", ["p", "b"], 2, 2, []], ["splice", ["p", "b"], -1, 0, []]),
        *(["splice", ["p", "b"], 0, True, []], ["splice", ["p", "b"], 4, 0, []], ["order", ["p"], ["x"]]),
        *(["order", ["p", "b"], []], ["other", ["p"]], [], ["set"], None, 7, ["set", 5, 1], ["set", ["p", "a"]]),
    ],
)
def test_an_operation_that_does_not_fit(op: Any) -> None:
    with pytest.raises(DamageError, match="does not fit"):
        patch(start(), [op])
