"""What is done when an agent fails: tried again, taken back and tried another way, or left to a person.

It decides from what the log tells, so that whoever resumes the session decides the same. How a decision is carried out
it does not know (`session/rules/failing.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from perdure.errors import RefusedError
from perdure.log.choices import ACTION, AGAIN, BACK, GIVE_UP, NEXT, RUN, SESSION, Choice
from perdure.recovery import error_kinds
from perdure.recovery.error_kinds import FATAL, INVALID_OUTPUT, KINDS, NO_PROGRESS, TOOL_ERROR, TRANSIENT
from perdure.session.rules.backoff import backoff_s
from perdure.session.rules.failing import Failed
from perdure.session.rules.strategy import name_of

DEPTHS: Final[Mapping[str, int | str]] = {TRANSIENT: -1, INVALID_OUTPUT: -1, TOOL_ERROR: -1, NO_PROGRESS: 0}
"""How far back another strategy begins: the newest restore point; of a run that goes in circles, the re-entry point."""


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """What is done about failures. Given to an agent: `@perdure.agent(failures=FailurePolicy(…))`."""

    after: int = 3
    """So many consecutive failures are too many: then the next strategy is tried."""

    strategies: tuple[Any, ...] = ()
    """The ways to try, in order: names, `perdure.Strategy` with settings, or whatever can be stored.

    `s.strategy` tells the code which one it is."""

    retries: int = 4
    """How often an action that failed for a passing reason (network, rate limit, time-out) is tried again at once."""

    backoff_s: float = 1.0
    """Seconds before something transient is tried again: at first, then twice as long each time, and some by chance."""

    rollback_to: Mapping[str, int | str] = field(default_factory=lambda: dict(DEPTHS))
    """Where the next strategy begins, by kind of failure: a checkpoint's name, -1 (the newest restore point) or 0."""

    rollbacks: int = 10
    """At most so many rollbacks of a session are this policy's."""

    within_s: float | None = None
    """For how long it may fail, from the first of the consecutive failures on; None for as long as it takes."""

    budget: Mapping[str, float] = field(default_factory=dict)
    """How much may be spent, by unit (`usd`, `tokens`), over all branches of the session."""

    scope: str = ACTION
    """What ends a row of failures: that action succeeds (`action`), any does (`run`), a new strategy (`session`)."""

    kinds: Mapping[str, str] = field(default_factory=dict)
    """The kind of errors, by the name of their class: before what is known by itself."""

    classify: Callable[[BaseException], str | None] | None = None
    """Tells the kind of an error; None to leave it to `kinds` and what is known by itself."""

    chooser: Callable[[Failed], Choice] | None = None
    """Chooses instead of this policy."""

    def __post_init__(self) -> None:
        numbers = {"after": self.after, "retries": self.retries, "rollbacks": self.rollbacks}
        for name, number in numbers.items():
            if number < (name == "after"):
                raise RefusedError(f"{name}={number!r}: it is a number from {int(name == 'after')} on")
        if not self.backoff_s >= 0:
            raise RefusedError(f"backoff_s={self.backoff_s!r}: it is a number of seconds from 0 on")
        names = [name_of(strategy) for strategy in self.strategies]
        if double := [name for at, name in enumerate(names) if name in names[:at]]:
            raise RefusedError(f"strategies: {double[0]!r} is there twice; give each way a name of its own")
        if self.scope not in (ACTION, RUN, SESSION):
            raise RefusedError(f"scope={self.scope!r}: it is '{ACTION}', '{RUN}' or '{SESSION}'")
        if unknown := [kind for kind in (*self.rollback_to, *self.kinds.values()) if kind not in KINDS]:
            raise RefusedError(f"{unknown[0]!r} is no kind of failure; there are: {', '.join(KINDS)}")
        if self.within_s is not None and not self.within_s > 0:
            raise RefusedError(f"within_s={self.within_s!r}: it is a number of seconds above 0, or None")
        if wrong := [unit for unit, most in self.budget.items() if not most >= 0]:
            raise RefusedError(f"budget: {wrong[0]}={self.budget[wrong[0]]!r}: it is a number from 0 on")

    def first(self) -> Any:
        """The strategy that is tried first."""
        return self.strategies[0] if self.strategies else None

    def kind(self, error: BaseException, *, of_action: bool) -> str:
        """The kind of an error."""
        told = self.classify(error) if self.classify else None
        if told is not None and told not in KINDS:
            raise RefusedError(f"classify told {told!r}; kinds of failure are: {', '.join(KINDS)}")
        named = next((self.kinds[cls.__name__] for cls in type(error).__mro__ if cls.__name__ in self.kinds), None)
        return told or named or error_kinds.kind_of(error, of_action=of_action)

    def tries(self, kind: str) -> int:
        """How often an action that failed so is tried again at once."""
        return self.retries if kind == TRANSIENT else 0

    def wait_s(self, error: BaseException) -> float:
        """How long the server asked to be left alone."""
        return error_kinds.retry_after_s(error)

    def choose(self, failed: Failed) -> Choice:
        """What is to be done now."""
        return (self.chooser or self.chosen)(failed)

    def chosen(self, failed: Failed) -> Choice:
        """What this policy chooses by itself; a `chooser` may go on from it."""
        failure, course = failed.course.last, failed.course
        if failure is None:
            raise ValueError("nothing has failed")
        told = f"{failure.action or 'the agent'} failed ({failure.kind}): {failure.error}"
        if failure.kind == FATAL:
            return Choice(GIVE_UP, reason=f"{told}. Nothing would help")
        if self.within_s is not None and failed.now_us - course.streak_us > self.within_s * 1e6:
            return Choice(GIVE_UP, reason=f"{told}. It has failed for longer than {self.within_s:g} s")
        if course.failures < self.after and failure.kind != NO_PROGRESS:
            if failure.action:
                pause_s = backoff_s(course.failures, first_s=self.backoff_s) if failure.kind == TRANSIENT else 0.0
                return Choice(AGAIN, reason=told, wait_s=max(failure.wait_s, pause_s))
            return self._back(failed, Choice(BACK, reason=told), deeper=course.failures)
        return self._next(failed, f"{told}. That was {course.failures} in a row")

    def _next(self, failed: Failed, told: str) -> Choice:
        tried = [name_of(strategy) for strategy in (*self.strategies[:1], *failed.course.strategies)]
        left = [strategy for strategy in self.strategies if name_of(strategy) not in tried]
        if not left:
            return Choice(GIVE_UP, reason=f"{told}, and every strategy was tried" if self.strategies else told)
        return self._back(failed, Choice(NEXT, strategy=left[0], reason=f"{told}; trying {name_of(left[0])!r}"))

    def _back(self, failed: Failed, choice: Choice, *, deeper: int = 1) -> Choice:
        """With the place to go back to: of a named point that is not there, the re-entry point."""
        if sum(one.do in (BACK, NEXT) for one in failed.course.choices) >= self.rollbacks:
            return Choice(GIVE_UP, reason=f"{choice.reason}, and it was rolled back {self.rollbacks} times")
        kind = failed.course.last.kind if failed.course.last else TOOL_ERROR
        to = self.rollback_to.get(kind, DEPTHS.get(kind, 0))
        if isinstance(to, str):
            known = any(point.name == to for point in (*failed.candidates, *failed.checkpoints))
            return replace(choice, to=to if known else 0)
        newest = failed.candidates[:-1][deeper - 1 :] if to == -1 else ()
        return replace(choice, to=newest[0].seq if newest else 0)
