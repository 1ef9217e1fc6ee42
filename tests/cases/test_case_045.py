"""Case 45: killed between two tries of a step, the recovery failed, for the record had neither output nor error.

Right: each try is a record of its own; the next process goes on with the count that there is, also when it is killed
again, and the tries in all are as many as were declared.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import perdure
from perdure.log.action import Actions
from tests.crash.process import Child, Talk

TRIES = 4


def agent_of(tally: Path, *, backoff_s: float, catches: bool) -> object:
    def fails() -> None:
        with tally.open("a") as file:
            file.write("tried\n")
        raise ConnectionError("not yet")

    def agent(s: perdure.Session) -> str:
        act = s.action(fails, effect="idempotent", retries=TRIES - 1, backoff_s=backoff_s)
        if not catches:
            act()
        try:
            act()
        except ConnectionError as error:
            return f"{type(error).__name__}: {error}"
        return "done"

    return agent


def tries(tally: Path) -> int:
    return tally.read_text().count("tried") if tally.exists() else 0


@pytest.mark.parametrize("kills", [1, 2, TRIES - 1])
@pytest.mark.parametrize("catches", [True, False])
def test_the_tries_go_on_with_the_count_kept(kills: int, *, catches: bool, tmp_path: Path) -> None:
    url, tally = tmp_path / "agents.db", tmp_path / "tally"

    def work(_: Talk) -> None:
        perdure.open(url).run(agent_of(tally, backoff_s=3600.0, catches=catches), "s")

    perdure.open(url).close()
    seen = 0
    with perdure.open(url) as store:
        for kill in range(kills):
            with Child(work) as child:
                seen = wait_for_failure(store, after=seen)
                assert tries(tally) == kill + 1
                child.kill()
        outcome = store.run(agent_of(tally, backoff_s=0.0, catches=catches), "s")
        assert tries(tally) == TRIES
        if catches:
            assert outcome.result == "ConnectionError: not yet"
        else:
            assert outcome.status == "failed"
        (action,) = Actions(store.log("s")).values()
        assert (action.attempts, action.failures) == (TRIES, TRIES)


def wait_for_failure(store: perdure.AgentStore, *, after: int) -> int:
    """The number of the record that tells of it; the process waits before the next try then."""
    while not any(info.id == "s" for info in store.sessions()):
        pass
    return next(entry.seq for entry in store.follow("s", after=after) if entry.kind == "action_finished")
