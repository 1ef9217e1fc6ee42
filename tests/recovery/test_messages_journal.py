"""What the journal knows of an open call is its result; a replay completes a history the same way."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.errors import DivergedError, RefusedError
from perdure.recovery import acompleted, completed, problems
from perdure.recovery.messages import INTERRUPTED, NOT_DONE
from perdure.testing import crash_everywhere
from perdure.testing.lives import forked
from tests.instants import POINTS
from tests.recovery import strict


@perdure.action(effect="repeatable")
def search(x: str) -> dict[str, str]:
    return {"found": x}


@perdure.action(effect="repeatable")
def fails(x: str) -> str:
    raise ValueError(f"no {x}")


@perdure.action()
def send(x: str) -> str:
    raise KeyboardInterrupt


def said(*calls: tuple[str, str, str]) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": i, "type": "function", "function": {"name": name, "arguments": json.dumps({"x": x})}}
            for i, name, x in calls
        ],
    }


def contents(messages: list[Any]) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "tool"]


@pytest.fixture
def store(tmp_path: Path) -> perdure.AgentStore:
    return perdure.open(tmp_path / "agents.db")


def cut_off(s: perdure.Session, *calls: tuple[str, str, str], made: list[tuple[Any, str]]) -> None:
    """A reply with these calls is saved, some of them are made, and the process stops."""
    with s:
        s.state["messages"] = [{"role": "user", "content": "u"}, said(*calls)]
        s.save()
        for tool, x in made:
            with contextlib.suppress(ValueError):
                s.call(tool, x=x)
        raise KeyboardInterrupt


def test_a_handle_that_was_cut_off_gets_the_results_from_the_journal(store: perdure.AgentStore) -> None:
    calls = [("c1", "search", "a"), ("c2", "fails", "b"), ("c3", "search", "a"), ("c4", "search", "never made")]
    with pytest.raises(KeyboardInterrupt):
        cut_off(store.session("chat"), *calls, made=[(search, "a"), (fails, "b")])
    with store.session("chat") as s:
        messages = s.state["messages"]
        messages[:] = completed(messages, session=s)
        strict.openai(messages)
        assert contents(messages) == ['{"found":"a"}', "ValueError: no b", INTERRUPTED, INTERRUPTED]
        assert s.pending == []
        assert s.call(search, x="something new") == {"found": "something new"}


def test_a_key_that_is_the_calls_id_is_found_however_long_ago_and_whatever_the_name(store: perdure.AgentStore) -> None:
    with store.session("chat") as s:
        s.state["messages"] = [{"role": "user", "content": "u"}, said(("c1", "look_up", "a"), ("c2", "look_up", "a"))]
        assert s.action(search, key="c2")(x="a") == {"found": "a"}
        s.save()
    with store.session("chat") as s:
        made = completed(s.state["messages"], session=s, say=str)
        assert contents(made) == [INTERRUPTED, "{'found': 'a'}"]


def test_what_may_not_be_made_twice_still_meets_its_record(store: perdure.AgentStore) -> None:
    with pytest.raises(KeyboardInterrupt):
        cut_off(store.session("chat"), ("c1", "send", "a"), made=[(send, "a")])
    s = store.session("chat")
    assert contents(completed(s.state["messages"], session=s)) == [INTERRUPTED]
    (pending,) = s.pending
    with pytest.raises(DivergedError):
        s.call(search, x="b")  # before it is decided whether something was sent
    s.close()
    store.settle("chat", pending.seq, "not-done", by="ada", why="the outbox is empty")
    with store.session("chat") as s:
        assert contents(completed(s.state["messages"], session=s)) == [NOT_DONE]


def test_several_alike_are_told_only_if_it_is_certain_which_is_meant(store: perdure.AgentStore) -> None:
    def agent(s: perdure.Session) -> list[str]:
        for _ in range(2):
            s.call(search, x="a")
        return contents(completed([said(("c3", "search", "a"))], session=s))  # which of them? what came before is cut

    assert store.run(agent, "one").result == [INTERRUPTED]


@perdure.agent
def interrupted_agent(s: perdure.Session) -> list[str]:
    """Stops in the middle of the tools of a reply, and goes on from there with a whole history."""
    calls = [("c1", "search", "a"), ("c2", "search", "b"), ("c3", "search", "c")]
    messages = s.state["messages"] = [{"role": "user", "content": "u"}, said(*calls)]
    s.save()
    with s.parallel() as p:
        for _, _, x in calls[:2]:
            p.call(search, x=x)
    messages[:] = completed(messages, session=s)
    assert problems(messages) == []
    s.save()
    s.call(search, x="later")
    return contents(messages)


@pytest.mark.storm
def test_a_script_killed_anywhere_completes_its_history_the_same_way() -> None:
    crash_everywhere(interrupted_agent, points=POINTS)


@perdure.steps
def chat(s: perdure.Session) -> None:
    """A turn in each step; tools run in parallel, and the history must be whole whenever a step begins."""
    messages = s.state.setdefault("messages", [{"role": "user", "content": "u"}])
    strict.openai(messages)
    turn = len([message for message in messages if message["role"] == "assistant"])
    if turn == 3:
        s.complete(contents(messages))
        return
    calls = [(f"t{turn}-{n}", "search", f"{turn}{n}") for n in range(3)]
    messages.append(said(*calls))
    with s.parallel() as p:
        results = [p.call(search, x=x) for _, _, x in calls]
    messages += [
        {"role": "tool", "tool_call_id": i, "content": json.dumps(result.result())}
        for (i, _, _), result in zip(calls, results, strict=True)
    ]


@pytest.mark.storm
def test_an_agent_with_parallel_tools_killed_anywhere_has_a_whole_history_at_every_resume() -> None:
    crash_everywhere(chat, points=POINTS)


def by_hand(s: perdure.Session) -> list[str]:
    """A loop of its own on a handle: it saves after each reply and each result, so it is met at any place."""
    messages = s.state.setdefault("messages", [{"role": "user", "content": "u"}])
    messages[:] = completed(messages, session=s)
    strict.openai(messages)
    while (turn := len([message for message in messages if message["role"] == "assistant"])) < 3:
        calls = [(f"t{turn}-{n}", "search", f"{turn}{n}") for n in range(3)]
        messages.append(said(*calls))
        s.save()
        for i, _, x in calls:
            messages.append({"role": "tool", "tool_call_id": i, "content": json.dumps(search(x))})
            s.save()
    return [str(len(messages))]


def lived(url: str, instant: int) -> int:
    """How a process ended that was killed at this instant, if it came so far."""

    def work() -> bytes:
        left = [instant]

        def hook(_: str) -> None:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

        with perdure.open(url) as store, store.session("chat") as s:
            faults.hook = hook
            by_hand(s)
        return b"done"

    return forked(work)[1]


@pytest.mark.storm
def test_a_handle_killed_anywhere_has_a_history_that_a_provider_accepts(tmp_path: Path) -> None:
    met: Counter[int] = Counter()
    for instant in itertools.count(1, 1 if os.environ.get("PERDURE_STORM") == "full" else 4):
        url = str(tmp_path / f"{instant}.db")
        if lived(url, instant) == 0:
            break
        assert lived(url, 3) == signal.SIGKILL or instant > 40
        assert lived(url, 0) == 0
        with perdure.open(url) as store:
            messages = store.state_at("chat")["messages"]
        strict.openai(messages)
        met[contents(messages).count(INTERRUPTED)] += 1
    assert set(met) >= {0, 1, 2}  # what the journal knew, and what nobody had called


def test_in_an_event_loop_it_is_the_same(store: perdure.AgentStore) -> None:
    async def agent(s: perdure.AsyncSession) -> list[str]:
        await s.call(search, x="a")
        messages = [said(("c1", "search", "a"), ("c2", "search", "b"))]
        return contents(await acompleted(messages, session=s))

    async def refused(s: perdure.AsyncSession) -> None:
        async with s.parallel():
            await asyncio.create_task(acompleted([said(("c1", "search", "a"))], session=s))

    assert asyncio.run(store.arun(agent, "one")).result == ['{"found":"a"}', INTERRUPTED]
    assert isinstance(asyncio.run(store.arun(refused, "two")).error, RefusedError)


def test_inside_an_action_it_is_refused(store: perdure.AgentStore) -> None:
    def agent(s: perdure.Session) -> None:
        def tool() -> None:
            completed([said(("c1", "search", "a"))], session=s)

        s.call(tool)

    assert isinstance(store.run(agent, "one").error, RefusedError)
