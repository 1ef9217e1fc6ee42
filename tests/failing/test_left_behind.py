"""A strategy that was left: nothing of its text goes on, and what it paid for is not paid again."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import KeyReusedError
from perdure.recovery import FailurePolicy
from perdure.session.rules.call import Done, NotDone
from perdure.session.rules.core import Journal
from perdure.testing import Doubt, crash_everywhere
from tests.instants import POINTS

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


@perdure.agent
def helper(s: perdure.Session) -> str:
    """One of another way than the third waits for a person."""
    s.state["task"] = s.input
    return s.input if "third" in s.input else s.ask(f"{CANARY}{s.input}: shall I?", key="may")


@perdure.agent(failures=POLICY)
def delegating(s: perdure.Session) -> str:
    s.checkpoint("start")
    way, task = s.strategy, s.receive(wait_s=0)
    prompts.append(f"{task} the {way} way")
    child = s.spawn(helper, input=f"do it the {way} way", key="helper")
    if way == "second":
        s.ask(f"{CANARY}the {way} way?", key="go", choices=["yes", "no"])
    return f"{s.call(build, way)}: {child.result()}"


def in_queues(store: perdure.AgentStore, text: str) -> list[str]:
    """Where this text still waits for somebody: questions, and what lies in an inbox."""
    found = [question.prompt for info in store.sessions() for question in store.questions(info.id)]
    found += [repr(item) for info in store.sessions() for item in store.backend.inbox(info.id)]
    return [one for one in found if text in one]


def brought_to_the_third(store: perdure.AgentStore) -> Any:
    outcome = store.run(delegating, "s")
    assert outcome.status == "idle"
    store.send("s", "the task", by="alex")
    assert store.run(delegating, "s").status == "waiting"
    assert in_queues(store, "the second way")
    (asked,) = [q for q in store.questions("s") if q.session == "s"]
    store.answer("s", asked.seq, "no", by="alex")  # nobody has taken it when somebody else decides otherwise
    store.rollback("s", "start", strategy="third", by="alex")
    return store.run(delegating, "s")


def test_nothing_of_a_strategy_that_was_left_waits_in_a_queue(store):
    prompts.clear()
    outcome = brought_to_the_third(store)
    assert outcome.result == "built: do it the third way"
    assert set(prompts) == {f"the task the {way} way" for way in WAYS}, "each is given what was sent, and no more"
    for way in WAYS[:2]:
        assert in_queues(store, f"the {way} way") == []
        goes_on = [info.id for info in store.sessions() if info.status != "cancelled"]
        assert [one for one in goes_on if f"the {way} way" in repr(store.state_at(one))] == []
    assert sum(info.status == "cancelled" for info in store.sessions(parent="s")) == 2


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

    agent.pay = pay
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


@pytest.mark.storm
def test_killed_anywhere_on_the_way_to_the_third_strategy_it_pays_once(tmp_path):
    paid = tmp_path / "paid"
    agent = payer(paid, keyed=True)

    def effects() -> Counter[str]:
        return Counter(paid.read_text().split() if paid.exists() else ())

    crash_everywhere(agent, effects=effects, fresh=lambda: paid.unlink(missing_ok=True), points=POINTS)


INSTRUCTIVE = None if os.environ.get("PERDURE_STORM") == "full" else ("effect.before", "effect.after", "append.after")


@pytest.fixture
def lived(tmp_path: Path) -> Any:
    """What runs an agent that has no key everywhere: what was asked on the way, by what was known of it."""
    paid, doubts, folder = tmp_path / "paid", tmp_path / "doubts", tmp_path / "lives"
    folder.mkdir()

    def effects() -> Counter[str]:
        assert times(paid) <= 1, "paid twice"
        return Counter(pay=times(paid))

    def settle(doubt: Doubt) -> Done | NotDone:
        with doubts.open("a") as file:
            file.write(f"{doubt.name} {doubt.happened}\n")
        return Done("receipt of 10") if times(paid) else NotDone()

    def run(made: Any) -> Counter[str]:
        crash_everywhere(
            made(paid, keyed=False),
            effects=effects,
            answers={"pay?": "reuse"},
            settle=settle,
            points=INSTRUCTIVE,
            fresh=lambda: paid.unlink(missing_ok=True),
            folder=folder,
        )
        return Counter(doubts.read_text().splitlines())

    return run


def stepping_payer(paid: Path, *, keyed: bool) -> Any:
    """The same in steps."""
    pay = payer(paid, keyed=keyed).pay

    @perdure.steps(failures=POLICY)
    def agent(s: perdure.Session) -> None:
        if not s.state:
            s.state["receipt"] = ""
            return
        way, order, at = s.strategy, str(s.uuid()), s.now().timestamp()
        s.state["receipt"] = s.call(pay, amount=10, order=order, at=at)
        s.complete(s.call(build, way))

    return agent


@pytest.mark.parametrize("made", [payer, stepping_payer], ids=["script", "steps"])
def test_killed_anywhere_without_a_key_nothing_is_paid_twice_and_what_is_in_doubt_is_asked(lived, made):
    asked = lived(made)
    assert asked["pay False"] > 0, "killed before the effect: a person is asked all the same"
    assert asked["pay True"] > 0, "killed behind it"


def test_a_build_that_pays_again_after_a_rollback_unasked_is_caught(lived, monkeypatch):
    def unasked(_self: Any, _call: Any) -> Any:
        yield from ()

    monkeypatch.setattr(Journal, "_ask_if_standing", unasked)
    with pytest.raises(AssertionError, match="paid twice"):
        lived(payer)


def test_a_build_that_runs_what_is_in_doubt_again_is_caught(lived, monkeypatch):
    def again(_self: Any, _call: Any, _action: Any) -> Any:
        yield from ()

    monkeypatch.setattr(Journal, "settle_doubt", again)
    with pytest.raises(AssertionError, match="paid twice"):
        lived(payer)
