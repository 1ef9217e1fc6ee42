"""Killed at random instants, with a real model: each errand is done once, the session completes, nothing is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.log.action import Actions
from tests.proof import errands
from tests.proof.random_kills import FULL, KILLS, Work, killed_at_random, perdure_command

FILE = Path(errands.__file__)
SCRIPT = """
- {match: Look up, calls: [{tool: look_up, args: {what: bread}}], wait: 1}
- {match: errand, reply: It is done., repeat: true, wait: 1}
"""


def settle(store: perdure.AgentStore, question: perdure.Question, folder: Path) -> None:
    """As a person would: looks whether it was done."""
    errand = store.action(question.session, question.seq).arguments["errand"]
    if errand in errands.noted(folder):
        store.settle(question.session, question.seq, "done", result=f"noted {errand}")
    else:
        store.settle(question.session, question.seq, "not-done")


def settle_by_key(store: perdure.AgentStore, question: perdure.Question, folder: Path) -> None:
    key = Actions(store.log(question.session))[question.seq].idempotency_key
    if key in errands.noted(folder):
        store.settle(question.session, question.seq, "done", result=f"noted {key}")
    else:
        store.settle(question.session, question.seq, "not-done")


def work(agent: str, model: str, **how: Any) -> Work:
    store = ("--store", "agents.db")
    entry = f"{FILE}:{agent}"
    return Work(
        begin=lambda _: perdure_command("run", entry, "--session", "q", "--input-text", model, *store),
        resume=lambda _: perdure_command("resume", "q", *store),
        happened=errands.noted,
        settle=settle,
        **how,
    )


@pytest.mark.storm
@pytest.mark.timeout(3600)
def test_with_a_real_model_killed_at_random_instants(tmp_path: Path) -> None:
    local = work("agent", "local", histories=["history"], has_processes=True)
    told = killed_at_random(local, tmp_path, kills=KILLS, seed=8)
    assert told.kills == KILLS
    assert told.running["local_server.py"] >= 1
    for session in range(told.sessions):
        assert sorted(errands.noted(tmp_path / str(session))) == [f"errand {n}" for n in range(errands.ERRANDS)]


@pytest.mark.skipif(not FULL, reason="a real model thinks for minutes: PERDURE_STORM=full")
@pytest.mark.storm
@pytest.mark.timeout(7200)
def test_an_autonomous_agent_with_a_real_model(tmp_path: Path) -> None:
    """What it comes to is the model's affair: it is held to what it may spend, and does nothing twice."""
    store = ("--store", "agents.db")
    words = ("agent", "Post a letter", "--agent", f"{FILE}:pursuer", "--model", "local", "--id", "q", *store)
    pursuing = Work(
        begin=lambda _: perdure_command(*words),
        resume=lambda _: perdure_command(*words),
        happened=errands.noted,
        settle=settle_by_key,
        histories=["history"],
        has_processes=True,
        may_be_idle=True,
    )
    assert killed_at_random(pursuing, tmp_path, kills=KILLS, seed=3).kills == KILLS


@pytest.mark.storm
def test_what_is_done_without_the_journal_is_caught(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT)
    with pytest.raises(AssertionError, match="happened more than once: errand 0"):
        killed_at_random(work("careless", f"script:{script}"), tmp_path, kills=10, seed=1)
