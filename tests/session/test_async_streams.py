"""Streams in an event loop: what is read, left, cancelled and recorded, one beside the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import perdure
from perdure import limits
from perdure.errors import DivergedError, RefusedError
from perdure.runtime.store import AgentStore

RUN: list[Any] = []
"""What was done for real."""


@perdure.action(effect="repeatable", combine="".join)
async def speak(text: str) -> AsyncIterator[str]:
    RUN.append(f"speak {text}")
    try:
        for letter in text:
            await asyncio.sleep(0)
            RUN.append(letter)
            yield letter
    finally:
        RUN.append(f"closed {text}")


@perdure.action(effect="once")
def pour(cups: int) -> Iterator[Any]:
    RUN.append("pour")
    for _ in range(cups):
        yield threading.get_ident()


@perdure.action(effect="repeatable")
async def note(text: str) -> str:
    RUN.append(f"note {text}")
    return text


@pytest.fixture
def store() -> Iterator[AgentStore]:
    RUN.clear()
    with perdure.open("memory:") as found:
        yield found


def cuts(store: AgentStore) -> list[bool]:
    """Of each stream that is recorded, whether it was left."""
    ends = [e.body["stream"] for e in store.log("s") if e.kind == "action_finished" and "stream" in e.body]
    return [end["cut_us"] is not None for end in ends]


def run(store: AgentStore, fn: Any) -> Any:
    """The result; replayed, all is the same and nothing runs."""
    outcome = store.run(fn, "s")
    assert outcome.status == "completed", outcome
    live = list(RUN)
    assert store.replay("s", fn).same
    assert live == RUN
    return outcome.result


# --- chunks ----------------------------------------------------------------------------------------------------------


def test_chunks_pass_through_as_they_come(store: AgentStore) -> None:
    async def agent(s: perdure.AsyncSession) -> str:
        reply = s.stream(speak, "abc")
        seen.extend([(letter, list(RUN[1:])) async for letter in reply])
        return await reply.result()  # type: ignore[no-any-return]

    seen: list[Any] = []
    assert store.run(agent, "s").result == "abc"
    assert seen == [("a", ["a"]), ("b", ["a", "b"]), ("c", ["a", "b", "c"])]


def test_whatever_gives_chunks_is_read(store: AgentStore) -> None:
    async def create(n: int) -> AsyncIterator[int]:
        async def chunks() -> AsyncIterator[int]:
            for i in range(n):
                yield i

        return chunks()

    def hands_out(n: int) -> AsyncIterator[str]:
        return speak.__wrapped__("xy" * n)  # type: ignore[attr-defined, no-any-return]

    async def agent(s: perdure.AsyncSession) -> Any:
        threads = {thread async for thread in s.stream(pour, 3)}
        declared = [letter async for letter in speak("ab")]
        return [
            await s.stream(create, 2).result(),
            await s.stream(hands_out, 1).result(),
            declared,
            len(threads - {threading.get_ident()}),
        ]

    assert run(store, agent) == [[0, 1], ["x", "y"], ["a", "b"], 1]


def test_a_generator_sees_one_task(store: AgentStore) -> None:
    async def stays() -> AsyncIterator[str]:
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for text in "ab":
                yield await group.create_task(note(text))

    async def agent(s: perdure.AsyncSession) -> Any:
        reply = s.stream(perdure.action(effect="repeatable")(stays))
        first = await asyncio.wait_for(anext(reply), 30)
        return [first, await anext(reply), await reply.result()]

    assert run(store, agent) == ["a", "b", ["a", "b"]]


# --- other things in the middle --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["call", "gather", "block", "wait_for"])
def test_before_anything_else_the_rest_is_read_and_recorded(store: AgentStore, how: str) -> None:
    async def agent(s: perdure.AsyncSession) -> Any:
        seen = []
        reply = s.stream(speak, "abc")
        if how == "wait_for":
            seen.append(await asyncio.wait_for(anext(reply), 30))
            await note("x")
        async for letter in reply:
            seen.append(letter)
            if letter != "a":
                continue
            if how == "call":
                await note("x")
            elif how == "gather":
                await asyncio.gather(note("x"), note("y"))
            elif how == "block":
                async with s.parallel() as p:
                    p.call(note, "x")
        return seen

    assert run(store, agent) == ["a", "b", "c"]
    assert RUN[:5] == ["speak abc", "a", "b", "c", "closed abc"]


def test_streams_of_other_tasks_go_on(store: AgentStore) -> None:
    async def agent(s: perdure.AsyncSession) -> Any:
        halfway, noted = asyncio.Event(), asyncio.Event()

        async def reads() -> list[str]:
            seen = []
            async for letter in s.stream(speak, "abc"):
                seen.append(letter)
                halfway.set()
                await noted.wait()
            return seen

        reading = asyncio.create_task(reads())
        await halfway.wait()
        await note("x")
        with pytest.raises(RefusedError, match="in flight"):
            await s.save()
        noted.set()
        return await reading

    assert store.run(agent, "s").result == ["a", "b", "c"]
    assert RUN == ["speak abc", "a", "note x", "b", "c", "closed abc"]


# --- left and cancelled ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["break", "close", "with", "return"])
def test_what_was_read_is_the_outcome_of_one_that_was_left(store: AgentStore, how: str) -> None:
    async def agent(s: perdure.AsyncSession) -> Any:
        reply = s.stream(speak, "abc")
        if how == "with":
            async with reply:
                await anext(reply)
        elif how == "close":
            await anext(reply)
            await reply.close()
        else:
            async for _ in reply:
                if how == "return":
                    return "a"
                break
            await s.save()
        return await reply.result()

    assert run(store, agent) == "a"
    assert (cuts(store), RUN) == ([True], ["speak abc", "a", "closed abc"])


def slow(effect: str) -> Any:
    @perdure.action(effect=effect)
    async def waits() -> AsyncIterator[int]:
        RUN.append("waits")
        yield 1
        await asyncio.sleep(60)
        yield 2

    return waits


@pytest.mark.parametrize("again", [True, False])
def test_cancelled_while_it_waits_it_was_left_there(
    store: AgentStore, *, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SIBLINGS_WAIT_S", 0.3)
    waits, tries = slow("repeatable"), [0]

    async def agent(s: perdure.AsyncSession) -> Any:
        tries[0] += 1
        seen: list[int] = []
        try:
            async with asyncio.timeout(0.1 if again or tries[0] == 1 else None):
                async for i in s.stream(waits):
                    seen.append(i)  # noqa: PERF401 - those before the cancellation count
        except TimeoutError:
            await note("late")
        if tries[0] == 1:
            raise ValueError
        return seen

    assert store.run(agent, "s").status == "failed"
    assert cuts(store) == [True]
    outcome = store.run(agent, "s")
    if again:
        assert outcome.result == [1]
    else:
        assert isinstance(outcome.error, DivergedError)
    assert RUN == ["waits", "note late"]


def test_cancelled_one_that_must_not_run_twice_asks(store: AgentStore) -> None:
    waits = slow("once")

    async def agent(s: perdure.AsyncSession) -> Any:
        seen: list[int] = []
        try:
            async with asyncio.timeout(0.1):
                async for i in s.stream(waits):
                    seen.append(i)  # noqa: PERF401 - those before the cancellation count
        except TimeoutError:
            seen.append(0)
        return seen

    outcome = store.run(agent, "s")
    assert (outcome.status, outcome.questions[0].kind) == ("waiting", "doubt")
    store.settle("s", outcome.questions[0].seq, "done", result=[1, 2])
    assert run(store, agent) == [1, 2]
    assert RUN == ["waits"]


def test_time_over(store: AgentStore) -> None:
    async def agent(s: perdure.AsyncSession) -> Any:
        seen: list[Any] = []
        timed = perdure.action(effect="repeatable", timeout_s=0.1)(slow("repeatable").__wrapped__)
        try:
            async for i in s.stream(timed):
                seen.append(i)  # noqa: PERF401 - those before the end of its time count
        except TimeoutError:
            seen.append("over")
        return seen

    assert run(store, agent) == [1, "over"]


def test_a_run_that_fails_in_the_middle_reads_again(store: AgentStore) -> None:
    tries = [0]

    async def agent(s: perdure.AsyncSession) -> Any:
        tries[0] += 1
        async for letter in s.stream(speak, "abc"):
            if tries[0] == 1:
                raise ValueError(letter)
        return "done"

    assert store.run(agent, "s").status == "failed"
    assert RUN == ["speak abc", "a", "closed abc"]
    assert store.run(agent, "s").result == "done"
    assert cuts(store) == [False]


def test_errors_come_behind_their_chunks_and_before_the_first_it_is_tried_again(store: AgentStore) -> None:
    @perdure.action(effect="repeatable", retries=2, backoff_s=0)
    async def stumbles(after: int) -> AsyncIterator[int]:
        RUN.append("try")
        for i in range(after):
            yield i
        if RUN.count("try") < 3:
            raise OSError("line broke")
        yield 9

    async def agent(s: perdure.AsyncSession) -> Any:
        first = await s.stream(stumbles, 0).result()
        RUN.clear()
        seen: list[Any] = []
        try:
            async for i in stumbles(2):
                seen.append(i)  # noqa: PERF401 - those before the error count
        except OSError as error:
            seen.append(str(error))
        return [first, seen]

    assert store.run(agent, "s").result == [[9], [0, 1, "line broke"]]
    assert store.replay("s", agent).same


def test_an_action_leaves_the_streams_of_its_code(store: AgentStore) -> None:
    async def agent(s: perdure.AsyncSession) -> Any:
        async def first(text: str) -> str:
            return await anext(s.stream(speak, text))

        async with s.parallel() as p:
            promises = [p.call(first, "abc"), p.call(first, "xyz")]
        return [await promise for promise in promises]

    assert run(store, agent) == ["a", "x"]
    assert cuts(store) == [True, True]


def test_what_is_refused(store: AgentStore) -> None:
    async def agent(s: perdure.AsyncSession) -> str:
        with pytest.raises(RefusedError, match=r"s\.stream\(speak"):
            await s.call(speak, "a")
        with pytest.raises(RefusedError, match=r"s\.stream\(pour"):
            pour(1)
        return "ok"

    assert run(store, agent) == "ok"
