"""A session that is read along: who is told that it goes in circles, and that a replay is told the same."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.cli import main
from perdure.errors import RefusedError
from perdure.recovery import Circling, ProgressPolicy, circling
from perdure.recovery.loops import Progress
from perdure.stores.observing import Judged
from perdure.testing import crash_everywhere

POINTS = None if os.environ.get("PERDURE_STORM") == "full" else ("append.after", "effect.after")
"""Everything else is tried by the long form of the tests."""


@perdure.action(effect="repeatable")
def chat(messages: list[Any]) -> str:
    return f"thought {len(messages)}"


@perdure.action(effect="repeatable")
def shell(command: str) -> str:
    return f"nothing in {command}"


def turn(s: perdure.Session, command: str = "here") -> Circling | None:
    messages = s.state.setdefault("messages", [])
    messages.append({"role": "assistant", "content": chat(messages=messages)})
    messages.append({"role": "tool", "content": shell(command)})
    return circling(s)


@perdure.agent(progress=ProgressPolicy(repeat_count=3))
def agent(s: perdure.Session) -> list[str]:
    """Goes in circles until it is told so, then another way."""
    told = []
    for _ in range(6):
        found = turn(s, "there" if told else "here")
        told += [f"{found.kind} {found.count}"] if found else []
        s.save()
    return told


@perdure.steps(progress=ProgressPolicy(repeat_count=3))
def in_steps(s: perdure.Session) -> None:
    """A turn in each step: what counts lies in several steps, and in several lives."""
    told = s.state.setdefault("told", [])
    found = turn(s)
    told.append(found.count if found else 0)
    if len(told) == 5:
        s.complete(told)


@pytest.mark.storm
def test_a_script_is_told_when_it_goes_in_circles_killed_anywhere_or_not() -> None:
    crash_everywhere(agent, points=POINTS)


@pytest.mark.storm
def test_steps_count_on_over_steps_and_lives() -> None:
    crash_everywhere(in_steps, points=POINTS)
    assert perdure.open("memory:").run(in_steps, "one").result == [0, 0, 3, 3, 3]


def test_the_logger_and_those_who_look_on_are_told_once_for_each_count(caplog: pytest.LogCaptureFixture) -> None:
    store, told = perdure.open("memory:"), []
    store.observe(lambda event: told.append(event) if isinstance(event, Judged) else None)
    with caplog.at_level(logging.WARNING, "perdure.recovery"):
        assert store.run(agent, "one").result == ["repeat 3", "repeat 3"]
    event, _ = told
    assert (event.what, event.details["kind"], event.details["names"]) == ("circling", "repeat", ["shell"])
    assert "one goes in circles: the same call with the same result: shell, 3 times (records" in caplog.text
    assert [each.kind for each in Progress(ProgressPolicy(repeat_count=3)).fold(store.log("one"))] == ["repeat"] * 2


def test_a_handle_is_read_along_and_a_turn_that_has_ended_begins_anew() -> None:
    store = perdure.open("memory:")
    for _ in range(2):
        with store.session("chat", progress=ProgressPolicy(repeat_count=3)) as s:
            assert [turn(s) is not None for _ in range(3)] == [False, False, True]


def test_what_was_counted_before_a_crash_counts_on(tmp_path: Path) -> None:
    store = perdure.open(tmp_path / "agents.db")

    def cut_off() -> None:
        with store.session("chat", progress=ProgressPolicy(repeat_count=3)) as s:
            turn(s)
            turn(s)
            s.save()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut_off()
    with store.session("chat", progress=ProgressPolicy(repeat_count=3)) as s:
        found = turn(s)
        assert found is not None
        assert found.count == 3


def test_in_an_event_loop_it_is_the_same() -> None:
    async def one(s: perdure.AsyncSession) -> int:
        for n in range(5):
            await s.call(chat, messages=[n])
            await s.call(shell, "here")
        found = circling(s)
        return found.count if found else 0

    store = perdure.open("memory:")
    assert asyncio.run(store.arun(perdure.agent(progress=ProgressPolicy())(one), "one")).result == 5

    async def by_hand() -> Circling | None:
        async with store.aio.session("two", progress=ProgressPolicy(repeat_count=2)) as s:
            await one(s)
            return circling(s)

    assert asyncio.run(by_hand()) is not None


def test_a_session_that_is_not_watched_says_so_and_a_wrong_policy_leaves_it_free() -> None:
    store = perdure.open("memory:")
    with store.session("chat") as s:
        with pytest.raises(RefusedError, match="declare it with progress=ProgressPolicy"):
            circling(s)
        assert s._core.on_written is None
    with pytest.raises(RefusedError, match=r"it is a perdure\.recovery\.ProgressPolicy"):
        store.session("chat", progress=3)
    with store.session("chat"):
        pass


def test_the_doctor_names_sessions_that_run_in_circles(tmp_path: Path) -> None:
    store = perdure.open(tmp_path / "agents.db")
    with store.session("chat", progress=ProgressPolicy()) as s:
        for _ in range(5):
            turn(s)
        (found,) = [each for each in store.doctor().findings if each.kind == "circling"]
        assert (found.session, found.severity, found.mend) == ("chat", "warning", ("show", "chat"))
    assert [each for each in store.doctor(deep=True).findings if each.kind == "circling"] == []


def test_show_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "agents.db")
    store = perdure.open(place)
    with store.session("chat") as s:
        for _ in range(5):
            s.call(chat, messages=[])
            s.call(shell, "here")
        s.save()
        assert store.detail("chat").circling == "the same call with the same result: shell, 5 times"
        with pytest.raises(SystemExit):
            main(["show", "chat", "--store", place])
    assert "it goes in circles: the same call with the same result: shell, 5 times" in capsys.readouterr().out
    assert store.detail("chat").circling == ""


def test_old_damage_is_no_reason_not_to_open_a_session_that_is_watched(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    for _ in range(2):
        with perdure.open(path) as store, store.session("chat", progress=ProgressPolicy()) as s:
            turn(s)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE records SET body = zeroblob(40) WHERE key & 0xffffffff = 3")
        db.commit()
    with perdure.open(path) as store, store.session("chat", progress=ProgressPolicy()) as s:
        assert turn(s) is None
