"""The session whose state was migrated, edited and gone back with, and its code: never changed, only added to."""

from __future__ import annotations

from typing import Any

import perdure
from perdure.runtime.store import AgentStore

SUBJECT = "golden/versions"
RESULT = {"jobs": [{"name": "tides"}, {"name": "ice"}], "seen": ["tides"], "plan": "by hand", "came": ["golden 3"]}


@perdure.action(effect="once")
def look(job: str) -> str:
    return job


@perdure.migration("golden 1", "golden 2", agent="worker")
def named(state: dict[str, Any]) -> None:
    state["jobs"] = [{"name": job} for job in state["jobs"]]


@perdure.migration("golden 2", "golden 3", agent="worker")
def planned(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "came": ["golden 3"]}


def agent(version: str) -> Any:
    """Steps of this version; only the last one comes to its end."""

    @perdure.steps(version=version)
    def worker(s: perdure.Session) -> None:
        if not s.state:
            s.state.update(jobs=["tides", "ice"], seen=[])
            return
        if not s.state["seen"]:
            s.state["seen"].append(look("tides"))
            return
        s.save(reason="on the way")
        if version != "golden 3":
            raise RuntimeError("it stops here")
        s.complete(dict(s.state))

    worker.__qualname__ = "worker"
    return worker


def fill(store: AgentStore) -> None:
    """Of the first version, edited; of the second; gone back with to the first, and edited again."""
    assert store.run(agent("golden 1"), SUBJECT).status == "failed"
    store.edit(SUBJECT, {"plan": "none"}, by="tester", reason="golden")
    assert store.run(agent("golden 2"), SUBJECT).status == "failed"
    store.rollback(SUBJECT, 0, by="tester")
    store.edit(SUBJECT, {"plan": "by hand"}, by="tester", reason="golden")
    assert store.detail(SUBJECT).version == "golden 1"
