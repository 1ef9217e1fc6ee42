"""Case 47: a call in a loop is known by its place: killed or rolled back at any visit, it goes on with that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.runtime import operator
from perdure.testing import crash_everywhere

VISITS = 3


def work(text: str) -> str:
    return text.upper()


tick = perdure.action(effect="repeatable")(work)


def script(s: perdure.Session) -> list[str]:
    """The same call with the same arguments each time, and one that varies."""
    said = s.state["said"] = []
    for visit in range(VISITS):
        s.checkpoint("visit")
        said.append(tick("same"))
        said.append(tick(f"visit {visit}"))
    return said


def nested(s: perdure.Session) -> list[list[str]]:
    """A loop in an action, that is called in a loop."""

    @perdure.action(effect="repeatable")
    def loop() -> list[str]:
        return [tick("same") for _ in range(VISITS)]

    return [loop() for _ in range(VISITS)]


@perdure.steps
def steps(s: perdure.Session) -> None:
    said = s.state.setdefault("said", [])
    said.append(tick("same"))
    if len(said) == VISITS:
        s.complete(said)


@pytest.mark.parametrize("agent", [script, nested, steps])
def test_killed_at_any_visit(agent: Callable[[Any], Any]) -> None:
    report = crash_everywhere(agent, points=["effect.before", "effect.after", "append.after"])
    assert report.killed["effect.before"] >= VISITS


@pytest.mark.parametrize("visit", range(VISITS))
def test_rolled_back_to_any_visit(visit: int, tmp_path: Path) -> None:
    """By its number, for the name means the newest."""

    def stops_at_the_end(s: perdure.Session) -> list[str]:
        said = script(s)
        s.ask("More?", key="more")
        return said

    with perdure.open(tmp_path / "agents.db") as store:
        assert store.run(stops_at_the_end, "s").status == "waiting"
        points = [point.seq for point in store.snapshots("s") if point.name == "visit"]
        assert len(points) == VISITS
        operator.rollback(store, "s", points[visit])
        assert store.state_at("s").get("said", []) == [x for n in range(visit) for x in ("SAME", f"VISIT {n}")]
        assert store.run(stops_at_the_end, "s").status == "waiting"
        store.answer("s", "more", "no")
        assert store.run(stops_at_the_end, "s").result == [x for n in range(VISITS) for x in ("SAME", f"VISIT {n}")]
