"""What is done about a failure, in one open session: the policy is asked, its choice recorded and followed.

It knows how a choice is carried out, and not how it is made: that is the policy's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from perdure import clock
from perdure.errors import BudgetError, RolledBack, Stopped
from perdure.log import choices, points
from perdure.log.action import Actions
from perdure.log.branch import branch, is_reentry, is_restore_point
from perdure.log.choices import AGAIN, BACK, BY, GIVE_UP, NEXT, Choice, Course, Failure, Row
from perdure.session.rules.attempt import cut_short_us
from perdure.session.rules.request import AwaitTime, Draft, Steps
from perdure.session.rules.status import status
from perdure.session.rules.strategy import declared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perdure.log.action import Action, Outcome
    from perdure.log.entry import Entry
    from perdure.session.rules.points import Core


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point that can be gone back to.

    `actions` is how many would be left behind: `undone` of them would be undone, `standing` have an effect that would
    stand, and all of them have cost `cost`, by unit. `time_us` is when the point was made.
    """

    seq: int
    name: str
    actions: int
    standing: int
    undone: int
    cost: Mapping[str, float]
    time_us: int


@dataclass(frozen=True, slots=True)
class Failed:
    """What a policy is told when it is asked.

    `form` is script or steps; `strategy` the one that is being tried; `course` how the session has fared so far, the
    failure last; `candidates` the points of the present branch, the newest first, the re-entry point last;
    `checkpoints` those before it that have a name, of earlier steps, the newest first.
    """

    form: str
    strategy: Any
    course: Course
    candidates: tuple[Candidate, ...]
    now_us: int
    checkpoints: tuple[Candidate, ...] = ()


class Policy(Protocol):
    """What decides about failures."""

    @property
    def scope(self) -> str:
        """Which failures are consecutive."""

    @property
    def after(self) -> int:
        """How many consecutive failures of one action are too many."""

    @property
    def budget(self) -> Mapping[str, float]:
        """How much may be spent, by unit."""

    @property
    def within_s(self) -> float | None:
        """For how long it may fail."""

    @property
    def strategies(self) -> tuple[Any, ...]:
        """The ways to try."""

    def first(self) -> Any:
        """The strategy that is tried first; None if there is none."""

    def kind(self, error: BaseException, *, of_action: bool) -> str:
        """The class of an error."""

    @property
    def backoff_s(self) -> float:
        """How long the first wait is before something transient is tried again."""

    def tries(self, kind: str) -> int:
        """How often an action is tried again at once that failed so."""

    def wait_s(self, error: BaseException) -> float:
        """How long whoever was asked wants to be left alone."""

    def choose(self, failed: Failed) -> Choice:
        """What is to be done."""


class Found(Protocol):
    """What shows that a run goes in circles: in words, and its newest record."""

    @property
    def last(self) -> int:
        """The record of the newest call that counts."""


class Reading(Protocol):
    """Who reads along whether the run gets on."""

    @property
    def pending(self) -> Found | None:
        """What was found and not acted upon yet: a fold over the log."""


class Failing:
    """The failures of one open session. Without a policy nothing is done about them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.policy: Policy | None = None
        self.progress: Reading | None = None
        self._course = Course()
        self._tail: list[Entry] = []
        self._has_failed = False
        """Whether any action of this entry, or before it, ended with an error."""

    def begin(self, policy: Policy | None) -> None:
        """With this policy from now on."""
        self.policy = policy
        if policy is not None:
            self._course = Course(policy.scope)

    def enter(self, tail: list[Entry]) -> None:
        """The code is entered, with these records to be answered from."""
        self._tail = tail
        self._has_failed = any(entry.kind == "action_finished" and entry["how"] == "error" for entry in tail)

    def course(self) -> Steps:
        """How the session has fared so far."""
        entries = yield from self._core.whole()
        return self._course.take(entries[bisect_right(entries, self._course.taken, key=lambda entry: entry.seq) :])

    def strategy(self, found: Any) -> Any:
        """The strategy of this place: `found`, or the declared one of that name, else the one that is tried first."""
        if self.policy is None:
            return found
        return self.policy.first() if found is None else declared(self.policy.strategies, found)

    def before_call(self) -> Steps:
        """An action is about to begin: leaves the run if it may not, be it the code's own or one inside of another."""
        yield from self._check_budget()
        if self.policy is not None and self._core.stack and self._has_failed:
            yield from self._check_inner()

    def _check_budget(self) -> Steps:
        """Leaves the run, as failed, before an action that may not be paid any more."""
        if self.policy is None or not self.policy.budget:
            return
        spent = (yield from self.course()).spent
        for unit, most in self.policy.budget.items():
            if spent[unit] >= most:
                over = BudgetError(
                    f"{spent[unit]:g} of {most:g} {unit} are spent; nothing more is called. Raise the budget and "
                    "resume, or cancel the session"
                )
                raise self._core.leave(Stopped(str(over), status="failed")) from over

    def first_wait_s(self, action: Action, *, declared_s: float) -> float:
        """How long the first wait is before this action is tried again, which failed."""
        is_transient = action.outcome is not None and _kind(action.outcome) == choices.TRANSIENT
        return max(declared_s, self.policy.backoff_s) if self.policy and is_transient else declared_s

    def after_call(self, outcome: Outcome, live: BaseException | None) -> Steps:
        """An action of the agent's own code failed: too often, and the code does not get to see it."""
        failed = outcome.how == "error" and cut_short_us(outcome) is None
        self._has_failed = self._has_failed or failed
        if self.policy is None or not failed or live is None or self._core.stack:
            return
        course = yield from self.course()
        if course.is_open and course.failures >= self.policy.after:
            yield from self._follow((yield from self._chosen()), live)

    def _check_inner(self) -> Steps:
        """What is inside of an action failed too often, or it has failed for too long."""
        course = yield from self.course()
        row, policy, now_us = course.inner.get(self._core.stack[0]), self.policy, clock.now_us()
        since_us = [row.since_us] if row else []
        since_us += [course.streak_us] if course.failures else []
        assert policy is not None  # noqa: S101 - asked only with one
        is_late = policy.within_s is not None and any(now_us - at_us > policy.within_s * 1e6 for at_us in since_us)
        if row is None and course.last is not None:
            row = Row(course.last, course.streak_us)
        if row is not None and (is_late or row.most >= policy.after):
            yield from self._failed_inside(course, row, now_us=now_us)

    def _failed_inside(self, course: Course, row: Row, *, now_us: int = 0) -> Steps:
        asked = deepcopy(course)
        asked.failed_inside(row)
        choice = yield from self._chosen(asked, now_us=now_us)
        yield from self._follow(choice, None, failure=row.last, course=asked)

    def check_progress(self) -> Steps:
        """The run goes in circles: a failure, and what the code got last it does not get to see."""
        found = self.progress.pending if self.progress and self.policy and not self._core.stack else None
        if found is None or self._core.leaving is not None:
            return
        course, entries = (yield from self.course()), (yield from self._core.whole())
        failure = Failure(found.last, choices.NO_PROGRESS, "", f"it goes in circles: {found}", entries[-1].time_us)
        asked = deepcopy(course)
        asked.failed(failure)
        yield from self._follow((yield from self._chosen(asked)), None, failure=failure, course=asked)

    def judge(self, error: BaseException | None) -> Steps:
        """An error ended the run, and that is recorded; or (None) the code is about to be entered.

        Returns when nothing is to be done.
        """
        if self.policy is None:
            return
        if error is None:
            yield from self._at_entry()
            return
        self._core.leaving = None  # its calls have ended
        course = yield from self.course()
        if course.is_open:
            yield from self._follow((yield from self._chosen()), error)

    def _at_entry(self) -> Steps:
        """Whoever had the session before was killed before he could choose."""
        yield from self.check_progress()
        if (left_s := _wait_left_s(self._tail)) > 0:
            yield AwaitTime(left_s)
        if self.policy is None or not self._has_failed:
            return
        course = yield from self.course()
        if _ends_failed(self._tail) and course.is_open and course.failures >= self.policy.after:
            yield from self._follow((yield from self._chosen()), None)
        for row in [row for row in course.inner.values() if row.most >= self.policy.after]:
            yield from self._failed_inside(course, row)

    def _chosen(self, course: Course | None = None, *, now_us: int = 0) -> Steps:
        policy, course = self.policy, course or (yield from self.course())
        assert policy is not None  # noqa: S101 - asked only with one
        entries = yield from self._core.whole()
        strategy = self.strategy(course.strategies[-1] if course.strategies else None)
        now_us = now_us or entries[-1].time_us
        here, before = candidates(entries)
        return policy.choose(Failed(self._core.form, strategy, course, here, now_us, before))

    def _follow(
        self,
        choice: Choice,
        error: BaseException | None,
        *,
        failure: Failure | None = None,
        course: Course | None = None,
    ) -> Steps:
        """`failure` is one that no record before tells of, and `course` then the one with it."""
        core, course = self._core, course or (yield from self.course())
        choice = replace(choice, failures=course.failures)
        note = Draft("note", choices.body(choice, failure=failure))
        if choice.do in (BACK, NEXT):
            told = (note,)
            given, back = choice.strategy, choice.to
            yield from core.rollback(back, reason=choice.reason, by=BY, strategy=given, told=told, from_inside=True)
        elif choice.do == AGAIN:
            yield from core.commit(note, status("running"))
            if choice.wait_s:
                yield AwaitTime(choice.wait_s)
            raise core.leave(RolledBack())
        elif choice.do == GIVE_UP:
            yield from core.commit(note, status("failed", reason=choice.reason))
            raise core.leave(Stopped(choice.reason, status="failed", recorded=True)) from error
        else:
            raise ValueError(f"a policy chooses again, back, next or give up, not {choice.do!r}")


def candidates(entries: list[Entry]) -> tuple[tuple[Candidate, ...], tuple[Candidate, ...]]:
    """The points to go back to on the present branch: from the re-entry point on, and earlier ones with a name.

    The newest of each first; the re-entry point is the last of its own.
    """
    tip, named = branch(entries), {seq: name for name, seq in points.names(entries).items()}
    actions = [action for action in Actions(tip).values() if action.undoes is None]
    reentry = next(entry for entry in reversed(tip) if is_reentry(entry))
    there = [entry for entry in reversed(tip) if is_restore_point(entry) and entry.seq != reentry.seq]
    here = [point for point in there if point.seq > reentry.seq]
    before = [point for point in there if point.seq < reentry.seq and point.seq in named]

    def told(points: Iterable[Entry]) -> tuple[Candidate, ...]:
        return tuple(_candidate(point, named.get(point.seq, ""), actions) for point in points)

    return told([*here, reentry]), told(before)


def _candidate(point: Entry, name: str, actions: list[Action]) -> Candidate:
    left = [action for action in actions if action.seq > point.seq]
    standing = [a for a in left if a.effect != "repeatable" and a.standing and not a.undo]
    undone = sum(a.undo is not None and a.standing for a in left)
    cost = Counter[str]()
    for action in left:
        cost.update((action.outcome and action.outcome.cost) or {})
    return Candidate(point.seq, name, len(left), len(standing), undone, dict(cost), point.time_us)


def _kind(outcome: Outcome) -> str:
    """The kind of the error that an action ended with; no text for any other end."""
    return str(outcome.value.get("kind", "")) if outcome.how == "error" else ""


def _wait_left_s(tail: list[Entry]) -> float:
    """How much is left of a wait in which the process ended that chose it."""
    newest = next((e for e in reversed(tail) if e.kind in ("note", "action_started")), None)
    if newest is None or newest.body.get("do") != AGAIN:
        return 0.0
    wait_s = float(newest.body.get("wait_s", 0.0))
    return min(wait_s, wait_s - (clock.now_us() - newest.time_us) / 1e6)


def _ends_failed(tail: list[Entry]) -> bool:
    """Whether the newest that is told of any action is that it failed."""
    newest = next((e for e in reversed(tail) if e.kind in ("action_finished", "status")), None)
    if newest is None:
        return False
    return bool(newest["how"] == "error" if newest.kind == "action_finished" else newest["status"] == "failed")
