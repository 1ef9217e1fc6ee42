"""What a type checker must see of the testing kit. Checked by mypy, never run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import assert_type

import perdure
from perdure.testing import Command, CrashPoint, Doubt, Report, crash_everywhere


def agent(s: perdure.Session) -> str:
    return str(s.input)


@perdure.steps
def worker(s: perdure.Session) -> None:
    s.complete(3)


def settle(doubt: Doubt) -> perdure.Done | perdure.NotDone:
    assert_type(doubt.happened, bool | None)
    return perdure.Done(doubt.arguments["text"]) if doubt.happened else perdure.NotDone()


def effects() -> Counter[str]:
    return Counter()


def reports() -> None:
    report = crash_everywhere(agent, input=[1], effects=effects, answers={"chat": ["a", "b"]}, settle=settle)
    assert_type(report, Report)
    assert_type(report.missed, tuple[CrashPoint, ...])
    assert_type(report.lives, int)
    crash_everywhere(worker, settle="truth", points=["append.after"], most=9, pairs=3)
    crash_everywhere(agent, form="handle", store=lambda folder: f"sqlite:///{folder}/a.db", folder=Path("lives"))
    crash_everywhere(agent, commands=[Command("pause", "send"), Command("message", value=1)])
    Command("stop")  # type: ignore[arg-type]
    crash_everywhere(agent, form="script")  # type: ignore[arg-type]
    crash_everywhere(agent, settle="guess")  # type: ignore[arg-type]
