"""Builds that let something happen before the stream that it follows from is recorded: the benches must notice."""

from __future__ import annotations

import pytest

import perdure
from perdure.session.async_stream import OpenAsyncStreams
from perdure.session.stream import OpenStreams
from perdure.testing import crash_everywhere
from tests.crash import outside
from tests.crash.agents import asks_slowly, send, speak


def acts(s: perdure.Session) -> list[str]:
    return [send(letter) for letter in speak("ab")]


async def acts_async(s: perdure.AsyncSession) -> list[str]:
    return [await s.call(send, letter) async for letter in asks_slowly("ab")]


def test_calls_before_the_stream_is_recorded_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(open_streams: OpenStreams, *, leave: bool = False) -> None:
        if leave:
            whole(open_streams, leave=True)

    whole = OpenStreams.settle
    monkeypatch.setattr(OpenStreams, "settle", settle)
    with pytest.raises(AssertionError, match=r"killed at append\.after"):
        crash_everywhere(acts, effects=outside.effects, fresh=outside.clear, points=["append.after"])


def test_calls_before_the_stream_is_recorded_are_noticed_in_an_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def settle(open_streams: OpenAsyncStreams) -> None:
        """Nothing is recorded before its time."""

    monkeypatch.setattr(OpenAsyncStreams, "settle", settle)
    with pytest.raises(AssertionError, match=r"killed at append\.after"):
        crash_everywhere(acts_async, effects=outside.effects, fresh=outside.clear, points=["append.after"])
