"""The async face asks, receives and is stopped as the other one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import perdure


@pytest.fixture
def store(tmp_path: Path):
    with perdure.open(str(tmp_path / "agents.db")) as opened:
        yield opened


def test_it_is_answered_and_sent_to_while_it_waits(store) -> None:
    async def agent(s):
        answers = await s.ask_all([perdure.Ask("One?", schema=int), perdure.Ask("Two?", key="two")], wait_s=60)
        return [*answers, await s.receive(wait_s=60), await s.receive()]

    async def people():
        while not (store.sessions() and store.questions("a")):  # noqa: ASYNC110 - what it waits for is in the store
            await asyncio.sleep(0)
        one, _ = store.questions("a")
        await store.aio.answer("a", "two", "second")
        await store.aio.answer("a", one.seq, 1)
        await store.aio.send("a", "hello")

    async def both():
        return (await asyncio.gather(store.arun(agent, "a"), people()))[0]

    assert asyncio.run(both()).status == "idle"
    store.send("a", "again")
    assert asyncio.run(store.arun(agent, "a")).result == [1, "second", "hello", "again"]
    assert store.verify("a", read_data=True).ok


@pytest.mark.parametrize(("what", "status"), [("pause", "paused"), ("cancel", "cancelled")])
def test_it_is_stopped(what: str, status: str, store) -> None:
    calls = []

    async def tool(n: int) -> None:
        calls.append(n)
        if n == 0:
            await getattr(store.aio, what)("a", by="me")

    async def agent(s):
        for n in range(2):
            await s.call(tool, n)
        return "done"

    outcome = asyncio.run(store.arun(agent, "a"))
    assert (outcome.status, outcome.reason, calls) == (status, f"{status} by me", [0])
    again = asyncio.run(store.arun(agent, "a"))
    assert (again.status, again.result) == (("completed", "done") if what == "pause" else ("cancelled", None))


def test_it_is_looked_at(store) -> None:
    seen = []

    async def tool() -> None:
        assert await store.aio.save("a", by="me")

    async def agent(s):
        s.state["n"] = 1
        await s.call(tool)
        await s.call(lambda: seen.append(store.state_at("a")))
        return "done"

    assert asyncio.run(store.arun(agent, "a")).result == "done"
    assert seen == [{"n": 1}]


@pytest.mark.parametrize("what", ["call", "save"])
def test_a_stop_takes_effect_at_the_next_thing_that_it_does(what: str, store) -> None:
    reasons = ["SIGTERM"]

    async def agent(s):
        s.state["n"] = await s.call(str, 1)
        if reasons:
            s.stop(reasons.pop())
        return await (s.call(str, 2) if what == "call" else s.save())

    outcome = asyncio.run(store.arun(agent, "a"))
    assert (outcome.status, outcome.reason) == ("paused", "SIGTERM")
    assert asyncio.run(store.arun(agent, "a")).status == "completed"
