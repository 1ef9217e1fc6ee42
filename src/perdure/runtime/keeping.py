"""A store as those see it who look after it: what is old goes, what is to be forgotten is forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure import limits
from perdure.errors import PerdureError, RefusedError
from perdure.runtime import kin
from perdure.session.table import Table
from perdure.stores.ids import check_session_id
from perdure.values import Secret
from perdure.values.tokens import MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.ops.config.settings import Settings
    from perdure.ops.doctor import Diagnosis
    from perdure.ops.erasure import Erased, Erasure
    from perdure.ops.going_on import GoneOn
    from perdure.ops.gone import GcReport
    from perdure.ops.journal.mirroring import Mirroring
    from perdure.ops.rekey import Rekeyed
    from perdure.ops.restored import Accepted
    from perdure.ops.retention import Retention
    from perdure.ops.scrubbing import Scrubbed, ScrubReport
    from perdure.runtime.editing import Changes
    from perdure.runtime.migrating import Migrated, Migration
    from perdure.runtime.schedule import Schedule
    from perdure.session.keeping.lease import Keeper
    from perdure.stores.contract import Store as Backend


class Keeping:
    """The part of `AgentStore` that keeps house."""

    backend: Backend
    keeper: Keeper
    mirror: Mirroring | None = None
    """The mirror of the journal, if it was asked for: `state` says how it stands, `flush` waits for it."""
    _lease_s: float

    if TYPE_CHECKING:

        @property
        def _owner(self) -> str: ...

        @property
        def settings(self) -> Settings: ...  # noqa: D102 - told in AgentStore

    def gc(
        self,
        session: str | None = None,
        retention: Retention | None = None,
        *,
        keep_last: int | None = None,
        keep_s: float | None = None,
        dry_run: bool = True,
    ) -> GcReport:
        """Drops old snapshots, and what only they needed: of one session, or of all that nobody holds.

        What the `retention` says stays, without one what was configured, else the newest `limits.KEEP_LAST_COUNT`
        restore points; `keep_last` and `keep_s` are short for one that says these. Checkpoints, and whatever a resume,
        a rollback to a point that stays, a fork, a key or a person may still need, stay always. A dry run changes
        nothing and tells what would go. Durable on return; killed anywhere, it is just done again. Raises
        `RefusedError` for a retention that makes no sense here, `SessionUnknownError`, `SessionErasedError`.
        """
        from perdure.ops.gc import gc
        from perdure.ops.overdue import note_by_hand
        from perdure.ops.retention import Retention

        if (retention, keep_last, keep_s) == (None, None, None) and self.settings.retention is not None:
            retention = self.settings.retention.policy(whole=session is None)
        if retention is None:
            retention = Retention(keep_last=limits.KEEP_LAST_COUNT if keep_last is None else keep_last, keep_s=keep_s)
        elif (keep_last, keep_s) != (None, None):
            raise RefusedError("keep_last and keep_s are short for a Retention: say them in the one that is given")
        found = gc(self.backend, None if session is None else check_session_id(session), retention, dry_run=dry_run)
        if session is None and not dry_run and self.settings.retention is not None:
            note_by_hand(self.backend, found.bytes)
        return found

    def schedule_gc(
        self,
        cron: str,
        retention: Retention,
        *,
        zone: str = "UTC",
        on_done: Callable[[GcReport], object] | None = None,
        on_error: Callable[[PerdureError], object] | None = None,
    ) -> Schedule:
        """Does `gc` by a timetable in the syntax of cron (`"0 3 * * *"`), in a thread, until it is closed.

        `zone` is the time zone of the timetable, as the IANA names it. Of several processes that have the same
        timetable and retention in one store, one does it; a run that all of them missed is made up for once. Errors of
        the store are logged and told to `on_error`, and it is tried again. Close it before the store. Raises
        `RefusedError` for what is no timetable or no zone, and without the extra `schedule`.
        """
        try:
            from perdure.ops.timetable import Timetable
        except ImportError as error:
            raise RefusedError("a schedule needs an extra that is not here: pip install 'perdure[schedule]'") from error
        from perdure.ops.scheduled import Job
        from perdure.runtime.schedule import Schedule

        timetable = Timetable(cron, zone).check()
        job = Job(self.keeper, self._owner, self._lease_s, timetable, retention)
        return Schedule(job, on_done=on_done, on_error=on_error)

    def rekey(self, *, data: bool = False) -> Iterator[Rekeyed]:
        """Brings a sealed store under the first of the keys it was opened with; tells of each family when it is done.

        Only the keys that each family has of its own are wrapped anew. With `data` each family gets a new one for data,
        too, and all its bodies and chunks are sealed with that, in small transactions: others may read and write
        meanwhile, and take the new one within `limits.ENVELOPE_S_MAX` seconds. Stop it when you like: done again it
        goes on. The log, its chain and what a witness knows stay as they are. Raises `KeysError` for a store that is
        not sealed.
        """
        from perdure.ops.rekey import rekey

        return rekey(self.backend, data=data)

    def erase(self, session: str, *, family: bool = False, by: str = "", reason: str = "") -> Erased:
        """Erases a session for good: no byte of it stays, and its id is refused from then on, to late writers too.

        Those that it started go before it. With `family` all sessions that are forks of it go as well; without it they
        are `HasForksError`, and nothing is erased. That it was erased is recorded before it is, with `by` and `reason`
        and a digest of its id (`erased`). Durable on return; killed anywhere, it is just done again. Raises
        `HeldError` when somebody holds one of them, `SessionUnknownError`, and `StoreFailedError` when a reader keeps
        bytes from going: then do it again.
        """
        from perdure.ops.erasure import By, Erased, erase

        gone = self._erasable(session, family=family)
        who = By(self.backend.guard.text(by, at="by"), self.backend.guard.text(reason, at="reason"))
        done = [erase(self.backend, one, family=False, by=who) for one in gone]
        if self.mirror is not None:
            self.mirror.forget(gone)
        return Erased(gone, "; ".join(one.left for one in done if one.left))

    def erased(self) -> Table[Erasure]:
        """What was erased here, the newest first: when, by whom and why, never what. Raises `DamageError`."""
        from perdure.ops.erasure import erasures

        return Table(erasures(self.backend))

    def scrub(
        self,
        text: str | Secret,
        *,
        session: str | None = None,
        mask: str = MASK,
        dry_run: bool = True,
        on_each: Callable[[Scrubbed], None] | None = None,
    ) -> ScrubReport:
        """Takes a text (or the value of a Secret) that got into the store by mistake out of all that has it, for good.

        Bodies, chunks, indexes, and what the place keeps of them, in every session that nobody holds, or in the
        family of one; `mask` stands in its place, also in the states that are restored. The chain of the records and
        the run stay. A dry run changes nothing and tells what has it. Durable on return; killed anywhere, it is just
        done again. Raises `RefusedError` for a text that is too short, `StoreFailedError` when a reader keeps bytes
        from going: then do it again.
        """
        from perdure.ops.canary import Canary
        from perdure.ops.scrubbing import scrub

        if session is not None:
            self.backend.lease(check_session_id(session))
        canary = Canary(text.reveal() if isinstance(text, Secret) else text, mask=mask)
        told = on_each or (lambda _one: None)
        return scrub(self.backend, canary, session=session, dry_run=dry_run, on_each=told)

    def would_erase(self, session: str, *, family: bool = False) -> tuple[str, ...]:
        """The sessions that `erase` would erase now, in that order. Changes nothing; raises as it does."""
        self.backend.lease(check_session_id(session))
        return self._erasable(session, family=family)

    def _erasable(self, session: str, *, family: bool) -> tuple[str, ...]:
        from perdure.ops.erasure import erasable

        mine = erasable(self.backend, check_session_id(session), family=family)
        under = [child for one in mine for child in kin.descendants(self.backend, one)]
        found = [gone for child in under for gone in erasable(self.backend, child, family=family)]
        return tuple(dict.fromkeys([*found, *mine]))

    def doctor(
        self,
        *,
        deep: bool = False,
        fix: bool = False,
        code: Callable[..., Any] | str | None = None,
        on_each: Callable[[int, int], object] | None = None,
    ) -> Diagnosis:
        """Looks the whole store over: the place, each session, leases, clocks; with `deep` every byte and every chunk.

        Without it the newest `limits.LOOK_RECORDS` records of each session are read; what was not read is told. `code`
        (a function, or "recorded": that which each session recorded) is asked whether it takes the states that are
        there; with `deep` the steps of a migration are tried on copies. `on_each` hears how many sessions are done, and
        of how many.

        `fix` mends what is safe to mend: indexes and summaries are made anew from a log that is whole, chunks that
        nothing needs go, leases of the dead are given back, unused space too. Nothing that was recorded is changed.
        Raises `RefusedError` for `code` that is neither.
        """
        from perdure.ops.doctor import doctor
        from perdure.runtime.fitting import Fits

        fits = None if code is None else Fits(self, code, steps=deep)  # type: ignore[arg-type]
        retention, told = self.settings.retention, on_each or (lambda _done, _total: None)
        return doctor(self.backend, deep=deep, fix=fix, retention=retention, fits=fits, on_each=told)

    def migrate(
        self,
        to: str,
        *,
        fn: Callable[..., Any] | None = None,
        session: str | None = None,
        prefix: str = "",
        dry_run: bool = False,
        on_each: Callable[[Migrated], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Migration:
        """Brings the states of all sessions to version `to` of their agents, or tells what that would do.

        Or only of those whose ids begin with `prefix`, or of one. `fn` is the code; without it that which each session
        recorded. Scripts, sessions that are over, and those of another function than `fn` are left as they are; so are
        those that somebody holds, and those that fail, which is told. `on_each` hears of each as it is done; `stop` is
        asked before each. Each is durable by itself: stopped or killed, it is just done again. Raises
        `StoreFailedError`, and for one session that is named `SessionUnknownError`.
        """
        from perdure.runtime.migrating import migrate

        return migrate(
            self,  # type: ignore[arg-type]
            to,
            fn=fn,
            session=None if session is None else check_session_id(session),
            prefix=prefix,
            dry_run=dry_run,
            on_each=on_each or (lambda _: None),
            stop=stop or (lambda: False),
        )

    def accept_restored(self, reason: str, *, by: str = "operator") -> Accepted:
        """Accepts that the store was put back to an older copy of itself, on the record. Durable on return.

        Begins a new incarnation of the store, so that no epoch is given a second time: whoever still writes as before
        is fenced. Each session's log has a note with the reason; the witness is told how they stand now, and which are
        lost. What was erased since is erased again. A session that is damaged, or held for long, is left as it is and
        named. Killed anywhere, it is just done again. Raises `RefusedError` without a reason.
        """
        from perdure.ops.restored import accept

        return accept(self.backend, reason=reason, by=by, owner=self._owner, lease_s=self._lease_s)

    def edit(
        self,
        session: str,
        changes: Changes,
        *,
        by: str = "operator",
        reason: str = "",
        branch: str | None = None,
        fn: Callable[..., Any] | None = None,
    ) -> int:
        """Changes the state from which the code of a session goes on, that nobody runs. The record that says so.

        `changes` are values by path (`{"plan.steps[0].done": True}`), or operations as `perdure.patch` takes them. What
        was recorded since the re-entry point is still answered. With `branch` a branch of that name begins there.
        With `fn`, the code, the new state is checked as it declares (`state=`, `validate=`). Durable on return.
        Raises `RefusedError` for a script, one that is over, or a change that does not fit; `UnstorableError`; and
        `HeldError` for one that somebody runs: pause it first.
        """
        from perdure.runtime import editing

        return editing.edit(self, session, changes, by=by, reason=reason, name=branch, fn=fn)  # type: ignore[arg-type]

    def go_on(self, session: str, *, into: str, by: str = "operator") -> GoneOn:
        """Makes a new session of what is good of a damaged one, as a restore does. Durable on return.

        The damaged session stays as it is, and is cancelled should it ever be opened again. The new one asks before
        the like of what that did later runs again (`standing` of the answer), and about what may be in records that
        cannot be read (`lost`). Raises `RefusedError` if the session is not damaged,
        `DamageError` if not even its opening is good, `SessionExistsError`.
        """
        from perdure.ops.going_on import go_on

        return go_on(self.backend, check_session_id(session), check_session_id(into), by=by)
