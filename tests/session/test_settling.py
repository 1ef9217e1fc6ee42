"""What is in doubt is decided while somebody has the session, too: taken like an answer, while it is still a doubt."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

import perdure
from perdure.errors import AbandonedError, HeldError, SuspendedError, UndecidedError


class Killed(BaseException):
    """Stands for the end of the process inside of a tool."""


class Shop:
    """Pays, and counts it; `dies` ends the process inside of it, once."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.dies = True

    def pay(self, amount: int) -> str:
        if self.dies:
            self.dies = False
            raise Killed
        self.paid.append(amount)
        return f"receipt {amount}"


@pytest.fixture(params=["memory:", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path):
    with perdure.open("memory:" if request.param == "memory:" else str(tmp_path / "agents.db")) as opened:
        yield opened


@pytest.fixture
def shop() -> Shop:
    return Shop()


def doubted(store, shop: Shop) -> int:
    """A handle that died while it paid. The number of the payment."""
    with contextlib.suppress(Killed), store.session("s") as s:
        s.state["n"] = 1
        s.save()
        s.call(shop.pay, 3)
    assert not shop.dies
    return next(entry.seq for entry in store.log("s") if entry.kind == "action_started")


def kinds(store) -> list[str]:
    return [entry.kind for entry in store.log("s")]


@pytest.mark.parametrize("how", ["done", "not-done", "abandoned"])
def test_an_open_handle_takes_the_decision_before_its_next_call(store, shop: Shop, how: str) -> None:
    seq = doubted(store, shop)
    with store.session("s") as s:
        store.settle("s", seq, how, result="by hand" if how == "done" else None, by="ann", why="looked")
        assert "settled" not in kinds(store)
        if how == "abandoned":
            with pytest.raises(AbandonedError):
                s.call(shop.pay, 3)
        else:
            assert s.call(shop.pay, 3) == ("by hand" if how == "done" else "receipt 3")
    assert shop.paid == ([3] if how == "not-done" else [])
    (settled,) = [entry for entry in store.log("s") if entry.kind == "settled"]
    assert (settled["started"], settled["by"], settled["why"]) == (seq, "ann", "looked")
    assert store.verify("s", read_data=True).ok


def test_one_that_met_its_doubt_is_settled_while_it_is_still_open(store, shop: Shop) -> None:
    seq = doubted(store, shop)
    open_ = store.session("s")
    with pytest.raises(SuspendedError):
        open_.call(shop.pay, 3)
    store.settle("s", seq, "done", result="by hand")
    open_.close()
    with store.session("s") as s:
        assert s.call(shop.pay, 3) == "by hand"
    assert shop.paid == []


def test_of_two_decisions_the_first_counts(store, shop: Shop) -> None:
    seq = doubted(store, shop)
    with store.session("s") as s:
        store.settle("s", seq, "done", result="first")
        store.settle("s", seq, "not-done")
        assert s.call(shop.pay, 3) == "first"
    assert (kinds(store).count("settled"), kinds(store).count("received"), shop.paid) == (1, 1, [])
    with pytest.raises(UndecidedError):
        store.settle("s", seq, "not-done")


def test_what_is_under_way_is_not_settled(store, shop: Shop) -> None:
    shop.dies = False
    arrived, go = threading.Event(), threading.Event()

    def pay(amount: int) -> str:
        arrived.set()
        go.wait(30)
        return shop.pay(amount)

    def decide() -> None:
        arrived.wait(30)
        store.settle("s", next(e.seq for e in store.log("s") if e.kind == "action_started"), "not-done")
        go.set()

    with store.session("s") as s:
        person = threading.Thread(target=decide)
        person.start()
        assert s.call(pay, 3) == "receipt 3"
        person.join()
        s.call(len, "the next call looks into the inbox")
        s.state["n"] = 1
    with store.session("s") as s:
        assert s.pending == []
    assert ("settled" in kinds(store), kinds(store).count("received"), shop.paid) == (False, 1, [3])


def test_an_outcome_is_not_taken_away_from_code_that_runs(store, shop: Shop) -> None:
    shop.dies = False
    with store.session("s") as s:
        s.call(shop.pay, 3)
        seq = next(e.seq for e in store.log("s") if e.kind == "action_started")
        with pytest.raises(HeldError):
            store.settle("s", seq, "abandoned")


def test_what_was_sent_before_the_holder_went_is_delivered_by_whoever_comes(store, shop: Shop) -> None:
    seq = doubted(store, shop)
    open_ = store.session("s")
    store.settle("s", seq, "done", result="by hand")
    open_.close()
    store.edit("s", {"n": 2})
    assert [entry["how"] for entry in store.log("s") if entry.kind == "settled"] == ["result"]
    with store.session("s") as s:
        assert s.call(shop.pay, 3) == "by hand"


# --- in a parallel block ---------------------------------------------------------------------------------------------


class Bank:
    """Two payments beside a long work; the first life dies in all of them."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.dies = True
        self.works, self.goes_on = threading.Event(), threading.Event()

    def pay(self, amount: int) -> int:
        if self.dies:
            raise Killed
        self.paid.append(amount)
        return amount

    def work(self) -> str:
        if self.dies:
            raise Killed
        self.works.set()
        assert self.goes_on.wait(60)
        return "worked"


def decide(store, bank: Bank, how: dict[int, str]) -> None:
    """A person settles these payments while the work goes on."""
    assert bank.works.wait(60)
    starts = {e["args"]["amount"]: e.seq for e in store.log("s") if e.kind == "action_started" and e["args"]}
    for amount, what in how.items():
        seq = next(seq for data, seq in starts.items() if perdure.values.decode(data) == amount)
        store.settle("s", seq, what, result=amount * 10 if what == "done" else None)
    bank.goes_on.set()


@pytest.mark.parametrize("asks", ["at the end", "for a result"])
def test_a_doubt_that_is_settled_while_siblings_run_is_waited_for_no_more(store, asks: str) -> None:
    bank = Bank()

    def agent(s: perdure.Session) -> list:
        with s.parallel() as p:
            found = [p.call(bank.pay, 1), p.call(bank.pay, 2), p.action(bank.work, effect="repeatable")()]
            if asks == "for a result":
                found[1].result()
        return [one.result() for one in found]

    check(store, bank, agent)


def test_it_is_so_in_an_event_loop(store) -> None:
    bank = Bank()

    async def pay(amount: int) -> int:
        return bank.pay(amount)

    async def work() -> str:
        return await asyncio.to_thread(bank.work)

    async def agent(s: perdure.AsyncSession) -> list:
        async with s.parallel() as p:
            found = [p.call(pay, 1), p.call(pay, 2), p.action(work, effect="repeatable")()]
        return [await one for one in found]

    check(store, bank, agent)


def check(store, bank: Bank, agent) -> None:
    with contextlib.suppress(Killed):
        store.run(agent, "s")
    bank.dies = False
    person = threading.Thread(target=decide, args=(store, bank, {1: "done", 2: "not-done"}))
    person.start()
    outcome = store.run(agent, "s")
    person.join(60)
    assert (outcome.status, outcome.result) == ("completed", [10, 2, "worked"])
    assert bank.paid == [2]
    assert not [e for e in store.log("s") if e.kind == "status" and e["status"] == "waiting"]
    assert store.run(agent, "s").result == [10, 2, "worked"]
    assert store.verify("s", read_data=True).ok


def test_what_is_not_settled_by_then_waits(store) -> None:
    bank = Bank()

    def agent(s: perdure.Session) -> list:
        with s.parallel() as p:
            found = [p.call(bank.pay, 1), p.call(bank.pay, 2), p.action(bank.work, effect="repeatable")()]
        return [one.result() for one in found]

    with contextlib.suppress(Killed):
        store.run(agent, "s")
    bank.dies = False
    person = threading.Thread(target=decide, args=(store, bank, {2: "not-done"}))
    person.start()
    outcome = store.run(agent, "s")
    person.join(60)
    assert (outcome.status, len(outcome.questions), bank.paid) == ("waiting", 1, [2])
    store.settle("s", outcome.questions[0].seq, "done", result=7)
    assert store.run(agent, "s").result == [7, 2, "worked"]


def test_who_decides_is_told_the_key_that_the_service_was_given(store) -> None:
    given: list[str | None] = []

    @perdure.action(effect="once")
    def pay(amount: int, idempotency_key: perdure.IdempotencyKey | None = None) -> None:
        given.append(idempotency_key)
        raise Killed

    def agent(s: perdure.Session) -> None:
        s.call(pay, 3)

    with contextlib.suppress(Killed):
        store.run(agent, "s")
    (doubt,) = store.run(agent, "s").questions
    assert [doubt.idempotency_key] == given
    assert store.action("s", doubt.seq).idempotency_key == doubt.idempotency_key
    store.settle("s", doubt.seq, "abandoned")
    (asked,) = store.run(lambda s: s.ask("Now?"), "other").questions
    assert asked.idempotency_key == ""
