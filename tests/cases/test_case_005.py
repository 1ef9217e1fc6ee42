"""Case 5: a result is durable before the step that uses it, whichever write is slow; it is never got twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import perdure
from perdure.runtime.store import AgentStore
from perdure.stores import Batch, open_store
from perdure.testing import crash_everywhere
from perdure.testing.broken import Passing


class Slow(Passing):
    """Takes its time with each commit that has a record of this kind."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(open_store(path))
        self._kind = kind

    def append(self, session: str, batch: Batch, *, epoch: int | None, head: int) -> int:
        if any(record.kind == self._kind for record in batch.records):
            time.sleep(0.01)
        return super().append(session, batch, epoch=epoch, head=head)


@pytest.fixture
def agent(tmp_path: Path) -> Callable[[perdure.Session], None]:
    def append_a_line(text: str) -> int:
        with (tmp_path / "effects").open("a") as file:
            return file.write(f"{text}\n")

    @perdure.steps
    def two_steps(s: perdure.Session) -> None:
        n = s.state.get("n", 0)
        s.state["written"] = s.call(append_a_line, f"line {n}")
        s.state["n"] = n + 1
        if n:
            s.complete(s.state["n"])

    return two_steps


@pytest.mark.parametrize("slow", ["action_started", "action_finished", "saved"])
def test_killed_at_every_store_call(slow: str, agent: Callable[[perdure.Session], None], tmp_path: Path) -> None:
    lines = tmp_path / "effects"

    def effects() -> dict[str, int]:
        return {"append_a_line": len(lines.read_text().splitlines()) if lines.exists() else 0}

    report = crash_everywhere(
        agent,
        effects=effects,
        store=lambda folder: Slow(folder / "agents.db", slow),
        points=["append.before", "append.inside", "append.after"],
    )
    assert report.killed["append.inside"] == report.reached["append.inside"] >= 7


@pytest.mark.parametrize("slow", ["action_finished", "saved"])
def test_the_order_is_fixed(slow: str, agent: Callable[[perdure.Session], None], tmp_path: Path) -> None:
    with AgentStore(Slow(tmp_path / "agents.db", slow)) as store:
        assert store.run(agent, "s").result == 2
        kinds = [entry.kind for entry in store.log("s")]
    step = ["action_started", "action_finished", "saved"]
    assert kinds == ["opened", "owned", *step, *step, "status"]
