"""Ways out of dead ends: which failures count, which ways are tried in turn, to which milestone it is gone back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perdure.errors import DeadEndError
from perdure.log.choices import BACK, NEXT, Choice
from perdure.recovery import FailurePolicy
from perdure.session.rules.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.session.rules.failing import Candidate, Failed

STRATEGIES: Final = (
    Strategy("direct"),
    Strategy(
        "careful",
        advice="An earlier attempt failed. Look before you act, take small steps, and check each with a tool.",
    ),
    Strategy(
        "different",
        advice="Earlier attempts failed. Do something fundamentally different from all that was tried before.",
    ),
)
"""The ways that are tried in turn, unless others are said."""

AFTER: Final = 5
"""So many failures of one tool in a row are a dead end. A model gets a path or two wrong: that is none."""

START: Final = "start"


def policy(strategies: Sequence[Any] = STRATEGIES, *, after: int = AFTER, **options: Any) -> FailurePolicy:
    """The failure policy of an agent: at a dead end it goes back to its newest milestone and tries the next strategy.

    A milestone from which a way was tried already leads further back, to the one before. `options` are those of
    `FailurePolicy`.
    """
    kinds = {DeadEndError.__name__: "no_progress", **options.pop("kinds", {})}
    plain = FailurePolicy(after=after, strategies=tuple(strategies), kinds=kinds, **options)
    return replace(plain, chooser=lambda failed: _to_milestone(plain.chosen(failed), failed))


def _to_milestone(choice: Choice, failed: Failed) -> Choice:
    if choice.do not in (BACK, NEXT):
        return choice
    milestones: list[Candidate] = [point for point in (*failed.candidates, *failed.checkpoints) if point.name]
    gone_to = {one.to for one in failed.course.choices if one.do == NEXT}
    fresh = [point for point in milestones if point.seq not in gone_to] if choice.do == NEXT else milestones
    chosen = (fresh or milestones[-1:])[:1]
    return replace(choice, to=chosen[0].seq if chosen else 0)
