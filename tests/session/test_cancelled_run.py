"""A run that is cancelled from outside: what it was cut short in runs again, and waits for no second cancelling."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

import perdure

ran: Counter[str] = Counter()


@pytest.fixture
def store() -> Iterator[perdure.AgentStore]:
    ran.clear()
    with perdure.open("memory:") as opened:
        yield opened


async def cancelled(store: perdure.AgentStore, agent: object, *, at: asyncio.Event) -> None:
    running = asyncio.create_task(store.arun(agent, "s"))
    await at.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def void(store: perdure.AgentStore) -> list[str]:
    starts = [entry for entry in store.log("s") if entry.kind == "action_started" and not entry["of"]]
    names = {entry.seq: entry["name"] for entry in starts}
    return [
        names[seq].rpartition(".")[2] for entry in store.log("s") if entry.kind == "status" for seq in entry["around"]
    ]


def test_what_was_cut_short_runs_again(store: perdure.AgentStore) -> None:
    there = asyncio.Event()

    async def within() -> str:
        ran["within"] += 1
        there.set()
        if ran["within"] == 1:
            await asyncio.Event().wait()
        return "within"

    async def agent(s: perdure.AsyncSession) -> list[str]:
        async def around() -> str:
            return await s.action(within, effect="repeatable")()

        async def beside() -> str:
            ran["beside"] += 1
            return "beside"

        async with s.parallel() as p:
            promises = [p.action(work, effect="repeatable")() for work in (beside, around)]
        return [await promise for promise in promises]

    asyncio.run(cancelled(store, agent, at=there))
    assert sorted(void(store)) == ["around", "within"]
    assert store.run(agent, "s").result == ["beside", "within"]
    assert ran == {"within": 2, "beside": 1}


def test_what_code_has_cut_short_itself_stays_so(store: perdure.AgentStore) -> None:
    there = asyncio.Event()

    async def slow() -> None:
        ran["slow"] += 1
        await asyncio.Event().wait()

    async def last() -> str:
        ran["last"] += 1
        there.set()
        if ran["last"] == 1:
            await asyncio.Event().wait()
        return "last"

    async def agent(s: perdure.AsyncSession) -> str:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(s.action(slow, effect="repeatable")(), 0.01)
        return await s.action(last, effect="repeatable")()

    asyncio.run(cancelled(store, agent, at=there))
    assert void(store) == ["last"]
    assert store.run(agent, "s").result == "last"
    assert ran == {"slow": 1, "last": 2}
