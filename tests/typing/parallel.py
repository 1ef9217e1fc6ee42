"""What a type checker must see of calls in parallel and of event loops. Checked by mypy, never run."""

from __future__ import annotations

from typing import Any, assert_type

import perdure


def plain(n: int) -> str:
    return str(n)


async def awaited(n: int) -> str:
    return str(n)


@perdure.action(effect="repeatable")
async def declared(n: int) -> str:
    return str(n)


@perdure.agent
def threads(s: perdure.Session) -> str:
    with s.parallel() as p:
        promise = p.call(plain, 1)
        other = p.action(plain, effect="once")(n=2)
    p.call(plain, "1")  # type: ignore[arg-type]
    assert_type(promise.done(), bool)
    assert_type(other.result(), str)
    return promise.result()


@perdure.agent
async def tasks(s: perdure.AsyncSession) -> str:
    assert_type(await s.call(plain, 1), str)
    assert_type(await s.call(awaited, 1), str)
    assert_type(await s.call(declared, 1), str)
    assert_type(await declared(1), str)
    assert_type(await s.action(awaited, effect="once")(1), str)
    assert_type(await s.save(), int | None)
    await s.load("a", "b")
    async with s.parallel(at_once=3) as p:
        promise = p.call(awaited, 1)
        other = p.call(plain, 1)
    assert_type(await other, str)
    return await promise


async def main(store: perdure.AgentStore) -> None:
    assert_type(await store.arun(tasks, "s", input="x"), perdure.Outcome)
    assert_type(await store.aio.run(tasks, "s"), perdure.Outcome)
    assert_type(await store.aio.state_at("s"), dict[str, Any])
    async with store.aio.session("h", parts=["a"]) as s:
        assert_type(s, perdure.AsyncSession)
    session = await store.aio.session("h")
    await session.close()
