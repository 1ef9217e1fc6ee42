"""`scope="store"`: one effect for a key in the whole store, whoever asks for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import perdure
from perdure.errors import KeyReusedError, RecordedError, RefusedError, SuspendedError
from perdure.session.rules.shared import session_of
from perdure.values import encode

DONE: list[str] = []
KEYS: list[str | None] = []
FAILS: list[Exception] = []


def unpay(who: str, result: str) -> None:
    DONE.append(f"unpay {result}")


@perdure.action(
    effect="once", key=lambda who, *_: ("invoice", who), scope="store", undo=unpay, not_done=(ConnectionError,)
)
def pay(who: str, amount: int = 1, idempotency_key: perdure.IdempotencyKey | None = None) -> str:
    if FAILS:
        raise FAILS.pop()
    KEYS.append(idempotency_key)
    DONE.append(f"pay {who} {amount}")
    return f"paid {who}"


@perdure.action(effect="once", key=lambda who: ("mail", who), scope="store")
async def mail(who: str) -> str:
    DONE.append(f"mail {who}")
    return f"mailed {who}"


def payer(s: perdure.Session) -> str:
    return pay(s.input or "ada")


@pytest.fixture(params=["sqlite:///{}/agents.db", "file://{}/agents", "memory:"], ids=["sqlite", "file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path) -> Iterator[perdure.AgentStore]:
    for seen in (DONE, KEYS, FAILS):
        seen.clear()
    with perdure.open(request.param.format(tmp_path)) as opened:
        yield opened


def sound(store: perdure.AgentStore) -> bool:
    return all(store.verify(info.id, read_data=True).ok for info in store.sessions())


def test_the_first_session_pays_and_all_have_the_result(store) -> None:
    assert [store.run(payer, session).result for session in "abc"] == ["paid ada"] * 3
    assert store.run(payer, "d", input="bob").result == "paid bob"
    assert DONE == ["pay ada 1", "pay bob 1"]
    assert sound(store)


def test_sessions_that_race_pay_once(store) -> None:
    together = threading.Barrier(6)

    def run(n: int) -> Any:
        together.wait()
        return store.run(payer, f"s{n}").result

    with ThreadPoolExecutor(6) as pool:
        assert [*pool.map(run, range(6))] == ["paid ada"] * 6
    assert DONE == ["pay ada 1"]


def test_forks_share_it(store) -> None:
    def agent(s: perdure.Session) -> str:
        s.checkpoint("before")
        return pay("ada")

    store.run(agent, "a")
    store.fork("a", at="before", into="f")
    assert store.run(agent, "f").result == "paid ada"
    assert DONE == ["pay ada 1"]


def test_it_outlives_the_session_that_paid(store) -> None:
    store.run(payer, "a")
    store.erase("a")
    assert store.run(payer, "b").result == "paid ada"
    assert DONE == ["pay ada 1"]


def test_other_arguments_under_the_same_key_are_refused(store) -> None:
    store.run(payer, "a")
    assert isinstance(store.run(lambda s: pay("ada", 2), "b").error, KeyReusedError)
    assert DONE == ["pay ada 1"]


def test_a_failure_is_the_outcome_there_and_not_here(store) -> None:
    FAILS.append(ConnectionError("down"))

    def agent(s: perdure.Session) -> str:
        try:
            return pay("ada")
        except ConnectionError as error:
            return f"{error}"

    assert store.run(agent, "a").result == "down"
    assert store.run(agent, "b").result == "paid ada"
    assert store.run(agent, "a").result == "down"


def test_an_error_of_a_class_that_is_not_rebuilt_is_told_once(store) -> None:
    class OddError(Exception):
        pass

    FAILS.append(OddError("odd"))

    def agent(s: perdure.Session) -> Any:
        try:
            return pay("ada")
        except RecordedError as error:
            return error.kind.rpartition(".")[2], error.text

    assert store.run(agent, "a").result == ("OddError", "odd")


def test_in_doubt_for_all_until_a_person_settles_it(store) -> None:
    FAILS.append(OSError("perhaps"))
    assert isinstance(store.run(payer, "a").error, OSError)
    waits = [store.run(payer, session) for session in "ab"]
    assert [outcome.status for outcome in waits] == ["waiting", "waiting"]
    (question,), (other,) = waits[0].questions, waits[1].questions
    assert question == other
    assert question.session == session_of(encode(("invoice", "ada")))
    store.settle(question.session, question.seq, "done", result="it was paid")
    assert [store.run(payer, session).result for session in "ab"] == ["it was paid"] * 2
    assert DONE == []


def test_a_handle_waits_for_the_same(store) -> None:
    FAILS.append(OSError("perhaps"))
    store.run(payer, "a")
    with pytest.raises(SuspendedError, match="key"), store.session("h"):
        pay("ada")


def test_a_rollback_of_who_paid_undoes_it_and_the_key_is_free(store) -> None:
    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        if s.strategy is not None:
            return "not paid"
        pay("ada")
        return s.rollback("start", strategy="other")

    assert store.run(agent, "a").result == "not paid"
    assert store.run(payer, "b").result == "paid ada"
    assert DONE == ["pay ada 1", "unpay paid ada", "pay ada 1"]
    assert KEYS[0] != KEYS[1]
    assert sound(store)


def test_a_rollback_of_who_did_not_pay_leaves_it(store) -> None:
    store.run(payer, "b")

    def agent(s: perdure.Session) -> str:
        s.checkpoint("start")
        paid = pay("ada")
        return paid if s.strategy is not None else s.rollback("start", strategy="other")

    assert store.run(agent, "a").result == "paid ada"
    assert DONE == ["pay ada 1"]
    assert [a.call for a in store.detail("a").standing] == ["pay(who='ada')"]


def test_awaited(store) -> None:
    async def agent(s: perdure.AsyncSession) -> Any:
        return await asyncio.gather(mail("ada"), mail("bob"), mail("ada"), s.call(pay, "ada"))

    assert asyncio.run(store.arun(agent, "a")).result == ["mailed ada", "mailed bob", "mailed ada", "paid ada"]
    assert asyncio.run(store.arun(agent, "b")).result == ["mailed ada", "mailed bob", "mailed ada", "paid ada"]
    assert sorted(DONE) == ["mail ada", "mail bob", "pay ada 1"]


def test_in_a_parallel_block(store) -> None:
    def agent(s: perdure.Session) -> list[str]:
        with s.parallel() as p:
            return [one.result() for one in [p.call(pay, "ada"), p.call(pay, "bob")]]

    assert store.run(agent, "a").result == store.run(agent, "b").result == ["paid ada", "paid bob"]
    assert sorted(DONE) == ["pay ada 1", "pay bob 1"]


def test_without_a_key_it_is_refused() -> None:
    with pytest.raises(RefusedError, match="needs a key"):
        perdure.action(scope="store")
    with pytest.raises(RefusedError, match="scope='world'"):
        perdure.action(scope="world", key=1)


def test_a_stream_is_refused(store) -> None:
    def agent(s: perdure.Session) -> list[str]:
        return [*s.stream(words)]

    @perdure.action(key=1, scope="store")
    def words():
        yield "a"

    assert isinstance(store.run(agent, "a").error, RefusedError)
