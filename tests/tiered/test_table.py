"""Every instant of an owner's work with everything that can happen there, one by one and two at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import faults
from perdure.errors import PerdureError
from tests.tiered.controls import CONTROLS, Control
from tests.tiered.world import (
    HAPPENINGS,
    World,
    check,
    cut_off,
    dump,
    evict,
    freeze_only,
    go_stale,
    kill,
    lose,
    open_only,
    read,
    run,
    steal,
    take_only,
)

EXAMPLES = 2000 if os.environ.get("PERDURE_STORM") == "full" else 150
POINTS = run(World(), ())
"""The instants of undisturbed work."""


@pytest.fixture(autouse=True)
def _no_hook() -> Iterator[None]:
    yield
    faults.hook = None


def happens(*plan: tuple[int, Callable[[World], None]]) -> None:
    world = World()
    try:
        run(world, plan)
        check(world)
    finally:
        faults.hook = None
        world.end()


def test_the_work_reaches_the_instants_of_a_writer() -> None:
    assert {*POINTS} >= {"tier.ahead", "tier.copy", "tier.copied", "tier.take", "tier.frozen"}


@pytest.mark.parametrize("happening", HAPPENINGS, ids=lambda one: one.__name__)
def test_at_every_instant(happening: Callable[[World], None]) -> None:
    for when in range(1, len(POINTS) + 1):
        happens((when, happening))


@pytest.mark.parametrize("first", [lose, go_stale, cut_off, evict], ids=lambda one: one.__name__)
@pytest.mark.parametrize("then", [kill, steal, open_only], ids=lambda one: one.__name__)
def test_what_happens_to_hot_and_then_to_its_owner(
    first: Callable[[World], None], then: Callable[[World], None]
) -> None:
    for when in range(1, len(POINTS) + 1):
        happens((1, dump), (when, first), (when, then))


@pytest.mark.parametrize("last", [freeze_only, kill, lose, read], ids=lambda one: one.__name__)
def test_an_owner_is_replaced_and_his_successor_interrupted(last: Callable[[World], None]) -> None:
    for when in range(1, len(POINTS) + 1):
        for first in (steal, open_only, take_only):
            happens((when, first), (when, last))
            happens((when, first), (when, freeze_only), (when, last))


@given(st.data())
@settings(max_examples=EXAMPLES, deadline=None)
def test_at_two_and_three_instants(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 3))
    whens = sorted(data.draw(st.integers(1, len(POINTS) + 4)) for _ in range(count))
    happens(*[(when, data.draw(st.sampled_from(HAPPENINGS))) for when in whens])


@pytest.mark.parametrize("control", CONTROLS, ids=lambda one: one.__name__)
def test_the_table_finds_two_tiers_that_are_wrong(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    control(monkeypatch)
    with pytest.raises((AssertionError, PerdureError, ValueError)):
        everything_happens()


def everything_happens() -> None:
    for when in range(1, len(POINTS) + 1):
        happens((when, steal), (when, freeze_only), (when, read))
    for second in (None, *HAPPENINGS):
        for first in HAPPENINGS:
            for when in range(1, len(POINTS) + 1):
                happens((when, first), *([(when + 1, second)] if second else []))
