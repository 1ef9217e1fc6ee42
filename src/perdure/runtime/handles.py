"""A store as those see it who open sessions by hand; and how any is opened: held or shared, in a thread or a loop."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure import limits
from perdure.errors import StoreFailedError, SuspendedError
from perdure.recovery import restore
from perdure.runtime import runner, watching
from perdure.runtime.nursery import Nursery
from perdure.runtime.restoring import EXACTLY, Climb, handle_of, hooked, policy_of, ready_of
from perdure.runtime.shared import Shared
from perdure.runtime.stopping import Open
from perdure.session.declare import Agent, undos_of
from perdure.session.keeping.delivery import deliver
from perdure.session.keeping.opening import Opened, Opening, hold
from perdure.session.keeping.sharing import share
from perdure.session.rules.version import Target
from perdure.session.session import Session
from perdure.session.waiting import in_thread, is_cancelled, to_its_end
from perdure.stores.ids import check_session_id

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextlib import AbstractContextManager

    from perdure.recovery.hooks import Hooks
    from perdure.recovery.restore_policy import RestorePolicy
    from perdure.recovery.save_policy import SavePolicy
    from perdure.runtime.outcome import Question
    from perdure.session.async_session import AsyncSession
    from perdure.session.face import Face
    from perdure.session.keeping.lease import Keeper
    from perdure.session.rules.version import Check
    from perdure.stores.contract import Store as Backend

Take: TypeAlias = "Callable[..., Opened]"
"""How a session is taken to be written to: held, or shared."""


class Handles:
    """The part of `AgentStore` that opens sessions."""

    backend: Backend
    keeper: Keeper
    _lease_s: float
    _open_here: Open

    if TYPE_CHECKING:  # of the other parts

        @property
        def _owner(self) -> str: ...

        def _filled(self, declared: Agent) -> Agent: ...
        def questions(self, session: str) -> tuple[Question, ...]: ...  # noqa: D102 - told in AgentStore

    # --- handles ------------------------------------------------------------------------------------------------------

    def session(
        self,
        session: str,
        *,
        create: bool = True,
        state: type | None = None,
        append_only: tuple[str, ...] | list[str] = (),
        strict: bool = False,
        labels: dict[str, str] | None = None,
        wait_s: float = 0.0,
        undos: dict[str, Callable[..., Any]] | None = None,
        optimistic: bool = False,
        version: str = "",
        validate: Check | None = None,
        progress: Any = None,
        restore: RestorePolicy | str | None = None,
        hooks: Hooks | None = None,
        saves: SavePolicy | None = None,
        workspace: Any = None,
    ) -> Session:
        """A handle: your own code goes on with the session.

        `save()` and a clean `with` exit commit; an exception saves nothing but its `failed` status. `state` is a typed
        state. `optimistic` takes no lease: several may have the session open, and of two commits on the same log one
        holds; the other is `ConflictError`, and its caller opens the session again. `version` is that of the state that
        the code works on, and a state of another is migrated; `validate`, `progress`, `hooks`, `saves`
        and `workspace` as for `agent`. `restore` is `exact` unless it is given. Raises `HeldError`,
        `SessionUnknownError` (with `create=False`), `VersionError`.
        """
        declared, opening = self._to_handle(
            session,
            state,
            append_only,
            strict=strict,
            validate=validate,
            saves=saves,
            version=version,
            progress=progress,
            create=create,
            labels=labels or {},
            wait_s=wait_s,
            hooks=hooks,
            workspace=workspace,
        )
        take, policy = share if optimistic else hold, policy_of(restore, EXACTLY)

        def once(now: Opening) -> Session:
            opened = self._open(now, declared, undos_of(None).new_child(undos), take=take)
            try:
                self._enter(opened, ready_of(declared, policy, is_async=False))
            except BaseException:
                opened.close()
                raise
            return opened

        return handle_of(Climb(self, hooked(opening, declared, policy, given=restore), policy).run(once))

    async def open_async(
        self,
        session: str,
        state: type | None,
        append_only: Collection[str],
        *,
        strict: bool,
        undos: dict[str, Callable[..., Any]],
        parts: Collection[str] | None,
        optimistic: bool,
        restore: RestorePolicy | str | None = None,
        **options: Any,
    ) -> AsyncSession:
        """What `aio.session` opens."""
        declared, opening = self._to_handle(session, state, append_only, strict=strict, **options)
        take, policy = share if optimistic else hold, policy_of(restore, EXACTLY)

        async def once(now: Opening) -> AsyncSession:
            opened = await self._open_async(now, declared, undos_of(None).new_child(undos), parts=parts, take=take)
            try:
                await self._enter_async(opened, ready_of(declared, policy, is_async=True))
            except BaseException:
                await opened.close()
                raise
            return opened

        return handle_of(await Climb(self, hooked(opening, declared, policy, given=restore), policy).arun(once))

    def _to_handle(
        self,
        session: str,
        state: type | None,
        append_only: Collection[str],
        *,
        strict: bool,
        version: str = "",
        validate: Check | None = None,
        progress: Any = None,
        hooks: Hooks | None = None,
        saves: SavePolicy | None = None,
        workspace: Any = None,
        **options: Any,
    ) -> tuple[Agent, Opening]:
        declared = Agent(
            "handle",
            tuple(append_only),
            strict,
            version,
            state,
            validate,
            progress=progress,
            hooks=hooks,
            saves=saves,
            workspace=workspace,
        )
        target = Target(version, "", state, validate)
        opening = Opening(
            session=check_session_id(session), version=version, target=target, lease_s=self._lease_s, **options
        )
        return self._filled(declared), opening

    @staticmethod
    def _enter(handle: Session, ready: Callable[[Any], runner.Ready] | None) -> None:
        """Enters a handle; when an undo that is owed must wait for a person, that is recorded."""
        try:
            handle.enter()
            if ready is not None:
                handle.make_ready = lambda: runner.along(handle, ready(handle))
                handle.make_ready()
        except SuspendedError as suspended:
            handle.note_status("waiting", reason=str(suspended), waits=suspended.seqs)
            raise

    @staticmethod
    async def _enter_async(handle: AsyncSession, ready: Callable[[Any], runner.Ready] | None) -> None:
        try:
            await handle.enter()
            if ready is not None:
                handle.make_ready = lambda: runner.along_async(handle, ready(handle))
                await handle.make_ready()
        except SuspendedError as suspended:
            await handle.note_status("waiting", reason=str(suspended), waits=suspended.seqs)
            raise

    # --- opening ------------------------------------------------------------------------------------------------------

    def _open(
        self, opening: Opening, declared: Agent, undos: Mapping[str, Callable[..., Any]], *, take: Take = hold
    ) -> Session:
        opened = self._taken(opening, take)
        face = Session(
            opened,
            declared,
            code=opening.code,
            accept_change=opening.accept_change,
            undos=undos,
            keeper=self.keeper,
            children=self._nursery(opening),
            commons=Shared(self),  # type: ignore[arg-type]
        )
        if declared.progress is not None:
            with contextlib.ExitStack() as failing:
                failing.callback(face.close)
                _read_along(face, opened, declared.progress)
                failing.pop_all()
        return self._open_here.add(face)

    async def _open_async(
        self,
        opening: Opening,
        declared: Agent,
        undos: Mapping[str, Callable[..., Any]],
        *,
        parts: Collection[str] | None = None,
        take: Take = hold,
    ) -> AsyncSession:
        from perdure.session.async_session import AsyncSession

        taking = _Taking(lambda: self._taken(opening, take), self._given_back)
        try:
            opened = await in_thread(taking.take)
        except BaseException as error:
            if is_cancelled(error):
                await to_its_end(lambda: in_thread(taking.leave))
            raise
        face = AsyncSession(
            opened,
            declared,
            code=opening.code,
            accept_change=opening.accept_change,
            undos=undos,
            keeper=self.keeper,
            children=self._nursery(opening),
            commons=Shared(self),  # type: ignore[arg-type]
            parts=parts,
        )
        if declared.progress is not None:
            async with contextlib.AsyncExitStack() as failing:
                failing.push_async_callback(face.close)
                await in_thread(_read_along, face, opened, declared.progress)
                failing.pop_all()
        return self._open_here.add(face)

    def _offered(self, opening: Opening) -> AbstractContextManager[None]:
        return restore.offered(self.backend, opening.session)

    def _nursery(self, opening: Opening) -> Nursery:
        return Nursery(self, opening.session, accept_change=opening.accept_change)  # type: ignore[arg-type]

    def _taken(self, opening: Opening, take: Take) -> Opened:
        self.keeper.give_back()
        with self._offered(opening), watching.opening(self.backend, opening.session):
            try:
                return take(self.backend, opening, owner=self._owner, let_go=self.keeper.let_go)
            except StoreFailedError:
                self.keeper.disown(opening.session, owner=self._owner)
                raise

    def _given_back(self, opened: Opened) -> None:
        if not opened.writer.is_shared:
            self.keeper.let_go(opened.lease)
            deliver(self.keeper, opened.lease.session, owner=opened.lease.owner, lease_s=limits.LEASE_S)


class _Taking:
    """A session that is taken in a thread for a task. Is that cancelled meanwhile, nobody has it: it is given back."""

    def __init__(self, take: Callable[[], Opened], give_back: Callable[[Opened], None]) -> None:
        self._take, self._give_back = take, give_back
        self._lock, self._is_left = threading.Lock(), False
        self._opened: Opened | None = None

    def take(self) -> Opened:
        """Takes it."""
        opened = self._take()
        with self._lock:
            self._opened, is_left = opened, self._is_left
        if is_left:
            self.leave()
        return opened

    def leave(self) -> None:
        """Nobody waits for it any more."""
        with self._lock:
            self._is_left, opened, self._opened = True, self._opened, None
        if opened is not None:
            self._give_back(opened)


def _read_along(face: Face, opened: Opened, policy: Any) -> None:
    """From now on it is known whether this session goes in circles."""
    from perdure.runtime.circling import watch

    watch(face, opened, policy)
