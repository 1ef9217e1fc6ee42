"""Waiting in an event loop for a task or a thread: what ends it, and that nothing happens to what is waited for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading

import pytest

from perdure.session.waiting import ended, written

told: contextvars.ContextVar[str] = contextvars.ContextVar("told", default="")


def test_who_waits_goes_on_in_the_turn_in_which_it_is_told() -> None:
    async def main() -> list[str]:
        loop, order = asyncio.get_running_loop(), list[str]()
        work = loop.create_future()

        async def waits() -> None:
            told.set("mine")
            await ended(work)
            order.append(told.get())

        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        work.set_result(None)  # whose callbacks the loop calls in its next turn
        loop.call_soon(order.append, "the same turn")
        loop.call_soon(loop.call_soon, order.append, "the turn after it")
        await task
        await asyncio.sleep(0)
        return order

    assert asyncio.run(main()) == ["mine", "the same turn", "the turn after it"]
    assert told.get() == ""


def test_what_has_failed_already_is_not_waited_for() -> None:
    async def main() -> None:
        work = asyncio.get_running_loop().create_future()
        work.set_exception(ValueError("no"))
        await ended(work)
        assert isinstance(work.exception(), ValueError)

    asyncio.run(main())


def test_what_is_cancelled_has_ended() -> None:
    async def main() -> None:
        work = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(work.cancel)
        await ended(work)
        assert work.cancelled()

    asyncio.run(main())


def test_who_is_cancelled_waits_no_longer_and_the_work_goes_on() -> None:
    async def main() -> None:
        go_on = asyncio.Event()
        work = asyncio.create_task(go_on.wait())
        waiting = asyncio.create_task(ended(work))
        await asyncio.sleep(0)
        assert waiting.cancel("enough")
        assert waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not work.done()
        go_on.set()
        await ended(work)
        assert work.result() is True

    asyncio.run(main())


def test_one_that_is_told_and_cancelled_in_one_turn_has_waited_to_the_end() -> None:
    async def main() -> None:
        work = asyncio.get_running_loop().create_future()
        first = asyncio.create_task(ended(work))
        await asyncio.sleep(0)
        work.set_result(None)
        asyncio.get_running_loop().call_soon(first.cancel)
        await first

    asyncio.run(main())


def test_what_a_thread_writes_is_waited_for() -> None:
    async def main() -> None:
        commit: concurrent.futures.Future[int] = concurrent.futures.Future()
        begun = threading.Event()

        def write() -> None:
            begun.wait()
            commit.set_result(1)

        thread = threading.Thread(target=write)
        thread.start()
        waits = asyncio.create_task(written(commit))
        cancelled = asyncio.create_task(written(commit))
        await asyncio.sleep(0)
        cancelled.cancel()
        begun.set()
        await waits
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await written(commit)
        thread.join()

    asyncio.run(main())
