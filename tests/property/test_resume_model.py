"""The product against an executable model of the rules, where there is one beside the repository.

The same programs, killed at any instant, must end in the product as the model says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from tests.instants import FULL
from tests.property import model_bridge
from tests.property.lives import crashes

check = model_bridge.model()
pytestmark = pytest.mark.skipif(
    check is None, reason=f"no model at {model_bridge.PLACE}; PERDURE_MODEL may name its place"
)


SEEDS, PAIRS = (600, 40) if FULL else (20, 2)
WRITTEN = [] if check is None else check.PROGRAMS


def _unharmed(program: Any) -> Any:
    person = check.Person(program.person.standing)
    return check.live(check.Program(program.name, program.form, program.fixed or program.code, person))


def _broken(program: Any, *, pairs: int, judge: Callable[[Any, Any], str | None]) -> str | None:
    """The first promise that the product breaks, against the model's unharmed end."""
    want = _unharmed(program)
    assert want.status in ("completed", "idle"), "the model itself does not end"
    first = model_bridge.live(program)
    found = judge(want, first) if program.fixed is None else None
    if found:
        return f"unharmed: {found}"
    for at in crashes(first.ticks, pairs=pairs):
        found = judge(want, model_bridge.live(program, at))
        if found:
            return f"killed at {at}: {found}"
    return None


@pytest.mark.parametrize("program", WRITTEN, ids=lambda program: program.name)
def test_a_program_of_the_model(program: Any) -> None:
    assert _broken(program, pairs=PAIRS, judge=check.compare) is None


@pytest.mark.storm
@pytest.mark.parametrize("seeds", range(0, SEEDS, 10), ids=lambda first: f"from {first}")
def test_random_programs_of_the_model(seeds: int) -> None:
    for seed in range(seeds, seeds + 10):
        program = check.random_program(seed)
        assert _broken(program, pairs=PAIRS, judge=check.compare) is None, program


@pytest.mark.parametrize("program", [p for p in WRITTEN if p.fixed is None], ids=lambda program: program.name)
def test_all_doubts_abandoned(program: Any) -> None:
    person = check.Person(program.person.standing, "abandoned")
    unsure = check.Program(program.name, program.form, program.code, person)
    assert _broken(unsure, pairs=0, judge=check.safe_only) is None


@pytest.mark.parametrize("program", [p for p in WRITTEN if p.fixed is None], ids=lambda program: program.name)
def test_the_same_is_asked(program: Any) -> None:
    """Over all instants, the product asks about the calls that the model asks about, and about no others."""
    ours: set[str] = set()
    theirs: set[str] = set()
    for instant in range(model_bridge.live(program, asked=ours).ticks + 1):
        model_bridge.live(program, (instant,), asked=ours)
    with mock.patch.object(check.Person, "help", _noting(check.Person.help, theirs)):
        for instant in range(check.live(program).ticks + 1):
            check.live(program, (instant,))
    assert ours == theirs


def _noting(right: Callable[..., None], asked: set[str]) -> Callable[..., None]:
    def help_(person: Any, log: Any, outside: Any, waits: Any) -> None:
        actions = check.fold_actions(log)
        for seq in waits:
            if seq in actions:
                asked.add(f"doubt about {actions[seq].name}")
            elif log[seq - 1].kind == "asked":
                asked.add("standing" if log[seq - 1]["about"] else log[seq - 1]["prompt"])
        right(person, log, outside, waits)

    return help_


# --- changed code ----------------------------------------------------------------------------------------------------


def _harm(effects: Any) -> dict[Any, int]:
    return {what: times for what, times in dict(effects).items() if what[0] != "repeatable"}


@pytest.mark.parametrize("name", [] if check is None else [new.__name__ for new in check.CHANGED])
def test_changed_code(name: str) -> None:
    new = getattr(check, name)
    changed = check.Program(name, "script", check.order_v1, fixed=new)
    before, after = (_harm(check.live(check.Program("", "script", code)).effects) for code in (check.order_v1, new))
    for instant in range(1, model_bridge.live(check.Program("", "script", check.order_v1)).ticks + 1):
        got = model_bridge.live(changed, (instant,))
        if got.status == "completed":
            assert _harm(got.effects) in (after, before), instant
        else:
            assert "Diverged" in got.result, instant
        over = {e: n for e, n in _harm(got.effects).items() if n > max(before.get(e, 0), after.get(e, 0))}
        assert not over, instant


def test_a_rollback_taken_out_of_the_code() -> None:
    changed = check.Program("", "script", check.booked_then_left, fixed=check.booked)
    for instant in range(1, model_bridge.live(check.Program("", "script", check.booked_then_left)).ticks + 1):
        got = model_bridge.live(changed, (instant,))
        left = Counter({args: n for (_, name, args), n in got.effects if name == "book"})
        left.subtract({args: n for (_, name, args), n in got.effects if name == "unput"})
        assert set(left.values()) == {1}, instant
