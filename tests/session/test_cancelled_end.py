"""A task that is cancelled while its agent completes: what the store has acknowledged stays what it is."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.stores.observing import Released

ended: list[int] = []
"""Whether the code is through: the next commit completes the session."""


@perdure.agent
async def agent(s: perdure.AsyncSession) -> str:
    s.state["n"] = 1
    ended.append(1)
    return "done"


@pytest.mark.parametrize("point", ["append.before", "append.inside", "append.after"])
@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
def test_a_cancel_in_the_commit_that_completes_it_does_not_make_it_failed(
    tmp_path: Path, point: str, again: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended.clear()
    with perdure.open(tmp_path / "agents.db") as store, perdure.open(tmp_path / "agents.db") as other:

        async def run() -> None:
            task, loop = asyncio.ensure_future(store.arun(agent, "q")), asyncio.get_running_loop()
            seen: list[str] = []

            def cancel(reached: str) -> None:
                seen.append(reached)
                is_last = bool(ended) and reached == point
                if (is_last and "cancel" not in seen) or (again and "cancel" in seen):
                    seen.append("cancel")
                    loop.call_soon_threadsafe(task.cancel)

            monkeypatch.setattr(faults, "hook", cancel)
            with contextlib.suppress(asyncio.CancelledError):
                await task

        asyncio.run(run())
        monkeypatch.setattr(faults, "hook", None)
        assert store.run(agent, "q").result == "done"
        said = [entry["status"] for entry in other.log("q") if entry.kind == "status"]
        assert (said[-1], said.count("completed")) == ("completed", 1), said


@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
@pytest.mark.parametrize("point", ["append.before", "append.inside", "append.after"])
def test_a_cancel_in_the_opening_gives_the_session_back(
    tmp_path: Path, point: str, again: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back = threading.Event()
    with perdure.open(tmp_path / "agents.db") as store:
        store.observe(lambda event: given_back.set() if isinstance(event, Released) else None)

        async def run() -> None:
            task, loop = asyncio.ensure_future(store.arun(agent, "q")), asyncio.get_running_loop()
            seen: list[str] = []

            def cancel(reached: str) -> None:
                if reached == point and (again or not seen):
                    seen.append(reached)
                    loop.call_soon_threadsafe(task.cancel)

            monkeypatch.setattr(faults, "hook", cancel)
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(run())
        monkeypatch.setattr(faults, "hook", None)
        assert given_back.wait(30)
        assert store.run(agent, "q").result == "done"
