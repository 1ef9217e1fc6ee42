"""A store that fails in the middle of a call: made again, the call goes on where it was, and nothing happens twice."""

from __future__ import annotations

import asyncio
import threading

import pytest

import perdure
from perdure import limits
from perdure.errors import StoreFailedError, UnstorableError
from perdure.log.action import Actions


class Breaking:
    """Makes the n-th append from now fail, before it is written or after."""

    def __init__(self, store, monkeypatch):
        self.left, self.written = 0, False
        append = store.backend.append

        def breaking(session, batch, *, epoch, head):
            self.left -= 1
            if self.left == 0 and not self.written:
                raise StoreFailedError("no space left")
            newest = append(session, batch, epoch=epoch, head=head)
            if self.left == 0:
                raise StoreFailedError("the connection is gone")
            return newest

        monkeypatch.setattr(store.backend, "append", breaking)


@pytest.fixture
def store():
    with perdure.open("memory:") as opened:
        yield opened


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("effect", ["repeatable", "idempotent", "once"])
def test_the_same_call_again_goes_on_where_it_was(store, monkeypatch, effect, nth, written):
    ran = []

    def act(n):
        ran.append(n)
        return f"done {n}"

    breaking = Breaking(store, monkeypatch)
    with store.session("s") as s:
        s.save()
        broken = 0
        results = []
        for n in range(3):
            breaking.left, breaking.written = (nth if n == 1 else 0), written
            try:
                results.append(s.action(act, effect=effect)(n))
            except StoreFailedError:
                broken += 1
                results.append(s.action(act, effect=effect)(n))
        breaking.left = 0
    assert results == ["done 0", "done 1", "done 2"]
    assert broken == (0 if effect == "repeatable" and nth == 2 else 1)
    assert ran == [0, 1, 2]
    found = Actions(store.log("s")).values()
    assert [action.outcome.how for action in found] == ["result"] * 3
    assert all(action.attempts == 1 for action in found)


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_later_run_makes_the_calls_that_are_recorded(store, monkeypatch, nth, written):
    ran = []

    def act(n):
        ran.append(n)
        return n

    breaking = Breaking(store, monkeypatch)

    def agent(s):
        total = 0
        for n in range(3):
            if n == 1 and not again:
                breaking.left, breaking.written = nth, written
            try:
                total += s.action(act, effect="idempotent")(n)
            except StoreFailedError:
                total += s.action(act, effect="idempotent")(n)
        if not again:
            again.append(1)
            raise ValueError("later")
        return total

    again = []
    assert store.run(agent, "s").status == "failed"
    assert store.run(agent, "s").result == 3
    assert ran == [0, 1, 2]


@pytest.mark.parametrize("written", [False, True])
def test_each_of_several_calls_that_are_the_same_goes_on_where_it_was(store, monkeypatch, written):
    ran, failing, both = [], [], threading.Barrier(2, timeout=30)

    def pay(amount):
        ran.append(amount)
        if len(ran) <= 2:
            both.wait()  # both have begun, so what is written next is how they ended
            failing.append("no space left")
        return amount

    def block(s):
        with s.parallel() as p:
            paid = [p.action(pay, effect="once")(5) for _ in range(2)]
        return [each.result() for each in paid]

    append = store.backend.append

    def breaking(session, batch, *, epoch, head):
        if not failing:
            return append(session, batch, epoch=epoch, head=head)
        if written:
            append(session, batch, epoch=epoch, head=head)
        raise StoreFailedError(failing.pop())

    monkeypatch.setattr(store.backend, "append", breaking)
    with store.session("s") as s:
        with pytest.raises(StoreFailedError):
            block(s)
        assert block(s) == [5, 5]
    assert ran == [5, 5]
    assert [action.outcome.how for action in Actions(store.log("s")).values()] == ["result"] * 2


def test_one_that_was_broken_off_answers_one_call(store, monkeypatch):
    ran = []

    async def pay(amount):
        ran.append(amount)
        return len(ran)

    breaking = Breaking(store, monkeypatch)

    async def main():
        async with store.aio.session("s") as s:
            await s.save()
            breaking.left = 2
            with pytest.raises(StoreFailedError):
                await s.action(pay, effect="once")(5)
            async with s.parallel() as p:
                paid = [p.action(pay, effect="once")(5) for _ in range(2)]
            return sorted([await each for each in paid])

    assert asyncio.run(main()) == [1, 2]
    assert ran == [5, 5]
    assert [action.outcome.how for action in Actions(store.log("s")).values()] == ["result"] * 2


def test_a_result_that_is_too_long_is_kept_as_finished(store, monkeypatch):
    ran = []

    def huge():
        ran.append(1)
        return "x" * 5000

    monkeypatch.setattr(limits, "ENCODED_NODES_MAX", 4000)
    monkeypatch.setattr(limits, "RECORD_BYTES_MAX", 4000)
    with store.session("s") as s:
        for _ in range(2):
            with pytest.raises(UnstorableError, match=r"result of .*huge"):
                s.action(huge, effect="once", key="one")()
    assert ran == [1]
