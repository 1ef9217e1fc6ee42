"""The same programs in an event loop: their code runs in a thread beside it, every call of theirs in the loop.

So one interpreter of operations serves both sessions. Half of the tools are awaited, the others run in threads.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import perdure
from perdure.errors import SuspendedError
from perdure.recovery import SavePolicy
from perdure.runtime.store import AgentStore
from perdure.session.rules.call import DECLARED
from perdure.session.waiting import in_thread
from tests.property.programs import Op, Together, errand, perform
from tests.property.worlds import TOOLS


def _awaited(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A tool as a coroutine function, under the same name and declaration."""
    plain = fn.__wrapped__  # type: ignore[attr-defined]

    @functools.wraps(plain)
    async def tool(arg: Any, idempotency_key: perdure.IdempotencyKey | None = None) -> Any:
        await asyncio.sleep(0)
        return plain(arg, idempotency_key)

    setattr(tool, DECLARED, getattr(fn, DECLARED))
    return tool


AWAITED = {
    name: _awaited(fn) if number % 2 and not name.startswith("read") else fn
    for number, (name, fn) in enumerate(TOOLS.items())
}
BY_TOOL = {id(fn): AWAITED[name] for name, fn in TOOLS.items()}


class InLoop:
    """An `AsyncSession` with the face of a `Session`, for code in a thread beside the loop."""

    def __init__(self, s: perdure.AsyncSession) -> None:
        self._s, self._loop = s, asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._s, name)

    def _wait(self, work: Awaitable[Any]) -> Any:
        async def waiting() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(waiting(), self._loop).result()

    def call(self, fn: Any, *args: Any) -> Any:
        return self._wait(self._s.call(BY_TOOL.get(id(fn), fn), *args))

    def action(self, fn: Any, **options: Any) -> Any:
        act = self._s.action(BY_TOOL.get(id(fn), fn), **options)
        return lambda *args: self._wait(act(*args))

    def stream(self, fn: Any, *args: Any) -> InLoopStream:
        return InLoopStream(self, self._s.stream(fn, *args))

    def save(self) -> Any:
        return self._wait(self._s.save())

    def checkpoint(self, name: str) -> Any:
        return self._wait(self._s.checkpoint(name))

    def ask(self, prompt: str, *, key: str | None = None) -> Any:
        return self._wait(self._s.ask(prompt, key=key))

    def rollback(self, to: str | int, *, strategy: Any) -> Any:
        return self._wait(self._s.rollback(to, strategy=strategy))

    def together(self, op: Together) -> Any:
        """The calls of a block, made by a task of the loop."""
        return self._wait(_together(self._s, op))


class InLoopStream:
    """A stream of an event loop, read by code in a thread beside it."""

    def __init__(self, face: InLoop, reply: Any) -> None:
        self._face, self._reply = face, reply

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                chunk = self._face._wait(anext(self._reply))
            except StopAsyncIteration:
                return
            yield chunk

    def result(self) -> Any:
        return self._face._wait(self._reply.result())

    def close(self) -> None:
        self._face._wait(self._reply.close())


async def _together(s: perdure.AsyncSession, op: Together) -> list[Any]:
    async with s.parallel() as p:
        if op.how == "errands":
            act = p.action(errand, effect="repeatable")
            made: list[Any] = [act([tool, "look"], op.arg) for tool in op.tools]
        elif op.how == "key":
            made = [p.action(AWAITED[tool], key=f"{tool} {op.arg}")(op.arg) for tool in op.tools]
        else:
            made = [p.call(AWAITED[tool], op.arg) for tool in op.tools]
        if op.save_after is not None and (s._core.form == "script" or not op.save_after):
            ended = [await promise for promise in made[: op.save_after]]
            s.state["ended"] = len(ended)
            await s.save()
    return [await promise for promise in made]


def agent(form: str, ops: tuple[Op, ...]) -> Any:
    """The program as an agent of an event loop."""

    async def agent(s: perdure.AsyncSession) -> Any:
        return await in_thread(perform, form, ops, InLoop(s))  # type: ignore[arg-type]

    return agent


def handle(store: AgentStore, session: str, ops: tuple[Op, ...], *, saves: SavePolicy | None = None) -> tuple[str, Any]:
    """The program on a handle of an event loop: its status, and its error."""

    async def use() -> None:
        async with store.aio.session(session, saves=saves) as s:
            await in_thread(perform, "handle", ops, InLoop(s))  # type: ignore[arg-type]

    try:
        asyncio.run(use())
    except SuspendedError:
        return "waiting", None
    except Exception as error:  # noqa: BLE001 - the agent's own error, compared like a result
        return "failed", error
    return "idle", None
