"""A program that is killed at any instant ends as if it had not been: same status, result, state and effects."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from perdure.stores import Store, open_store
from tests.instants import FULL
from tests.property.lives import End, everywhere, harms, live
from tests.property.plays import CHANGED, PLAYS
from tests.property.programs import Program, programs
from tests.property.worlds import Person
from tests.property.wrong import WRONG

ON_DISK = (
    "a call of each class",
    "a rollback to the opening",
    "steps with points",
    "a handle",
    "errors that end the run",
)


IN_LOOP = (
    "a parallel block of each class",
    "identical calls in parallel",
    "one key, many calls in parallel",
    "calls inside parallel calls",
    "a parallel block with errors",
    "a save inside a parallel block",
    "a handle saves while calls are open",
    "a rollback over a parallel block",
    "values in arguments",
    "streams read to their ends",
    "streams that are left",
    "streams that break off",
)


def _abandoning(program: Program) -> Program:
    return replace(program, person=Person(program.person.standing, abandons=True))


@pytest.fixture(params=["{}.db", "file:{}"], ids=["sqlite", "file"])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], Store]:
    numbers = itertools.count()
    return lambda: open_store(request.param.format(tmp_path / f"{next(numbers)}"))


@pytest.mark.parametrize("name", PLAYS)
def test_a_play_ends_as_if_unharmed(name: str) -> None:
    assert everywhere(PLAYS[name], pairs=6, every=True) is None


@pytest.mark.parametrize("name", ON_DISK)
def test_on_disk_too(name: str, place: Callable[[], Store]) -> None:
    assert everywhere(PLAYS[name], place=place) is None


@pytest.mark.parametrize("name", IN_LOOP)
def test_in_an_event_loop_it_ends_as_in_a_thread(name: str) -> None:
    assert everywhere(PLAYS[name], want=live(PLAYS[name]), in_loop=True) is None


@pytest.mark.storm
@settings(max_examples=settings().max_examples // 8, suppress_health_check=[HealthCheck.too_slow])
@given(programs(ops_max=4))
def test_any_program_in_an_event_loop_ends_as_in_a_thread(program: Program) -> None:
    assert everywhere(program, want=live(program), in_loop=True) is None


@pytest.mark.storm
@pytest.mark.timeout(3600 if FULL else 400)  # 20 s of computing, which a busy machine makes minutes of
@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_any_program_ends_as_if_unharmed(program: Program) -> None:
    assert everywhere(program, pairs=4) is None


@pytest.mark.parametrize("name", PLAYS)
def test_a_person_who_abandons_every_doubt_lets_nothing_happen_twice(name: str) -> None:
    assert everywhere(_abandoning(PLAYS[name]), want=live(PLAYS[name]), judge=harms) is None


# --- code that changes between the crash and the resume --------------------------------------------------------------


def _lasting(end: End) -> Counter[Any]:
    """What happened in the world and was not undone; what is repeatable does not count."""
    left: Counter[Any] = Counter()
    for effect, name, arg, times in end.effects:
        if name == "release":
            left["idempotent", "reserve", arg] -= times
        elif effect != "repeatable":
            left[effect, name, arg] += times
    return +left


def _changed(program: Program) -> str | None:
    """Killed anywhere, gone on with the new code: it ends as one of the two alone would, or is refused in time."""
    assert program.changed is not None
    before, after = (live(Program(program.form, ops)) for ops in (program.ops, program.changed))
    old, new = _lasting(before), _lasting(after)
    for instant in range(1, before.instants + 1):
        got = live(program, (instant,))
        if got.status == "completed" and _lasting(got) not in (old, new):
            return f"killed at {instant} it went on to {got.effects}"
        if got.status == "stuck" or (got.status == "failed" and "DivergedError" not in got.result):
            return f"killed at {instant}: {got.status} {got.result}"
        if _lasting(got) - (old | new):
            return f"killed at {instant}, too often: {_lasting(got) - (old | new)}"
    return None


@pytest.mark.parametrize("name", CHANGED)
def test_changed_code_goes_on_right_or_is_refused(name: str) -> None:
    assert _changed(CHANGED[name]) is None


def test_code_that_grew_at_its_end_goes_on() -> None:
    program = CHANGED["a call more at the end"]
    ends = {live(program, (instant,)).status for instant in range(1, live(program).instants)}
    assert ends == {"completed"}


# --- controls --------------------------------------------------------------------------------------------------------


TRIES = 20
"""What threads do at the same time comes in another order each time: some rules are broken only by one of them."""


@pytest.fixture
def switching() -> Iterator[Callable[[int], None]]:
    """Has threads take turns more often, or as usual, by the number of a try: so that they meet in other orders."""
    usual_s = sys.getswitchinterval()
    yield lambda number: sys.setswitchinterval(usual_s / 10 ** (number % 4))
    sys.setswitchinterval(usual_s)


@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_rule_is_caught(rule: str, switching: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    put_in, name = WRONG[rule]
    want = live(PLAYS[name]) if name in PLAYS else None
    put_in(monkeypatch)

    def caught(number: int) -> bool:
        switching(number)
        return (everywhere(PLAYS[name], want=want) if want else _changed(CHANGED[name])) is not None

    assert any(map(caught, range(TRIES)))


def test_without_a_wrong_rule_these_programs_break_nothing() -> None:
    assert {name for _, name in WRONG.values()} <= {*PLAYS, *CHANGED}
