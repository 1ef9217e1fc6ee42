"""An error ends the run while others are at work beside it: what they did is kept, and what failed with it goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import perdure

done: Counter[str] = Counter()
broken: set[str] = set()


@pytest.fixture
def store() -> Iterator[perdure.AgentStore]:
    done.clear()
    broken.clear()
    with perdure.open("memory:") as opened:
        yield opened


@perdure.action(effect="once")
async def pay(what: str) -> str:
    done[what] += 1
    return f"paid {what}"


@perdure.action(effect="repeatable")
async def find(what: str) -> str:
    done[what] += 1
    if what in broken:
        raise LookupError(what)
    return f"found {what}"


def playing(*works: Any) -> Any:
    async def agent(s: perdure.AsyncSession) -> list[Any]:
        async with s.parallel() as p:
            promises = [p.action(work, effect="repeatable")() for work in works]
        return [await promise for promise in promises]

    return agent


def test_what_was_paid_beside_an_error_is_not_asked_about(store: perdure.AgentStore) -> None:
    failed = asyncio.Event()

    async def one() -> str:
        try:
            return await find("one")
        finally:
            failed.set()

    async def two() -> list[str]:
        await failed.wait()
        return [await pay("two"), await pay("three")]

    broken.add("one")
    assert store.run(playing(one, two), "s").status == "failed"
    broken.clear()
    outcome = store.run(playing(one, two), "s")
    assert (outcome.status, outcome.result) == ("completed", ["found one", ["paid two", "paid three"]])
    assert done == {"one": 2, "two": 1, "three": 1}


def test_one_that_was_broken_off_beside_an_error_has_what_it_did(store: perdure.AgentStore) -> None:
    """Two fail, each after a payment of its own, made after the other had failed; one more run tries both again."""
    failed = asyncio.Event()

    async def one() -> list[str]:
        try:
            return [await pay("one"), await find("first")]
        finally:
            failed.set()

    async def two() -> list[str]:
        await failed.wait()
        return [await pay("two"), await find("second")]

    broken.update(["first", "second"])
    assert store.run(playing(one, two), "s").status == "failed"
    broken.clear()
    outcome = store.run(playing(one, two), "s")
    assert outcome.result == [["paid one", "found first"], ["paid two", "found second"]]
    assert done == {"one": 1, "two": 1, "first": 2, "second": 2}


def test_what_an_action_did_after_the_error_in_it_is_left(store: perdure.AgentStore) -> None:
    async def one() -> str:
        try:
            return await find("one")
        except LookupError:
            await find("a hand to clear up")
            raise

    async def two() -> str:
        return await pay("two")

    broken.add("one")
    assert store.run(playing(one, two), "s").status == "failed"
    broken.clear()
    assert store.run(playing(one, two), "s").result == ["found one", "paid two"]
    assert done == {"one": 2, "a hand to clear up": 1, "two": 1}


def test_what_the_agents_own_code_did_after_the_error_is_left(store: perdure.AgentStore) -> None:
    async def one() -> str:
        return await find("one")

    async def two() -> str:
        return await pay("two")

    async def agent(s: perdure.AsyncSession) -> list[Any]:
        try:
            return await playing(one, two)(s)
        except LookupError:
            await find("a hand to clear up")
            raise

    broken.add("one")
    assert store.run(agent, "s").status == "failed"
    broken.clear()
    assert store.run(agent, "s").result == ["found one", "paid two"]
    assert done == {"one": 2, "a hand to clear up": 1, "two": 1}


def test_blocks_within_blocks(store: perdure.AgentStore) -> None:
    failed = asyncio.Event()

    async def inner(s: perdure.AsyncSession) -> list[str]:
        async def first() -> str:
            try:
                return await find("first")
            finally:
                failed.set()

        async def second() -> str:
            await failed.wait()
            return await pay("second")

        async with s.parallel() as p:
            promises = [p.action(work, effect="repeatable")() for work in (first, second)]
        return [await promise for promise in promises]

    async def agent(s: perdure.AsyncSession) -> list[Any]:
        async def one() -> list[str]:
            return await inner(s)

        async def two() -> str:
            await failed.wait()
            return await pay("two")

        return await playing(one, two)(s)

    broken.add("first")
    assert store.run(agent, "s").status == "failed"
    broken.clear()
    outcome = store.run(agent, "s")
    assert (outcome.status, outcome.result) == ("completed", [["found first", "paid second"], "paid two"])
    assert done == {"first": 2, "second": 1, "two": 1}
