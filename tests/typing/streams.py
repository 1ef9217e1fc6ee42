"""What a type checker must see of streams. Checked by mypy, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

import perdure


def plain(n: int) -> Iterator[str]:
    yield str(n)


@perdure.action(effect="repeatable", combine="".join)
async def declared(n: int) -> AsyncIterator[str]:
    yield str(n)


async def created(n: int) -> AsyncIterator[int]:
    async def chunks() -> AsyncIterator[int]:
        yield n

    return chunks()


@perdure.agent
def threads(s: perdure.Session) -> None:
    for chunk in s.stream(plain, 1):
        assert_type(chunk, str)
    with s.stream(plain, n=1) as reply:
        assert_type(next(reply), str)
    s.stream(plain, "1")  # type: ignore[arg-type]


@perdure.agent
async def tasks(s: perdure.AsyncSession) -> None:
    async for chunk in s.stream(declared, 1):
        assert_type(chunk, str)
    async for number in s.stream(created, 1):
        assert_type(number, int)
    async for text in s.stream(plain, 1):
        assert_type(text, str)
    assert_type(await anext(s.stream(declared, 1)), str)
