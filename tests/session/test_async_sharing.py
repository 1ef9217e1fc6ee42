"""Handles without a lease in an event loop: of two writers one is told, nothing is lost, a holder is respected."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

import perdure
from perdure.errors import ConflictError, HeldError, SessionCancelledError
from perdure.session.keeping.keyframer import Keyframer


@pytest.fixture(params=["sqlite:///{}/agents.db", "file://{}/agents", "memory:"], ids=["sqlite", "file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path) -> Iterator[perdure.AgentStore]:
    with perdure.open(request.param.format(tmp_path)) as opened:
        yield opened


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def add(store: perdure.AgentStore, name: str) -> int:
    """One request behind a load balancer. How often it had to begin again."""
    for tries in range(1000):
        try:
            async with store.aio.session("a", optimistic=True) as s:
                s.state.setdefault("names", []).append(name)
        except (ConflictError, HeldError):
            continue
        return tries
    raise AssertionError("it never got its turn")


@in_a_loop
async def test_it_is_made_saved_and_loaded(store: perdure.AgentStore) -> None:
    for n in range(3):
        async with store.aio.session("a", optimistic=True, labels={"team": "x"}) as s:
            assert s.state.get("n") == (n or None)
            s.state["n"] = n + 1
    info = store.info("a")
    assert (info.status, info.owner, store.backend.lease("a").epoch) == ("idle", "", 1)
    assert store.verify("a", read_data=True).ok


@in_a_loop
async def test_a_clean_close_without_a_change_writes_nothing(store: perdure.AgentStore) -> None:
    await add(store, "x")
    before = store.backend.head("a").seq
    async with store.aio.session("a", optimistic=True) as s:
        assert s.state["names"] == ["x"]
    assert store.backend.head("a").seq == before


@in_a_loop
async def test_of_two_writers_one_is_told_and_stays_told(store: perdure.AgentStore) -> None:
    first = await store.aio.session("a", optimistic=True)
    second = await store.aio.session("a", optimistic=True)
    second.state["from"] = "second"
    await second.save()
    first.state["from"] = "first"
    uses: list[Any] = [first.save, first.save, lambda: first.call(length, "x"), first.end]
    for use in uses:
        with pytest.raises(ConflictError):
            await use()
    await first.close()
    second.state["n"] = 1
    await second.save()
    await second.close()
    assert store.state_at("a") == {"from": "second", "n": 1}


async def length(text: str) -> int:
    return len(text)


@in_a_loop
async def test_a_holder_is_respected(store: perdure.AgentStore) -> None:
    await add(store, "x")
    before = await store.aio.session("a", optimistic=True)
    async with store.aio.session("a") as holder:
        holder.state["n"] = 1
        with pytest.raises(HeldError):
            await store.aio.session("a", optimistic=True)
        before.state["late"] = True
        with pytest.raises((HeldError, ConflictError)):
            await before.save()
    await before.close()
    await add(store, "y")
    assert store.state_at("a") == {"names": ["x", "y"], "n": 1}


@in_a_loop
async def test_tasks_lose_nothing(store: perdure.AgentStore) -> None:
    names = [f"{n}" for n in range(12)]
    await asyncio.gather(*(add(store, name) for name in names))
    assert sorted(store.state_at("a")["names"]) == sorted(names)
    assert store.verify("a", read_data=True).ok


@in_a_loop
async def test_one_that_is_cancelled_while_it_saves_has_written_all_or_nothing(store: perdure.AgentStore) -> None:
    await add(store, "x")
    s = await store.aio.session("a", optimistic=True)
    s.state["names"].append("y")
    task = asyncio.create_task(s.save())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await s.close()
    assert store.state_at("a")["names"] in (["x"], ["x", "y"])
    await add(store, "z")
    assert store.state_at("a")["names"][-1] == "z"
    assert store.verify("a", read_data=True).ok


@in_a_loop
async def test_keyframes_are_made_without_a_lease(store: perdure.AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Keyframer.__init__.__kwdefaults__, "every", 4)
    for n in range(12):
        await add(store, str(n))
    assert store.backend.keyframes("a")
    assert store.verify("a", read_data=True).ok


@in_a_loop
async def test_a_cancelled_one_is_not_opened(store: perdure.AgentStore) -> None:
    await add(store, "x")
    await store.aio.cancel("a")
    with pytest.raises(SessionCancelledError):
        await store.aio.session("a", optimistic=True)
