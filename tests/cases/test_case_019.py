"""Case 19: a child that is requeued by hand keeps its parent, and the parent its children, inputs and labels."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import faults
from perdure.testing.lives import forked


def child(s: perdure.Session) -> Any:
    s.checkpoint("begun")
    return s.ask("Go on?", key="q")


def parent(s: perdure.Session) -> Any:
    return [s.spawn(child, input={"n": n}, key=f"run-{n}").result() for n in range(2)]


def tree(store: perdure.AgentStore) -> dict[str, Any]:
    """What must not change: who started whom, with which input and labels."""
    found = {}
    for info in store.sessions():
        opened = next(iter(store.log(info.id)))
        found[info.id] = (info.parent, opened.body.get("parent"), opened["input"], opened["labels"], opened["nonce"])
    return found


def requeued(store: perdure.AgentStore, session: str) -> None:
    """By hand, from another process that dies at once, then back to its beginning, then on."""

    def life() -> bytes:
        faults.hook = lambda point: os.kill(os.getpid(), signal.SIGKILL) if point == "append.after" else None
        with perdure.open(store.url) as other:
            other.run(child, session)
        return b""

    assert forked(life)[1] == signal.SIGKILL
    assert store.run(child, session).status == "waiting"
    store.rollback(session, "begun", reason="requeued", by="admin")
    assert store.resume(session, accept_change=True).status == "waiting"
    store.answer(session, "q", "yes", by="admin")
    assert store.run(child, session).result == "yes"


def test_the_hierarchy_outlives_a_requeue_by_hand(tmp_path: Path) -> None:
    with perdure.open(str(tmp_path / "agents.db")) as store:
        assert store.run(parent, "q", labels={"tenant": "a"}).status == "waiting"
        before = tree(store)
        assert before["q/run-0"][:2] == ("q", {"session": "q", "seq": 3, "key": "run-0"})
        requeued(store, "q/run-0")
        assert tree(store) == before
        assert store.run(parent, "q").status == "waiting"
        store.answer("q/run-1", "q", "no")
        assert store.run(parent, "q").result == ["yes", "no"]
        after = tree(store)
        assert {session: after[session] for session in before} == before
        assert [info.id for info in store.sessions(parent="q")] == ["q/run-1", "q/run-0"]
        assert all(store.verify(session, read_data=True).ok for session in after)


def test_it_outlives_a_copy_and_a_file(tmp_path: Path) -> None:
    with perdure.open(str(tmp_path / "agents.db")) as store, perdure.open("memory:") as other:
        store.run(parent, "q")
        before = tree(store)
        store.copy("q", other, children=False)
        store.export_file("q/run-0", tmp_path / "child.perdure")
        other.import_file(tmp_path / "child.perdure")
        assert tree(other) == before
        other.answer("q/run-0", "q", "yes")
        assert other.run(parent, "q").status == "waiting"


def told_to_stop(store: perdure.AgentStore) -> None:
    """Paused by hand, and gone on with."""
    store.pause("q/run-0", reason="look at it", by="admin")
    store.run(child, "q/run-0")


def rolled_back(store: perdure.AgentStore) -> None:
    """Back to its beginning, again and again."""
    for turn in range(3):
        store.rollback("q/run-0", "begun", reason=f"turn {turn}", by="admin", branch=f"turn {turn}")
        store.run(child, "q/run-0", accept_change=True)


def failed(store: perdure.AgentStore) -> None:
    """Its run fails, and is requeued with the code as it was."""
    assert store.run(lambda s: 1 / 0, "q/run-0").status == "failed"
    store.run(child, "q/run-0", accept_change=True)


def mirrored_elsewhere(store: perdure.AgentStore) -> None:
    """A what-if of it is a session of its own, and takes nothing from it."""
    store.drive("q/run-0", into="what-if", fn=child, at="begun")
    assert "what-if" not in [info.id for info in store.sessions(parent="q")]


@pytest.mark.parametrize("requeue", [told_to_stop, rolled_back, failed, mirrored_elsewhere])
def test_the_tree_outlives_what_operators_do(requeue: Callable[[perdure.AgentStore], None], tmp_path: Path) -> None:
    with perdure.open(str(tmp_path / "agents.db")) as store:
        store.run(parent, "q", labels={"tenant": "a"})
        before = tree(store)
        requeue(store)
        after = tree(store)
        assert {session: after[session] for session in before} == before
        assert [child.id for child in store.detail("q").children] == ["q/run-0"]
        store.answer("q/run-0", "q", "yes")
        assert store.run(parent, "q").status == "waiting"
        store.answer("q/run-1", "q", "no")
        assert store.run(parent, "q").result == ["yes", "no"]
