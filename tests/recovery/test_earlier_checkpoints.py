"""A failure policy of steps goes back to a checkpoint of an earlier step, if it is told its name."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure.recovery import FailurePolicy
from perdure.session.rules.failing import Failed

STEPS = 3


def agent(policy: FailurePolicy) -> Any:
    def attempt(turn: int, how: str) -> str:
        if turn == STEPS and how == "quick":
            raise ValueError("a dead end")
        return how

    @perdure.steps(failures=policy)
    def turns(s: perdure.Session) -> None:
        turn = s.state["turn"] = s.state.get("turn", 0) + 1
        told = s.action(attempt, effect="repeatable")(turn, s.strategy)
        s.state.setdefault("told", []).append(told)
        if turn == 1:
            s.checkpoint("plan")
        if turn == STEPS:
            s.complete(s.state["told"])

    return turns


@pytest.mark.parametrize(
    ("to", "told"), [("plan", ["quick", "careful", "careful"]), ("no such", ["quick", "quick", "careful"])]
)
def test_the_steps_since_are_taken_back(to: str, told: list[str]) -> None:
    policy = FailurePolicy(after=1, strategies=("quick", "careful"), rollback_to={"tool_error": to})
    with perdure.open("memory:") as store:
        assert store.run(agent(policy), "q").result == told


def test_a_chooser_is_told_of_them() -> None:
    seen: list[Failed] = []

    def choose(failed: Failed) -> Any:
        seen.append(failed)
        return FailurePolicy(after=1, strategies=("quick", "careful")).chosen(failed)

    policy = FailurePolicy(after=1, strategies=("quick", "careful"), chooser=choose)
    with perdure.open("memory:") as store:
        assert store.run(agent(policy), "q").result == ["quick", "quick", "careful"]
    (failed,) = seen
    assert [point.name for point in failed.candidates] == [""]
    assert [(point.name, point.actions) for point in failed.checkpoints] == [("plan", 2)]
