"""Replays of async agents tell of the same differences, whatever their tasks do; nothing is run or written."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import limits
from perdure.errors import EntryError
from perdure.runtime.replay import Difference, Replay
from perdure.runtime.store import AgentStore

RUN: list[Any] = []
"""What was done for real."""


@perdure.action(effect="repeatable")
async def look(number: int) -> str:
    RUN.append(number)
    await asyncio.sleep(0)
    return f"item {number}"


@perdure.action(effect="once")
async def pay(amount: int) -> int:
    RUN.append(amount)
    return amount


@perdure.action(effect="repeatable")
def weigh(text: str) -> int:
    RUN.append(text)
    return len(text)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AgentStore]:
    with perdure.open(str(tmp_path / "agents.db")) as found:
        yield found


def record(store: AgentStore, fn: Callable[[Any], Any], *, status: str = "completed") -> None:
    assert store.run(fn, "s", input=3).status == status


def replayed(store: AgentStore, fn: Callable[[Any], Any]) -> Replay:
    """The replay, which does and writes nothing."""
    RUN.clear()
    before = store.backend.head("s"), store.backend.lease("s"), store.backend.points("s")
    found = store.replay("s", fn)
    assert (RUN, before) == ([], (store.backend.head("s"), store.backend.lease("s"), store.backend.points("s")))
    return found


def told(found: Replay) -> tuple[str, str, str, str] | None:
    d = found.difference
    return None if d is None else (d.kind, d.path, d.recorded, d.now)


class Changes:
    """What the code under test does otherwise."""

    on = ""


async def script(s: perdure.AsyncSession) -> dict[str, Any]:
    s.state["notes"], s.state["begun"] = [], s.now()
    async with s.parallel() as p:
        promises = [p.call(look, n + 10 if Changes.on == "a block" and n == 1 else n) for n in range(s.input)]
    s.state["notes"] += [await promise for promise in promises]
    if Changes.on == "state":
        s.state["notes"][1] = "odd"
    if Changes.on == "chance":
        s.state["notes"][0] += str(random.random())
    await s.save()
    tasks = [look(7), s.call(weigh, "abcd" if Changes.on == "gather" else "abc")]
    s.state["sizes"] = await asyncio.gather(*tasks)
    await pay(5)
    await s.checkpoint("due" if Changes.on == "name" else "paid")
    if Changes.on == "a call more":
        await pay(6)
    if Changes.on == "an error":
        raise RuntimeError("boom")
    if Changes.on == "a rollback":
        await s.rollback("paid")
    return {"plan": [1, 4 if Changes.on == "result" else 3]}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("", None),
        ("a block", ("call", "number", "look(number=1)", "look(number=11)")),
        ("state", ("state", "$.notes[1]", "'item 1'", "'odd'")),
        ("gather", ("call", "text", "weigh(text='abc')", "weigh(text='abcd')")),
        ("name", ("save", "", "the checkpoint 'paid'", "a save that is not recorded")),
        ("a call more", ("end", "", "the end", "pay(amount=6)")),
        ("an error", ("error", "", "the end", "RuntimeError: boom")),
        ("a rollback", ("end", "", "the end", "a rollback to 'paid'")),
        ("result", ("result", "$.plan[1]", "3", "4")),
    ],
)
def test_the_first_difference_of_a_script(
    change: str, expected: Any, store: AgentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SIBLINGS_WAIT_S", 0.1)
    record(store, script)
    monkeypatch.setattr(Changes, "on", change)
    found = replayed(store, script)
    assert told(found) == expected
    assert found.upto <= found.records == store.backend.head("s").seq


def test_what_varies_by_nature_is_found_at_its_first_save(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Changes, "on", "chance")
    record(store, script)
    found = replayed(store, script).difference
    assert found is not None
    assert (found.kind, found.path, found.seq) == ("state", "$.notes[0]", store.snapshots("s")[0].seq)


@perdure.steps
async def steps(s: perdure.AsyncSession) -> None:
    if not s.state:
        s.state.update(todo=[1, 2, 3], done=[])
    elif not s.state["todo"]:
        s.complete(s.state["done"])
    else:
        number = s.state["todo"].pop(0)
        s.state["done"].append(await pay(number) * (2 if Changes.on == "state" and number == 2 else 1))


def test_each_step_starts_from_what_is_recorded(store: AgentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    record(store, steps)
    assert (replayed(store, steps).saves, replayed(store, steps).calls) == (5, 3)
    monkeypatch.setattr(Changes, "on", "state")
    assert replayed(store, steps).difference == Difference("state", store.snapshots("s")[2].seq, "$.done[1]", "2", "4")


# --- sessions that are not completed ---------------------------------------------------------------------------------


def test_a_waiting_block_is_replayed_to_its_questions(store: AgentStore) -> None:
    async def asks(s: perdure.AsyncSession) -> Any:
        await pay(1)
        await s.checkpoint("paid")
        return await s.ask("Go on?", key="go")

    record(store, asks, status="waiting")
    found = replayed(store, asks)
    assert (told(found), found.upto, found.saves) == (None, 6, 1)
    assert "#6" in found.next


def test_an_error_in_a_group_ends_the_recording_there(store: AgentStore) -> None:
    async def fails(s: perdure.AsyncSession) -> None:
        await pay(1)
        await s.save()
        async with asyncio.TaskGroup() as group:
            group.create_task(look(1))
            group.create_task(s.call(weigh, Changes.on or 3))  # type: ignore[arg-type]

    record(store, fails, status="failed")
    found = replayed(store, fails)
    assert (told(found), found.status, found.saves, found.next) == (None, "failed", 1, "weigh(text=3)")


def test_a_task_that_was_cancelled_by_the_code_is_no_end_of_the_replay(store: AgentStore) -> None:
    async def cancels(s: perdure.AsyncSession) -> None:
        await pay(1)
        task = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        store.run(cancels, "s")
    found = replayed(store, cancels)
    assert (told(found), found.status, found.next) == (None, "failed", "an error: CancelledError: ")


def test_a_rollback_and_its_strategy_are_replayed_on_the_present_branch(store: AgentStore) -> None:
    async def rolls(s: perdure.AsyncSession) -> str:
        await s.checkpoint("start")
        s.state["first"] = await look(1)
        if s.strategy is None:
            await s.rollback("start", strategy="other")
        s.state["second"] = await look(2)
        return str(s.strategy)

    record(store, rolls)
    found = replayed(store, rolls)
    assert (told(found), found.upto) == (None, found.records)


# --- where it runs ---------------------------------------------------------------------------------------------------


def test_in_an_event_loop_it_is_awaited(store: AgentStore) -> None:
    async def main() -> None:
        assert (await store.arun(script, "s", input=3)).status == "completed"
        assert (await store.aio.replay("s", script)).same
        with pytest.raises(EntryError, match=r"await store\.aio\.replay"):
            store.replay("s", script)

    asyncio.run(main())


def test_an_interrupt_ends_a_replay(store: AgentStore) -> None:
    record(store, script)

    async def waits(_: perdure.AsyncSession) -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        store.replay("s", waits)
