"""Two processes of a service that run the same session: the one that waits gets what came of it, and runs nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.runtime.store import AgentStore

paid: list[str] = []


@perdure.action(effect="idempotent")
def pay(what: str) -> str:
    paid.append(what)
    return what


@perdure.steps
def steps(s: perdure.Session) -> None:
    """A step after the last one would pay again."""
    s.state.setdefault("paid", []).append(pay("rent"))
    _hold()
    pay("more")
    s.complete(s.state["paid"])


@perdure.agent
def script(s: perdure.Session) -> list[str]:
    got = [pay("rent")]
    _hold()
    return [*got, pay("more")]


@perdure.steps
async def awaited(s: perdure.AsyncSession) -> None:
    s.state.setdefault("paid", []).append(await s.call(pay, "rent"))
    await asyncio.to_thread(_hold)
    await s.call(pay, "more")
    s.complete(s.state["paid"])


_hold: Callable[[], Any] = lambda: None  # noqa: E731 - each test has its own


@pytest.mark.parametrize("agent", [steps, script, awaited])
@pytest.mark.parametrize("end", ["completed", "cancelled"])
def test_who_waited_for_a_session_gets_its_end(
    agent: Callable[[Any], Any], end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid.clear()
    held, waits = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        assert waits.wait(60)

    monkeypatch.setattr(f"{__name__}._hold", hold)
    url = str(tmp_path / "agents.db")
    with perdure.open(url) as first, perdure.open(url) as second, ThreadPoolExecutor() as pool:
        one = pool.submit(first.run, agent, "s")
        assert held.wait(60)
        _says_when_it_waits(second, waits, monkeypatch)
        if end == "cancelled":
            first.cancel("s", reason="enough")
        two = pool.submit(second.run, agent, "s", wait_s=60)
        assert (one.result(60).status, two.result(60).status) == (end, end)
        assert one.result().result == two.result().result
        assert paid == ["rent", "more"]  # a cancel that came in an action is met after the next one has told of it
        assert [entry.kind for entry in first.log("s")].count("owned") == 1


def _says_when_it_waits(store: AgentStore, waits: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has looked whether the session is over, and found that it is not."""
    look = store._completed

    def looked(opening: Any) -> Any:
        found = look(opening)
        waits.set()
        return found

    monkeypatch.setattr(store, "_completed", looked)
