"""A strategy that was left: nothing of its text goes on, and what it paid for is not paid again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import KeyReusedError
from perdure.recovery import FailurePolicy
from perdure.testing import crash_everywhere

WAYS = ("first", "second", "third")
POLICY = FailurePolicy(after=2, strategies=WAYS)
CANARY = "canary of "


@pytest.fixture
def store(tmp_path: Path):
    with perdure.open(tmp_path / "agents.db") as opened:
        yield opened


prompts: list[str] = []
memory: list[str] = []
cache: dict[str, str] = {}


@perdure.action(effect="repeatable")
def think(messages: list[str], remembered: dict[str, Any]) -> str:
    prompts.append(repr((messages, remembered)))
    return CANARY + messages[-1]


@perdure.action(effect="repeatable")
def look_up(topic: str) -> str:
    """Called alike by every strategy: an answer from a branch that was left would show."""
    cache["calls"] = cache.get("calls", "") + "."
    return f"{topic} {cache['calls']}"


@perdure.action(effect="repeatable")
def build(plan: str) -> str:
    if "third" not in plan:
        raise ValueError(f"cannot build {plan}")
    return "built"


@perdure.agent(failures=POLICY, append_only=["messages"])
def writer(s: perdure.Session) -> str:
    s.state.update(messages=[], memory={}, todo=[], kept="of before")
    s.checkpoint("start")
    messages = s.state["messages"]
    messages.append(f"the {s.strategy} way")
    s.state["todo"].append(f"do it the {s.strategy} way")
    s.state["memory"][s.strategy] = s.call(look_up, "tides")
    plan = s.call(think, messages, s.state["memory"])
    messages.append(plan)
    return s.call(build, plan)


def test_nothing_of_a_strategy_that_was_left_goes_on(store):
    prompts.clear()
    cache.clear()
    assert store.run(writer, "s").result == "built"
    for prompt in prompts:
        assert sum(way in prompt for way in WAYS) == 1, "another strategy's text is in a prompt"
    left = [way for way in WAYS[:2] if way in repr(store.state_at("s"))]
    assert left == [], "in the state that goes on"
    assert store.state_at("s")["memory"] == {"third": "tides ..."}, "each strategy looks it up itself"
    assert store.state_at("s")["kept"] == "of before"
    told = repr([entry.body for entry in store.log("s")])
    assert CANARY + "the first way" in told, "the log keeps it, for a person to look at"
    assert [c.strategy for c in store.detail("s").choices if c.do == "next"] == ["second", "third"]


def payer(paid: Path, *, keyed: bool, ignore: tuple[str, ...] = ("order", "at")) -> Any:
    """It pays, with an id and a time that differ each time, and then fails twice out of three ways."""
    key = (lambda amount, **_: amount) if keyed else None

    @perdure.action(effect="once", key=key, ignore=ignore if keyed else ())
    def pay(amount: int, order: str, at: float) -> str:
        with paid.open("a") as file:
            file.write("pay\n")
        return f"receipt of {amount}"

    @perdure.agent(failures=POLICY)
    def agent(s: perdure.Session) -> str:
        s.state["receipt"] = ""
        s.checkpoint("start")
        way, order, at = s.strategy, str(s.uuid()), s.now().timestamp()
        s.state["receipt"] = s.call(pay, amount=10, order=order, at=at)
        return s.call(build, way)

    return agent


def times(paid: Path) -> int:
    return len(paid.read_text().splitlines()) if paid.exists() else 0


def test_what_a_key_names_is_paid_once_over_all_strategies(store, tmp_path):
    paid = tmp_path / "paid"
    assert store.run(payer(paid, keyed=True), "s").result == "built"
    assert times(paid) == 1
    assert store.state_at("s")["receipt"] == "receipt of 10"


def test_a_key_that_comes_with_another_id_is_refused_and_not_paid_again(store, tmp_path):
    paid = tmp_path / "paid"
    outcome = store.run(payer(paid, keyed=True, ignore=()), "s")
    assert (outcome.status, type(outcome.error), times(paid)) == ("failed", KeyReusedError, 1)
    assert "ignore=('order', 'at',) beside key= of pay and resume" in str(outcome.error)


@pytest.mark.parametrize("ignore", [("order", "at"), ("at", "order", "trace")])
def test_once_the_code_is_corrected_as_the_message_says_it_goes_on_and_nothing_is_paid_again(store, tmp_path, ignore):
    paid = tmp_path / "paid"
    assert store.run(payer(paid, keyed=True, ignore=()), "s").status == "failed"
    half = store.run(payer(paid, keyed=True, ignore=("at",)), "s")
    assert "What differs is order. If" in str(half.error), "what is left out already is not named"
    outcome = store.run(payer(paid, keyed=True, ignore=ignore), "s")
    assert (outcome.result, times(paid)) == ("built", 1)
    assert store.state_at("s")["receipt"] == "receipt of 10"


def test_another_amount_under_the_key_stays_refused_whatever_is_left_out(store, tmp_path):
    paid = tmp_path / "paid"

    def agent(amount: int) -> Any:
        @perdure.action(effect="once", key="invoice 7", ignore=("order",))
        def pay(amount: int, order: str) -> str:
            with paid.open("a") as file:
                file.write("pay\n")
            return "receipt"

        @perdure.steps
        def code(s: perdure.Session) -> None:
            s.call(pay, amount=amount, order=str(s.uuid()))
            s.state["n"] = s.state.get("n", 0) + 1
            if s.state["n"] == 1:
                raise KeyboardInterrupt

        return code

    with pytest.raises(KeyboardInterrupt):
        store.run(agent(10), "s")
    outcome = store.run(agent(11), "s")
    assert (type(outcome.error), times(paid)) == (KeyReusedError, 1)
    assert "What differs is amount" in str(outcome.error)


def test_without_a_key_a_person_is_asked_before_it_would_be_paid_again(store, tmp_path):
    paid = tmp_path / "paid"
    agent = payer(paid, keyed=False)
    outcome = store.run(agent, "s")
    asked = 0
    while outcome.status == "waiting":
        (question,) = outcome.questions
        assert times(paid) == 1, "nothing is paid while nobody has decided"
        store.answer("s", question.seq, "reuse")
        asked += 1
        outcome = store.run(agent, "s")
    assert (outcome.result, times(paid), asked) == ("built", 1, 2)
    assert store.state_at("s")["receipt"] == "receipt of 10"


def test_killed_anywhere_on_the_way_to_the_third_strategy_it_pays_once(tmp_path):
    paid, folder = tmp_path / "paid", tmp_path / "lives"
    folder.mkdir()
    agent = payer(paid, keyed=True)

    def effects() -> Counter[str]:
        return Counter(paid.read_text().split() if paid.exists() else ())

    crash_everywhere(agent, effects=effects, fresh=lambda: paid.unlink(missing_ok=True), folder=folder)
