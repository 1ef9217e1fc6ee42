"""Code that looks whether somebody said something, and does other things meanwhile."""

from __future__ import annotations

from typing import Any

import perdure
from perdure.testing import crash_everywhere


@perdure.action(effect="repeatable")
def work(n: int) -> int:
    return n


@perdure.steps
def polite(s: perdure.Session) -> None:
    heard = s.state.setdefault("heard", [])
    turn = s.state["turn"] = s.state.get("turn", 0) + 1
    if s.has_message():
        heard.append([turn, s.receive()])
    work(turn)
    if turn == 4:
        s.complete(heard)


@perdure.steps
async def politely(s: perdure.AsyncSession) -> None:
    heard = s.state.setdefault("heard", [])
    if await s.has_message():
        heard.append(await s.receive())
    if await s.call(work, len(heard)) == 2:
        s.complete(heard)


@perdure.steps
def waiter(s: perdure.Session) -> None:
    s.receive()


@perdure.agent
def script(s: perdure.Session) -> Any:
    first = s.has_message()
    work(1)
    s.ask("Go on?")
    return [first, s.has_message(), s.receive()]


def test_who_is_told_nothing_goes_on() -> None:
    with perdure.open("memory:") as store:
        assert store.run(polite, "q").result == []


def test_what_was_sent_before_the_run_and_meanwhile_is_heard_once() -> None:
    with perdure.open("memory:") as store:
        assert store.run(waiter, "q").status == "idle"
        store.send("q", "before")

        @perdure.steps
        def agent(s: perdure.Session) -> None:
            heard = s.state.setdefault("heard", [])
            if s.has_message():
                heard.append(s.receive())
                if heard == ["before"]:
                    store.send("q", "meanwhile")
            work(len(heard))
            if len(heard) == 2:
                s.complete([*heard, s.has_message()])

        assert store.run(agent, "q", accept_change=True).result == ["before", "meanwhile", False]


def test_it_is_told_the_same_in_a_replay_though_a_message_has_come() -> None:
    """The answer is that of the first time: the calls after it are recorded, and would differ."""
    with perdure.open("memory:") as store:
        assert store.run(script, "q").status == "waiting"
        store.send("q", "hello")
        store.answer("q", store.questions("q")[0].seq, "yes")
        assert store.run(script, "q").result == [False, True, "hello"]


def test_in_an_event_loop() -> None:
    with perdure.open("memory:") as store:
        assert store.run(waiter, "q").status == "idle"
        for what in ("one", "two"):
            store.send("q", what)
        assert store.run(politely, "q", accept_change=True).result == ["one", "two"]


def test_what_a_branch_heard_that_was_left_is_there_again() -> None:
    with perdure.open("memory:") as store:

        @perdure.agent
        def agent(s: perdure.Session) -> Any:
            s.checkpoint("start")
            if s.strategy is None:
                store.send("q", "hello")
                work(1)
                assert s.receive() == "hello"
                s.rollback("start", strategy="again")
            return [s.has_message(), s.receive(), s.has_message()]

        assert store.run(agent, "q").result == [True, "hello", False]


def test_killed_anywhere_each_message_is_heard_once() -> None:
    report = crash_everywhere(polite, messages=["a", "b"])
    assert report.lives > 5
