"""The ladder, climbed down for one run: what stands in the way of an opening is told to it, and it is opened again.

It does what `recovery/ladder.py` finds: goes back on a log that can be read, or lets another session go on in the place
of one that cannot. What is only in the way of a moment (somebody holds it, a newer format, a wrong key) it leaves as it
is.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.errors import (
    DamageError,
    FormatNewerError,
    HeldError,
    HookFailedError,
    MigrationError,
    RefusedError,
    RestoreError,
    SuspendedError,
    UnfinishedError,
    WitnessError,
)
from perdure.recovery.restore_policy import AT, BY, EXACT, FRESH_START, LATEST_VALID, RestorePolicy, restore_policy
from perdure.runtime.outcome import Outcome
from perdure.session.keeping.lease import new_owner
from perdure.session.keeping.opening import append_one, find
from perdure.session.restored import PARTIAL, REBUILT, REPLACED, RESTORED, Report
from perdure.session.rules.status import OVER, status
from perdure.session.waiting import in_thread
from perdure.stores.observing import Judged

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from perdure.recovery.ladder import Rung
    from perdure.runtime.handles import Handles
    from perdure.runtime.runner import Ready
    from perdure.session.declare import Agent
    from perdure.session.keeping.opening import Opening

T = TypeVar("T")

EXACTLY = RestorePolicy(EXACT)
"""That of handles and of children, unless they say otherwise: their caller knows them by their id."""


def policy_of(given: Any, declared: Any, default: RestorePolicy | None = None) -> RestorePolicy:
    """The policy of a run: what it was given, else what its agent declares, else the default of the store.

    Raises `RefusedError` for what is none, and for `at` where it would hold for each run.
    """
    if given is not None:
        return _policy(given)
    found = _policy(declared) if declared is not None else default or RestorePolicy()
    if found.use == AT:
        raise RefusedError("restore: use='at' goes back each time; give it to one run: store.run(…, restore='at:17')")
    return found


def _policy(given: Any) -> RestorePolicy:
    if isinstance(given, str):
        return restore_policy(given)
    if not isinstance(given, RestorePolicy):
        raise RefusedError(f"restore={given!r}: it is a RestorePolicy, or text such as 'exact' or 'at:17'")
    return given


def hooked(opening: Opening, declared: Agent, policy: RestorePolicy, *, given: Any) -> Opening:
    """The opening of code that has hooks: their attempts are counted. One that was told what to restore begins anew."""
    if declared.hooks is None:
        return opening
    return replace(opening, attempts_max=policy.max_recovery_attempts, is_told=given is not None)


def ready_of(declared: Agent, policy: RestorePolicy, *, is_async: bool) -> Callable[[Any], Ready] | None:
    """What calls the hooks of an agent, for one opening; None if it has none. Raises `RefusedError`."""
    if declared.hooks is None:
        return None
    from perdure.recovery.hooks import Hooks
    from perdure.recovery.readying import Readying

    if not isinstance(declared.hooks, Hooks):
        raise RefusedError(f"hooks={declared.hooks!r}: it is a perdure.recovery.Hooks")
    return Readying(declared.hooks, policy, is_async=is_async).course


def handle_of(opened: T | Outcome) -> T:
    """The handle that was opened. Raises `SuspendedError` where a restore must wait for a person first."""
    if isinstance(opened, Outcome):
        raise SuspendedError(f"the session waits {opened.reason}", tuple(question.seq for question in opened.questions))
    return opened


class Climb:
    """The restore of one run. `opening` is what is opened next."""

    def __init__(self, store: Handles, opening: Opening, policy: RestorePolicy) -> None:
        self.opening = opening
        self._store, self._policy, self._tries = store, policy, 0

    def run(self, once: Callable[[Opening], T]) -> T | Outcome:
        """What comes of it, as soon as it can be opened. Raises what stood in the way, where nothing helps."""
        if (waits := self._begin()) is not None:
            return waits
        while True:
            try:
                outcome = once(self.opening)
                if not self._is_gone_on_from(outcome):
                    return outcome
            except (DamageError, MigrationError) as error:
                if (waits := self._after(error)) is not None:
                    return waits
            except HookFailedError as error:
                self._give_up(error)
                raise

    async def arun(self, once: Callable[[Opening], Awaitable[T]]) -> T | Outcome:
        """The same, awaited."""
        if self._policy.use == AT and (waits := await in_thread(self._begin)) is not None:
            return waits
        while True:
            try:
                outcome = await once(self.opening)
                if not await in_thread(self._is_gone_on_from, outcome):
                    return outcome
                continue
            except (DamageError, MigrationError) as raised:
                error = raised
            except HookFailedError as gave_up:
                await in_thread(self._give_up, gave_up)
                raise
            if (waits := await in_thread(self._after, error)) is not None:
                return waits

    # --- the point that was asked for -------------------------------------------------------------------------------

    def _begin(self) -> Outcome | None:
        """Goes back to the point that the run was given, unless the session is there already."""
        if self._policy.use != AT:
            return None
        from perdure.recovery.going_back import target_of

        session, at = self.opening.session, self._policy.at
        if find(self._store.backend, session) is None:
            raise RestoreError(f"{session} is new: there is no point {at!r} to restore")
        target = target_of(self._store.backend, session, at)
        if target is None:
            return None
        return self._back(target, reason=f"asked for {at!r}", report=Report("at", f"asked for {at!r}"))

    def _back(self, to: int, *, reason: str, report: Report, head: int | None = None) -> Outcome | None:
        from perdure.recovery.going_back import go_back
        from perdure.session.keeping.opening import opened_by

        with self._held() as lease:
            opened = opened_by(self._store.backend, lease)
            if head not in (None, opened.writer.head):
                return None  # somebody went on meanwhile: it is opened once more
            waits = go_back(opened, to, reason=reason, report=report)
        self._reported(report)
        if not waits:
            return None
        questions = self._store.questions(self.opening.session)
        return Outcome("waiting", questions=questions, reason=f"before it goes back to #{to}: {reason}")

    def _give_up(self, error: HookFailedError) -> None:
        """The attempts are used up: that is the status, for people and listings. Whoever holds it says it himself."""
        backend, session = self._store.backend, self.opening.session
        summary = find(backend, session)
        if self.opening.form == "handle" or summary is None or summary.status in ("failed", *OVER):
            return
        with contextlib.suppress(HeldError):
            append_one(
                self._store.keeper,
                session,
                status("failed", reason=f"{error.code}: {error}"),
                owner=new_owner(),
                lease_s=self.opening.lease_s,
            )

    # --- what stood in the way ----------------------------------------------------------------------------------------

    def _after(self, error: DamageError | MigrationError) -> Outcome | None:
        """Does what helps against it; raises it where nothing does."""
        if isinstance(error, FormatNewerError | UnfinishedError | WitnessError):
            raise error
        if self._policy.use not in (LATEST_VALID, FRESH_START):
            raise error
        if isinstance(error, MigrationError) and not self._policy.back_for_migration:
            raise error
        self._tries += 1
        if self._tries > self._policy.max_recovery_attempts:
            raise RestoreError(f"{self.opening.session}: given up after {self._tries - 1} attempts: {error}") from error
        return self._climb(error)

    def _climb(self, error: DamageError | MigrationError) -> Outcome | None:
        from perdure.recovery.replacement import replacement

        if isinstance(error, DamageError) and (there := replacement(self._store.backend, self.opening.session)):
            self._instead(there)
            return None
        found = self._rung(error)
        if found is None:
            raise error
        return self._done(found, error)

    def _rung(self, error: DamageError | MigrationError | None) -> Rung | None:
        from perdure.recovery import ladder
        from perdure.recovery.migrating_back import check_of

        check = check_of(self.opening.target) if isinstance(error, MigrationError) else None
        return ladder.rung(self._store.backend, self.opening.session, self._policy, check=check)

    def _done(self, found: Rung, error: DamageError | MigrationError) -> Outcome | None:
        report = found.report
        if report.rung == REPLACED:
            self._replace(error)
            return None
        if report.rung == REBUILT:
            from perdure.recovery.rebuild import rebuild

            rebuild(self._store.backend, self.opening.session)
            self._reported(report)
            return None
        if report.rung == PARTIAL:
            from perdure.recovery.going_back import go_on_without
            from perdure.session.keeping.opening import opened_by

            with self._held() as lease:
                opened = opened_by(self._store.backend, lease)
                if opened.writer.head != found.head:
                    return None
                go_on_without(opened, reason=report.why, report=report)
            self._reported(report)
            return None
        return self._back(found.at, reason=report.why, report=report, head=found.head)

    def _reported(self, report: Report) -> None:
        """The opening that follows records it, and who looks on is told."""
        self.opening = replace(self.opening, restored=report.body())
        if (observers := self._store.backend.observers) is not None:
            observers.tell(Judged(self.opening.session, RESTORED, report.why, report.body()))

    def _is_gone_on_from(self, outcome: Any) -> bool:
        """Whether it was cancelled because another session goes on in its place; that one is opened next then."""
        if getattr(outcome, "status", "") != "cancelled" or self._policy.use not in (LATEST_VALID, FRESH_START):
            return False
        from perdure.recovery import ladder
        from perdure.recovery.replacement import replace, replacement
        from perdure.session.keeping.succession import is_fenced, next_id

        session, backend = self.opening.session, self._store.backend
        if not is_fenced(session, outcome.reason):
            return False
        with self._held():
            there = replacement(backend, session)
            if not there:  # killed in between
                found = self._rung(None)
                if found is None or found.report.rung != REPLACED:
                    found = ladder.before_the_end(backend, session)
                replace(backend, session, next_id(session), found, by=BY)
        self._instead(next_id(session))
        return True

    def _replace(self, error: DamageError | MigrationError) -> None:
        """Another session goes on in the place of this one; looked at once more, now that nobody else can write."""
        from perdure.recovery.replacement import replace, replacement
        from perdure.session.keeping.succession import next_id, replaced_by

        session, backend = self.opening.session, self._store.backend
        if self.opening.parent is not None:
            raise error
        into = next_id(session)
        if (other := replaced_by(backend, session)) not in ("", into):
            raise DamageError(f"{error}. {other} goes on in its place: run that") from error
        with self._held():
            there, found = replacement(backend, session), self._rung(error)
            if not there:
                if found is None or found.report.rung != REPLACED:
                    raise error
                replace(backend, session, into, found, by=BY)
        self._instead(into)
        if not there and found is not None:
            self._reported(found.report)

    def _instead(self, session: str) -> None:
        self.opening = replace(self.opening, session=session, create=False, restored={})

    def _held(self) -> Any:
        return self._store.keeper.briefly(self.opening.session, owner=new_owner(), lease_s=self.opening.lease_s)
