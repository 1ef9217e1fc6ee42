"""What is done about failures: tried again, taken back and tried another way, left to a person."""

from __future__ import annotations

import errno
import json
import socket
from email.message import Message
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest

import perdure
from perdure import clock, limits
from perdure.errors import BudgetError, RecordedError, RefusedError
from perdure.log.choices import Choice, Course
from perdure.recovery import FailurePolicy, error_kinds
from perdure.session.session import Session
from perdure.testing import crash_everywhere
from tests.instants import POINTS

WAYS = ("first", "second", "third")


@pytest.fixture
def store():
    with perdure.open("memory:") as opened:
        yield opened


def course(store, session="s") -> Course:
    return Course().take(store.log(session))


def done(store, session="s") -> list[str]:
    return [choice.do for choice in course(store, session).choices]


def statuses(store, session="s"):
    return [e["status"] for e in store.log(session) if e.kind == "status"]


# --- another strategy ------------------------------------------------------------------------------------------------

said: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_said():
    said.clear()


@perdure.action(effect="repeatable")
def think(messages: list[str]) -> str:
    said.append(list(messages))
    return messages[-1].upper()


@perdure.action(effect="repeatable")
def build(how: str) -> str:
    if how != "THIRD":
        raise ValueError(f"cannot build {how}")
    return "built"


@perdure.agent(failures=FailurePolicy(after=2, strategies=WAYS))
def stubborn(s):
    """Catches what its tool raises, and tries once more."""
    s.state["messages"] = []
    s.checkpoint("start")
    messages = s.state["messages"]
    messages.append(s.strategy)
    plan = think(messages=messages)
    try:
        return build(plan)
    except ValueError as error:
        messages.append(str(error))
        return build(plan)


@perdure.agent(failures=FailurePolicy(after=2, strategies=WAYS))
def plain(s):
    """Leaves its errors to the policy."""
    s.state["messages"] = []
    s.checkpoint("start")
    messages = s.state["messages"]
    messages.append(s.strategy)
    return build(think(messages=messages))


@perdure.steps(failures=FailurePolicy(after=2, strategies=WAYS))
def in_steps(s):
    if not s.state:
        s.state["messages"] = []
        return
    messages = s.state["messages"]
    messages.append(s.strategy)
    s.complete(build(think(messages=messages)))


@perdure.agent(failures=FailurePolicy(after=2, strategies=WAYS))
async def awaited(s):
    s.state["messages"] = []
    await s.checkpoint("start")
    messages = s.state["messages"]
    messages.append(s.strategy)
    return await s.call(build, await s.call(think, messages=messages))


AGENTS = [stubborn, plain, in_steps, awaited]


@pytest.mark.parametrize("agent", AGENTS)
def test_the_third_strategy_succeeds_and_nothing_of_the_first_two_is_left(store, agent):
    outcome = store.run(agent, "s")
    assert (outcome.status, outcome.result) == ("completed", "built")
    told = course(store)
    assert told.strategies == ["second", "third"]
    assert [c.outcome for c in told.choices if c.do == "next"] == ["failed", "completed"]
    assert store.state_at("s") == {"messages": ["third"]}
    assert [messages[-1] for messages in said if messages[0] == "third"] == ["third"]
    for messages in said:
        assert len({text for text in messages if text in WAYS}) == 1, "a branch that was left is in a prompt"
    assert len(store.detail("s").branches) >= 3


@pytest.mark.storm
@pytest.mark.parametrize("agent", [stubborn, plain, in_steps])
def test_killed_anywhere_it_ends_the_same(agent):
    def effects():
        return {}

    crash_everywhere(agent, effects=effects, points=POINTS)


def test_when_every_strategy_was_tried_the_session_is_failed_and_all_of_it_kept(store):
    @perdure.agent(failures=FailurePolicy(after=2, strategies=("a", "b")))
    def hopeless(s):
        s.state["tried"] = s.strategy
        s.checkpoint("start")
        return build(s.strategy)

    outcome = store.run(hopeless, "s")
    assert outcome.status == "failed"
    assert "every strategy was tried" in outcome.reason
    assert isinstance(outcome.error, ValueError)
    assert store.info("s").reason == outcome.reason
    assert done(store) == ["again", "next", "again", "give up"]
    before = len(list(store.log("s")))
    again = store.run(hopeless, "s")
    assert again.status == "failed"
    assert len(list(store.log("s"))) > before, "a person may try once more"


def test_a_person_gives_it_another_strategy(store):
    @perdure.agent(failures=FailurePolicy(after=1, strategies=("a",)))
    def agent(s):
        s.checkpoint("start")
        return build(s.strategy)

    assert store.run(agent, "s").status == "failed"
    assert store.detail("s").interventions == (), "what a policy does nobody did"
    store.rollback("s", "start", strategy="THIRD", by="alex")
    assert store.run(agent, "s").result == "built"
    assert [c.outcome for c in store.detail("s").choices] == ["failed"]
    assert [i.by for i in store.detail("s").interventions] == ["alex"]


# --- kinds -----------------------------------------------------------------------------------------------------------


class RateLimitError(Exception):
    """As the packages of model providers have it."""

    def __init__(self, headers=None):
        super().__init__("slow down")
        self.response = SimpleNamespace(status_code=429, headers=headers or {})


@pytest.mark.parametrize(
    ("error", "of_action", "kind"),
    [
        (ConnectionResetError(), True, "transient"),
        (TimeoutError(), False, "transient"),
        (RateLimitError(), True, "transient"),
        (type("APIConnectionError", (Exception,), {})(), True, "transient"),
        (type("ConnectionError", (OSError,), {})(), True, "transient"),  # of requests and redis: no built-in one
        (RecordedError("requests.exceptions.ConnectionError", "refused"), True, "transient"),
        (type("TimeoutError", (Exception,), {})(), True, "transient"),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), True, "transient"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), True, "transient"),
        (OSError(errno.ENOSPC, "No space left on device"), True, "tool_error"),
        (type("APIStatusError", (Exception,), {"status_code": 503})(), True, "transient"),
        (type("APIStatusError", (Exception,), {"status_code": 401})(), True, "fatal"),
        (type("APIStatusError", (Exception,), {"status_code": 404})(), True, "tool_error"),
        (RecordedError("openai.RateLimitError", "slow down"), True, "transient"),
        (json.JSONDecodeError("x", "y", 0), False, "invalid_output"),
        (type("ValidationError", (ValueError,), {})(), False, "invalid_output"),
        (ValueError("x"), True, "tool_error"),
        (ValueError("x"), False, "fatal"),
        (RefusedError("x"), True, "fatal"),
        (MemoryError(), True, "fatal"),
    ],
)
def test_errors_are_of_kinds(error, of_action, kind):
    assert FailurePolicy().kind(error, of_action=of_action) == kind


def test_kinds_can_be_declared():
    policy = FailurePolicy(kinds={"LookupError": "fatal"}, classify=lambda e: "transient" if "busy" in str(e) else None)
    assert policy.kind(KeyError("x"), of_action=True) == "fatal"
    assert policy.kind(KeyError("busy"), of_action=True) == "transient"
    with pytest.raises(RefusedError, match="'odd'"):
        FailurePolicy(classify=lambda _: "odd").kind(KeyError(), of_action=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"after": 0},
        {"retries": -1},
        {"scope": "galaxy"},
        {"rollback_to": {"typo": 0}},
        {"kinds": {"KeyError": "typo"}},
        {"within_s": 0},
        {"budget": {"usd": -1}},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(RefusedError, match=next(iter(wrong)) if "typo" not in str(wrong) else "typo"):
        FailurePolicy(**wrong)


def test_a_server_is_left_alone_for_as_long_as_it_asks():
    at = clock.now_us() / 1e6 + 90
    for headers, wait_s in (
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": formatdate(at, usegmt=True)}, 90.0),
        ({"retry-after": "999999"}, limits.RETRY_AFTER_S_MAX),
        ({"retry-after": "soon"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({}, 0.0),
    ):
        assert error_kinds.retry_after_s(RateLimitError(headers)) == pytest.approx(
            wait_s, abs=3.0 if wait_s == 90 else 0
        )


def test_what_urllib_says_of_a_server_is_followed():
    headers = Message()
    headers["Retry-After"] = "7"
    error = HTTPError("http://localhost", 429, "slow down", headers, None)
    assert error_kinds.kind_of(error, of_action=True) == "transient"
    assert error_kinds.retry_after_s(error) == 7.0


# --- trying again ----------------------------------------------------------------------------------------------------


def test_what_passes_by_itself_is_tried_again_for_as_long_as_was_asked(store, monkeypatch):
    waits = []
    monkeypatch.setattr("perdure.session.rules.core.backoff_s", lambda failures, *, first_s: 0.001 * failures)
    monkeypatch.setattr("perdure.session.session.Session._arrivals", _noting(waits))

    @perdure.action(effect="repeatable")
    def ask():
        said.append("ask")
        if len(said) < 4:
            raise RateLimitError({"retry-after-ms": "30"} if len(said) == 2 else None)
        return "yes"

    @perdure.agent(failures=FailurePolicy())
    def agent(s):
        return s.call(ask)

    assert store.run(agent, "s").result == "yes"
    assert len(said) == 4
    assert [w > 0.02 for w in waits] == [False, True, False]


def _noting(waits):
    right = Session._arrivals

    def arrivals(self, request):
        waits.append(request.wait_s)
        return right(self, request)

    return arrivals


def test_a_wait_in_which_the_process_ended_is_waited_for_to_its_end(tmp_path, monkeypatch):
    waits = []

    def wait(_self, request):
        waits.append(request.wait_s)
        if len(waits) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Session, "_pass_time", wait)

    @perdure.action(effect="repeatable")
    def ask():
        said.append("ask")
        if len(said) < 2:
            raise RateLimitError({"retry-after": "60"})
        return "yes"

    @perdure.agent(failures=FailurePolicy(retries=0))
    def agent(s):
        return s.call(ask)

    with perdure.open(tmp_path / "a.db") as store:
        with pytest.raises(KeyboardInterrupt):
            store.run(agent, "s")
        assert said == ["ask"]
        assert store.run(agent, "s").result == "yes"
        assert 30 < waits[1] <= waits[0] == 60
        assert [c.wait_s for c in course(store).choices] == [60]


def test_attempts_are_counted_over_kills_in_the_wait(tmp_path, monkeypatch):
    """Case 45: killed twice while it waits, it makes no more attempts than the policy allows in all."""
    left = [KeyboardInterrupt, KeyboardInterrupt]

    def wait(self, request):
        if left:
            raise left.pop()
        return [], 0.0

    monkeypatch.setattr(Session, "_arrivals", wait)

    @perdure.action(effect="repeatable")
    def ask():
        said.append("ask")
        raise ConnectionResetError

    @perdure.agent(failures=FailurePolicy(retries=3, after=1))
    def agent(s):
        return s.call(ask)

    with perdure.open(tmp_path / "a.db") as store:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                store.run(agent, "s")
        assert store.run(agent, "s").status == "failed"
    assert len(said) == 4


def test_once_is_not_tried_again_by_itself(store):
    def pay():
        said.append("pay")
        raise ConnectionResetError

    @perdure.agent(failures=FailurePolicy(after=3))
    def agent(s):
        return s.call(pay)

    outcome = store.run(agent, "s")
    assert said == ["pay"]
    assert outcome.status == "waiting", "whether it happened is for a person"


def test_what_nothing_helps_is_given_up_at_once(store):
    @perdure.agent(failures=FailurePolicy(strategies=WAYS))
    def agent(s):
        s.checkpoint("start")
        said.append(s.strategy)
        raise KeyError("a mistake in the agent's own code")

    outcome = store.run(agent, "s")
    assert (outcome.status, said) == ("failed", ["first"])
    assert done(store) == ["give up"]


def test_a_reply_that_cannot_be_read_is_asked_for_again(store):
    replies = iter(["{", "{", '{"a": 1}'])

    @perdure.action(effect="repeatable")
    def model():
        return next(replies)

    @perdure.agent(failures=FailurePolicy())
    def agent(s):
        s.checkpoint("start")
        return json.loads(s.call(model))

    assert store.run(agent, "s").result == {"a": 1}
    assert done(store) == ["back", "back"]


def test_failures_of_one_action_in_a_row_are_counted_whatever_else_succeeds(store):
    @perdure.agent(failures=FailurePolicy(after=3, strategies=("a", "b")))
    def agent(s):
        s.checkpoint("start")
        said.append(s.strategy)
        for i in range(9):
            s.call(think, [str(i)])
            try:
                s.call(build, f"{s.strategy}{i}")
            except ValueError:
                continue
        return "over"

    store.run(agent, "s")
    assert [c.failures for c in course(store).choices if c.do == "next"] == [3]


def test_without_a_policy_nothing_is_counted_or_done(store):
    @perdure.agent
    def agent(s):
        return s.call(build, "x")

    assert store.run(agent, "s").status == "failed"
    assert done(store) == []
    finished = next(e for e in store.log("s") if e.kind == "action_finished")
    assert "kind" not in finished["value"]


def test_the_chooser_is_asked_and_told_what_it_needs(store):
    told = []

    def chooser(failed):
        told.append(failed)
        return Choice("give up", reason="not today")

    @perdure.agent(failures=FailurePolicy(chooser=chooser, after=1))
    def agent(s):
        s.checkpoint("start")
        s.call(think, ["x"])
        s.save()
        return s.call(build, "x")

    assert store.run(agent, "s").reason == "not today"
    assert [c.name for c in told[0].candidates][-2] == "start"
    assert told[0].course.last.action == "build"
    assert [c.actions for c in told[0].candidates] == [1, 2, 2]


# --- money -----------------------------------------------------------------------------------------------------------


@perdure.action(effect="repeatable", cost=lambda reply: {"usd": 0.5, "tokens": len(reply)})
def dear(n: int) -> str:
    said.append(n)
    return "x" * n


def test_what_is_spent_is_counted_over_restarts_and_rollbacks_and_the_limit_holds(tmp_path: Path):
    @perdure.agent(failures=FailurePolicy(budget={"usd": 2.0}))
    def agent(s):
        s.checkpoint("start")
        for n in range(10):
            s.call(dear, n)
            if n == 1 and not s.strategy:
                s.rollback("start", strategy="second")
            if n == 2 and len(said) == 5:
                raise KeyboardInterrupt
        return "done"

    with perdure.open(tmp_path / "a.db") as store:
        outcome = store.run(agent, "s")
        assert outcome.status == "failed"
        assert isinstance(outcome.error, BudgetError)
        assert said == [0, 1, 0, 1], "2.00 is spent: 1.00 of it on the branch that was left"
    with perdure.open(tmp_path / "a.db") as store:
        assert store.run(agent, "s").status == "failed"
        assert len(said) == 4, "a restart gives no money back"
        assert course(store).spent == {"usd": 2.0, "tokens": 2.0}


def test_a_cost_that_cannot_be_told_loses_no_result(store, caplog):
    @perdure.action(effect="repeatable", cost=lambda reply: {"usd": reply.price})
    def odd():
        return "kept"

    assert store.run(lambda s: s.call(odd), "s").result == "kept"
    assert "odd cost" in caplog.text


def test_a_cost_that_is_no_number_does_not_switch_the_budget_off(store, caplog):
    @perdure.action(effect="repeatable", cost=lambda reply: reply)
    def priced(n: int) -> dict[str, float]:
        said.append(n)
        return {"usd": float("nan") if n == 0 else 1.0, "tokens": 1.0}

    @perdure.agent(failures=FailurePolicy(budget={"usd": 3.0}))
    def agent(s):
        return [s.call(priced, n) for n in range(10)]

    assert isinstance(store.run(agent, "s").error, BudgetError)
    assert said == [0, 1, 2, 3], "0 is not known, 1 to 3 are 3.00"
    assert course(store).spent == {"usd": 3.0, "tokens": 4.0}
    assert "priced cost in usd is not known" in caplog.text


def test_a_kind_that_cannot_be_told_loses_no_outcome(store, caplog):
    @perdure.action(effect="once")
    def pay():
        said.append("paid")
        raise ValueError("refused")

    @perdure.agent(failures=FailurePolicy(classify=lambda error: error.kind))
    def agent(s):
        try:
            pay()
        except ValueError:
            return "told"

    assert store.run(agent, "s").result == "told", "an outcome that is known is in no doubt"
    assert said == ["paid"]
    assert "classify= failed" in caplog.text

    @perdure.agent(failures=FailurePolicy(classify=lambda error: error.kind))
    def own(s):
        raise ValueError("its own")

    assert store.run(own, "own").status == "failed"
    assert store.detail("own").choices[-1].failure.kind == "fatal"
