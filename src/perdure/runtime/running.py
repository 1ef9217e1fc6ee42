"""A store as those see it who run agents in it: functions brought to their end.

In a thread and in an event loop alike; what is looked at and decided elsewhere is in `store.py`.
"""

from __future__ import annotations

import functools
import logging
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure import limits
from perdure.errors import DamageError, EntryError
from perdure.recovery import restore
from perdure.runtime import entry as entries
from perdure.runtime import runner, watching
from perdure.runtime.handles import Handles
from perdure.runtime.outcome import Outcome
from perdure.runtime.restoring import EXACTLY, Climb, hooked, policy_of, ready_of
from perdure.runtime.signals import stopping_on_signals
from perdure.runtime.stopping import Open, Stopping
from perdure.session.declare import Agent, agent_of, undos_of
from perdure.session.keeping.delivery import deliver
from perdure.session.keeping.lease import Keeper, new_owner
from perdure.session.keeping.migration import name_of
from perdure.session.keeping.opening import NO_INPUT, Opening, Over, find, opening_of, result_of
from perdure.session.keeping.snapshot import Reader
from perdure.session.keeping.succession import is_fenced
from perdure.session.rules.status import OVER
from perdure.session.rules.version import Target
from perdure.session.waiting import in_thread
from perdure.stores import refusals
from perdure.stores.ids import check_session_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from perdure.ops.config.settings import Settings
    from perdure.recovery.restore_policy import RestorePolicy
    from perdure.runtime.aio import AsyncStore
    from perdure.session.face import Face
    from perdure.session.rules.children import Spawned
    from perdure.stores.contract import Store as Backend

_log = logging.getLogger(__name__)

Around: TypeAlias = "Callable[[Face], AbstractContextManager[None]]"
"""What is done around a run, with its session."""


class Running(Handles, watching.Watching, Stopping):
    """The part of `AgentStore` that runs code in sessions."""

    configured: Settings | None = None
    """What was configured; None: nothing."""

    def __init__(self, backend: Backend, *, lease_s: float = limits.LEASE_S) -> None:
        self.backend, self._lease_s = backend, lease_s
        self.keeper = Keeper(backend, lease_s=lease_s)
        self._open_here = Open()
        self._named: dict[str, str] = {}

    @property
    def _owner(self) -> str:
        """What this object is called as the owner of sessions; reading needs none.

        No `cached_property`: up to Python 3.11 all objects share its lock, which a fork may find taken for ever; from
        3.12 on it has none, and two threads might have two names.
        """
        return self._named.get("owner") or self._named.setdefault("owner", new_owner())

    @property
    def url(self) -> str:
        """What opens the same store again."""
        return self.backend.url

    @functools.cached_property
    def aio(self) -> AsyncStore:
        """The same, awaited: for an event loop, which none of it blocks."""
        from perdure.runtime.aio import AsyncStore

        return AsyncStore(self)  # type: ignore[arg-type]

    if TYPE_CHECKING:  # of the other parts

        def _cancel_children(self, session: str, *, reason: str, by: str) -> None: ...

    # --- functions ----------------------------------------------------------------------------------------------------

    def run(
        self,
        fn: Callable[[Any], Any],
        session: str,
        *,
        input: Any = NO_INPUT,  # noqa: A002 - the word that people use
        labels: dict[str, str] | None = None,
        wait_s: float = 0.0,
        accept_change: bool = False,
        create: bool = True,
        restore: RestorePolicy | str | None = None,
    ) -> Outcome:
        """Runs an agent's function in this session: new, or going on from where it was.

        Completed once, it returns that result for ever.

        Everything that the outcome tells of is durable. `input` is recorded at the opening; left out, the recorded one
        holds. `wait_s` is how long to wait for a session that somebody holds. `accept_change` lets changed code leave
        recorded `repeatable` calls behind. `restore` is what is done where the newest state is not good, instead of
        what the agent declares (`docs/restoring.md`). Raises `HeldError`, `InputDiffersError`, `EntryError`,
        `SessionUnknownError` (with `create=False`); an exception of the agent is `Outcome(status="failed")`.
        """
        if entries.is_async(fn):
            return runner.in_a_loop(
                self.arun(
                    fn,
                    session,
                    input=input,
                    labels=labels,
                    wait_s=wait_s,
                    accept_change=accept_change,
                    create=create,
                    restore=restore,
                ),
                instead="store.arun(...)",
            )
        opening = self._to_run(
            fn, session, input, labels=labels or {}, wait_s=wait_s, accept_change=accept_change, create=create
        )
        policy = policy_of(restore, self._agent(fn).restore)
        return self._run(fn, hooked(opening, self._agent(fn), policy, given=restore), _stopping_on_signals, policy)

    def _run(
        self, fn: Callable[[Any], Any], opening: Opening, around: Around, policy: RestorePolicy = EXACTLY
    ) -> Outcome:
        return Climb(self, opening, policy).run(lambda now: self._run_once(fn, now, around, policy))

    def _run_once(self, fn: Callable[[Any], Any], opening: Opening, around: Around, policy: RestorePolicy) -> Outcome:
        if (outcome := self._completed(opening)) is not None:
            return outcome
        try:
            opened = self._open(opening, self._agent(fn), undos_of(fn))
        except Over:  # while this one waited for it
            return self._run_once(fn, opening, around, policy)
        try:
            with (
                watching.Run(self.backend, opening) as run,
                around(opened),
                restore.offered(self.backend, opening.session),
            ):
                ready = ready_of(self._agent(fn), policy, is_async=False)
                outcome = run.comes_to(runner.drive(opened, fn, steps=opening.form == "steps", ready=ready))
                self._end_children(opened, outcome)
        except BaseException as error:
            _forget_children(opened, error)
            raise
        finally:
            opened.close()
            self._after_run(fn, opened.id)
        return self._told(opened, outcome)

    async def arun(
        self,
        fn: Callable[[Any], Any],
        session: str,
        *,
        input: Any = NO_INPUT,  # noqa: A002 - the word that people use
        labels: dict[str, str] | None = None,
        wait_s: float = 0.0,
        accept_change: bool = False,
        create: bool = True,
        restore: RestorePolicy | str | None = None,
    ) -> Outcome:
        """Does what `run` does without blocking the event loop: an `async def` agent in it, any other in a thread.

        Cancelled, the run ends as an error would end it, and can be run again; then the cancellation goes on.
        """
        if not entries.is_async(fn):
            return await in_thread(
                self.run,
                fn,
                session,
                input=input,
                labels=labels,
                wait_s=wait_s,
                accept_change=accept_change,
                create=create,
                restore=restore,
            )
        opening = self._to_run(
            fn, session, input, labels=labels or {}, wait_s=wait_s, accept_change=accept_change, create=create
        )
        policy = policy_of(restore, self._agent(fn).restore)
        opening = hooked(opening, self._agent(fn), policy, given=restore)
        return await self._arun(fn, opening, _stopping_on_signals, policy)

    async def _arun(
        self, fn: Callable[[Any], Any], opening: Opening, around: Around, policy: RestorePolicy = EXACTLY
    ) -> Outcome:
        return await Climb(self, opening, policy).arun(lambda now: self._arun_once(fn, now, around, policy))

    async def _arun_once(
        self, fn: Callable[[Any], Any], opening: Opening, around: Around, policy: RestorePolicy
    ) -> Outcome:
        if (outcome := await in_thread(self._completed, opening)) is not None:
            return outcome
        try:
            opened = await self._open_async(opening, self._agent(fn), undos_of(fn))
        except Over:  # while this one waited for it
            return await self._arun_once(fn, opening, around, policy)
        try:
            with (
                watching.Run(self.backend, opening) as run,
                around(opened),
                restore.offered(self.backend, opening.session),
            ):
                is_steps, ready = opening.form == "steps", ready_of(self._agent(fn), policy, is_async=True)
                outcome = run.comes_to(await runner.drive_async(opened, fn, steps=is_steps, ready=ready))
                await in_thread(self._end_children, opened, outcome)
        except BaseException as error:
            _forget_children(opened, error)
            raise
        finally:
            await opened.close()
            await in_thread(self._after_run, fn, opened.id)
        return await in_thread(self._told, opened, outcome)

    def _after_run(self, fn: Any, session: str) -> None:
        """Calls what the agent declares for the end of a run. What goes wrong there is none of the run's business."""
        after = agent_of(fn).after_run
        if after is None:
            return
        try:
            after(self, session)
        except Exception:  # noqa: BLE001 - told, and nothing more
            _log.exception("%s: what the agent does after a run failed", session)

    # --- children -----------------------------------------------------------------------------------------------------

    def _run_child(self, child: Spawned, around: Around, *, accept_change: bool, wait_s: float) -> Outcome:
        """Runs a session that another one started, beside it. Raises as `run` does."""
        fn = child.agent
        opening = self._to_run(
            fn,
            child.id,
            child.input,
            labels={},
            wait_s=wait_s,
            accept_change=accept_change,
            create=True,
            parent=child.link,
            is_shared=child.is_shared,
        )
        if entries.is_async(fn):
            return runner.in_a_loop(self._arun(fn, opening, around), instead="store.arun(...)")
        return self._run(fn, opening, around)

    def _end_children(self, opened: Face, outcome: Outcome) -> None:
        """What the end of a run means for the children that it had: they go on, stop (at the closing), or end."""
        if outcome.status in ("waiting", "idle"):
            opened.children.drain()
        elif outcome.status == "cancelled" and not is_fenced(opened.id, outcome.reason):
            self._cancel_children(opened.id, reason=outcome.reason, by="")

    def resume(
        self,
        session: str,
        *,
        accept_change: bool = False,
        wait_s: float = 0.0,
        restore: RestorePolicy | str | None = None,
    ) -> Outcome:
        """Goes on with a session by its id alone: its function is found by the entry point that it recorded.

        Raises `SessionUnknownError` (an unknown id is never a new session) and `EntryError`.
        """
        fn = self.entry_of(session)
        return self.run(fn, session, accept_change=accept_change, wait_s=wait_s, create=False, restore=restore)

    def entry_of(self, session: str) -> Callable[..., Any]:
        """The function that a session runs. Raises `SessionUnknownError`, `EntryError`."""
        form, entry = self._form_and_entry(check_session_id(session))
        if not entry:
            raise EntryError(_no_entry(session, form))
        try:
            return entries.load(entry)
        except EntryError as error:
            raise EntryError(
                f"{session} recorded {entry} as its function: {error}. It goes on with the function from where that is "
                f"now: perdure run FILE.py:FUNCTION --session {shlex.quote(session)}"
            ) from error.__cause__

    def _form_and_entry(self, session: str) -> tuple[str, str]:
        """What the session was opened with: from its summary, or where that is damaged from the record itself."""
        try:
            summary = find(self.backend, session)
        except DamageError:
            with restore.offered(self.backend, session):
                opened = opening_of(Reader(self.backend, session))
            return opened["form"], opened["entry"]
        if summary is None:
            raise refusals.unknown(session, url=self.url)
        return summary.form, summary.entry

    def _agent(self, fn: Any) -> Agent:
        """How an agent is declared, with the policies of the configuration where it declares none."""
        return self._filled(agent_of(fn))

    def _filled(self, declared: Agent) -> Agent:
        return declared if self.configured is None else filled(declared, self.configured)

    def _to_run(self, fn: Callable[[Any], Any], session: str, given: Any, **options: Any) -> Opening:
        entries.check(fn)
        declared = agent_of(fn)
        return Opening(
            session=check_session_id(session),
            form=declared.form,
            entry=entries.name(fn),
            input=given,
            code=entries.fingerprint(fn),
            version=declared.version,
            target=Target(declared.version, name_of(fn), declared.state, declared.validate),
            lease_s=self._lease_s,
            **options,
        )

    def _completed(self, opening: Opening) -> Outcome | None:
        """What came of a session that is completed."""
        with restore.offered(self.backend, opening.session):
            known = find(self.backend, opening.session)
            if known is not None and known.status in OVER:  # what a killed process has left in its inbox is taken
                deliver(self.keeper, opening.session, owner=self._owner, lease_s=self._lease_s)
            if known is not None and known.status == "completed":
                return Outcome("completed", result_of(Reader(self.backend, opening.session), opening, known))
            if known is not None and known.status == "cancelled":
                return Outcome("cancelled", reason=known.reason)
            return None

    def _told(self, opened: Face, outcome: Outcome) -> Outcome:
        """With what waits for a person, and what the restore did."""
        questions = self.questions(opened.id) if outcome.status == "waiting" else ()
        return replace(outcome, questions=questions, restored=opened.restored)


def filled(declared: Agent, settings: Settings) -> Agent:
    """The declaration with what the settings say where it says nothing."""
    from perdure.ops.config.settings import missing_of

    declared = replace(declared, **missing_of(declared, settings))
    if settings.hooks is None or getattr(declared.hooks, "timeout_s", 0.0) is not None:
        return declared
    return replace(declared, hooks=replace(declared.hooks, timeout_s=settings.hooks.timeout_s))  # type: ignore[type-var]


def _stopping_on_signals(opened: Face) -> AbstractContextManager[None]:
    return stopping_on_signals(opened.stop)


def _forget_children(opened: Face, error: BaseException) -> None:
    """An interrupt ends the run at once."""
    if not isinstance(error, Exception):
        opened.children.forget()


def _no_entry(session: str, form: str) -> str:
    if form == "handle":
        return f"{session} is a handle: the code that opened it goes on with it, by store.session({session!r})"
    return f"{session} recorded no entry point (its function was a lambda or local): run it with its function"
