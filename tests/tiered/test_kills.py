"""An agent behind two tiers on the disk, killed with SIGKILL at each named instant: nothing acknowledged is lost."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

import perdure
from perdure import faults
from perdure.testing import crash_everywhere

FULL = os.environ.get("PERDURE_STORM") == "full"
POINTS = ("tier.take", "tier.ahead", "tier.copy", "tier.copied", "tier.frozen", "tier.carry", "tier.carried")


def test_the_points_are_all_there_are() -> None:
    assert {*POINTS, "tier.evict"} == {point for point in faults.POINTS if point.startswith("tier.")}


class Outside:
    """A file to which effects are appended: what was done is there after a kill."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def clear(self) -> None:
        self.path.write_text("")

    def effects(self) -> Mapping[str, int]:
        return Counter(self.path.read_text().split())

    def do(self, name: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{name}\n")


def two_tiers(folder: Path) -> str:
    return f"tiered:?hot=sqlite%3A{folder}/hot.db&cold=file%3A{folder}/cold&mode=behind&copy_s=0.01"


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    found = Outside(tmp_path / "outside")
    found.clear()
    return found


def agent_of(outside: Outside):
    @perdure.action(effect="once", key=lambda n: f"pay-{n}", verify=lambda n: perdure.Unknown())
    def pay(n: int) -> int:
        outside.do(f"pay-{n}")
        return n * 10

    @perdure.action(effect="repeatable")
    def look(n: int) -> str:
        outside.do("look")
        return f"seen {n}"

    @perdure.agent(append_only=["log"])
    def agent(s: perdure.Session) -> int:
        s.state["log"] = []
        for n in range(6 if FULL else 1):
            s.state["log"].append(s.call(look, n))
            s.save()
            s.state["log"].append(s.call(pay, n))
            s.checkpoint(f"paid {n}")
        return len(s.state["log"])

    return agent


def test_killed_at_each_instant_it_goes_on_as_if_unharmed(outside: Outside) -> None:
    report = crash_everywhere(
        agent_of(outside),
        effects=outside.effects,
        fresh=outside.clear,
        store=two_tiers,
        points=None if FULL else POINTS,
        pairs=20 if FULL else 0,
    )
    assert report
