"""A program that makes snapshots by itself, at every boundary, ends as one that makes none: also when it is killed.

What is compared is everything that a life leaves: status, result, state, effects, what was asked; and by the programs'
own rollbacks the points that a name, -1 and 0 mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from perdure.errors import PerdureError
from perdure.log.branch import RESTORE_POINT
from perdure.recovery import SavePolicy
from perdure.session.rules import automatic
from perdure.session.rules.automatic import AutomaticCore
from tests.instants import FULL
from tests.property.lives import differs, everywhere, live
from tests.property.plays import PLAYS
from tests.property.programs import Program, programs
from tests.property.test_resume_everywhere import IN_LOOP

EVERYTHING = SavePolicy(every_actions=1, every_s=1e-6, on_bytes=1, on_pause=True, on_error=True, on_signal=True)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The reasons of the snapshots that are made."""
    reasons: list[str] = []
    right = AutomaticCore._body

    def body(self: Any, data: bytes, reason: str) -> Any:
        reasons.append(reason)
        return right(self, data, reason)

    monkeypatch.setattr(AutomaticCore, "_body", body)
    return reasons


def _alike(program: Program, *, in_loop: bool = False) -> str | None:
    """Killed nowhere and everywhere, it ends as the same program without a policy that nobody kills."""
    return everywhere(program, want=live(program), saves=EVERYTHING, in_loop=in_loop)


@pytest.mark.parametrize("name", PLAYS)
def test_a_play_with_every_policy_on_ends_as_without(name: str) -> None:
    assert _alike(PLAYS[name]) is None


@pytest.mark.parametrize("name", IN_LOOP)
def test_in_an_event_loop_too(name: str) -> None:
    assert differs(live(PLAYS[name]), live(PLAYS[name], in_loop=True, saves=EVERYTHING)) is None


@settings(max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.too_slow])
@given(programs(ops_max=6))
def test_any_program_with_every_policy_on_ends_as_without(program: Program) -> None:
    assert differs(live(program), live(program, saves=EVERYTHING)) is None


@pytest.mark.storm
@pytest.mark.timeout(3600 if FULL else 400)
@settings(max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_any_program_with_every_policy_on_is_killed_and_ends_as_without(program: Program) -> None:
    assert _alike(program) is None


def test_such_snapshots_are_made(made: list[str]) -> None:
    """Else the tests above would test nothing."""
    for program in PLAYS.values():
        live(program, saves=EVERYTHING)
    assert len(made) >= len(PLAYS) // 2
    assert {*made} <= {"every 1 actions", "every 1 bytes of results", "every 1e-06 s"}


def _restore_points(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(automatic, "INSPECTION", RESTORE_POINT)


def _shadow_moves(patch: pytest.MonkeyPatch) -> None:
    def difference(self: Any) -> bytes:
        changes = self.shadow.compare(self.state.touched(), order=self.state.order(), full=True)
        self._advance(changes, at=self.parent_point)
        return changes.data

    patch.setattr(AutomaticCore, "_difference", difference)


def _counts_as_done(patch: pytest.MonkeyPatch) -> None:
    right = AutomaticCore._attend

    def attend(self: Any) -> None:
        right(self)
        self.happened = False

    patch.setattr(AutomaticCore, "_attend", attend)


@pytest.mark.parametrize("wrong", [_restore_points, _shadow_moves, _counts_as_done])
def test_a_policy_that_changes_what_a_resume_does_is_noticed(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch)
    assert any(_broken(program) for program in PLAYS.values())


def _broken(program: Program) -> str | None:
    try:
        return _alike(program)
    except PerdureError as error:
        return repr(error)
