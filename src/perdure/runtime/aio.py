"""A store for an event loop: the methods of `AgentStore`, awaited.

Each does in a thread what its namesake does; only sessions and runs are of their own, for their code is in the loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from perdure import limits
from perdure.runtime.aio_journal import AsyncJournal
from perdure.runtime.branching import ENDED
from perdure.runtime.stopping import AsyncStopping
from perdure.runtime.watching import AsyncWatching
from perdure.session.keeping.opening import NO_INPUT
from perdure.session.waiting import in_thread
from perdure.values.tokens import MASK

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterable
    from types import TracebackType

    from perdure.log.branch import Absence
    from perdure.log.branches import Branch
    from perdure.log.entry import Entry
    from perdure.ops.agent_snapshot import AgentSnapshot
    from perdure.ops.beginning import Begun
    from perdure.ops.convert import Converted
    from perdure.ops.doctor import Diagnosis
    from perdure.ops.erasure import Erased, Erasure
    from perdure.ops.going_on import GoneOn
    from perdure.ops.gone import GcReport
    from perdure.ops.rekey import Rekeyed
    from perdure.ops.restored import Accepted
    from perdure.ops.retention import Retention
    from perdure.ops.scrubbing import Scrubbed, ScrubReport
    from perdure.ops.transfer import Moved
    from perdure.recovery.difference import Diff
    from perdure.recovery.hooks import Hooks
    from perdure.recovery.preview import Preview
    from perdure.recovery.restore_policy import RestorePolicy
    from perdure.recovery.save_policy import SavePolicy
    from perdure.recovery.verify import Report
    from perdure.runtime.content import ActionContent
    from perdure.runtime.copying import Copied
    from perdure.runtime.detail import Detail
    from perdure.runtime.editing import Changes
    from perdure.runtime.listed import SessionInfo
    from perdure.runtime.migrating import Migrated, Migration
    from perdure.runtime.operator import Rollback
    from perdure.runtime.outcome import Outcome, Question
    from perdure.runtime.schedule import Schedule
    from perdure.runtime.store import AgentStore
    from perdure.session.async_session import AsyncSession
    from perdure.session.keeping.forking import Fork
    from perdure.session.rules.version import Check
    from perdure.session.table import Table
    from perdure.stores.contract import Point
    from perdure.values import Secret


class AsyncHandle:
    """A handle that is about to be opened: `async with` it, or await it and `close()` the session yourself."""

    def __init__(self, opening: Callable[[], Any]) -> None:
        self._opening = opening
        self._session: AsyncSession | None = None

    def __await__(self) -> Generator[Any, Any, AsyncSession]:
        return self._opening().__await__()  # type: ignore[no-any-return]

    async def __aenter__(self) -> AsyncSession:
        self._session = await self
        return await self._session.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.__aexit__(kind, error, trace)


class AsyncStore(AsyncWatching, AsyncStopping, AsyncJournal):
    """Found at `store.aio`. What each method does, returns and raises is told at its namesake in `AgentStore`."""

    def __init__(self, store: AgentStore) -> None:
        self._store = store

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(
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
        """The same as `store.arun`."""
        return await self._store.arun(
            fn,
            session,
            input=input,
            labels=labels,
            wait_s=wait_s,
            accept_change=accept_change,
            create=create,
            restore=restore,
        )

    async def resume(
        self,
        session: str,
        *,
        accept_change: bool = False,
        wait_s: float = 0.0,
        restore: RestorePolicy | str | None = None,
    ) -> Outcome:
        """See `AgentStore.resume`."""
        fn = await in_thread(self._store.entry_of, session)
        return await self._store.arun(
            fn, session, accept_change=accept_change, wait_s=wait_s, create=False, restore=restore
        )

    async def retry(
        self,
        session: str,
        *,
        strategy: Any = None,
        at: int | str = -1,
        reason: str = "",
        by: str = "operator",
        accept_change: bool = False,
        wait_s: float = 0.0,
    ) -> Outcome:
        """See `AgentStore.retry`."""
        told = {"strategy": strategy, "at": at, "reason": reason, "by": by}
        return await in_thread(self._store.retry, session, accept_change=accept_change, wait_s=wait_s, **told)

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
        parts: Collection[str] | None = None,
        version: str = "",
        validate: Check | None = None,
        progress: Any = None,
        restore: RestorePolicy | str | None = None,
        hooks: Hooks | None = None,
        saves: SavePolicy | None = None,
        workspace: Any = None,
    ) -> AsyncHandle:
        """A handle: `async with store.aio.session("chat-7") as s`. See `AgentStore.session`.

        All parts of the state are loaded at the opening, or only these `parts`; others by `await s.load("name")`.
        """
        return AsyncHandle(
            lambda: self._store.open_async(
                session,
                state,
                append_only,
                strict=strict,
                undos=undos or {},
                parts=parts,
                optimistic=optimistic,
                create=create,
                labels=labels or {},
                wait_s=wait_s,
                version=version,
                validate=validate,
                progress=progress,
                restore=restore,
                hooks=hooks,
                saves=saves,
                workspace=workspace,
            )
        )

    # --- looking ------------------------------------------------------------------------------------------------------

    async def sessions(
        self, *, status: str | None = None, prefix: str = "", parent: str | None = None
    ) -> Table[SessionInfo]:
        """See `AgentStore.sessions`."""
        return await in_thread(self._store.sessions, status=status, prefix=prefix, parent=parent)

    async def info(self, session: str) -> SessionInfo:
        """See `AgentStore.info`."""
        return await in_thread(self._store.info, session)

    async def snapshots(self, session: str, *, kind: str | None = None) -> Table[Point]:
        """See `AgentStore.snapshots`."""
        return await in_thread(self._store.snapshots, session, kind=kind)

    async def state_at(
        self, session: str, at: int | str | None = None, *, parts: Collection[str] | None = None
    ) -> dict[str, Any]:
        """See `AgentStore.state_at`."""
        return await in_thread(self._store.state_at, session, at, parts=parts)

    async def absent(self, session: str, at: int) -> tuple[Absence, ...]:
        """See `AgentStore.absent`."""
        return await in_thread(self._store.absent, session, at)

    async def diff(
        self,
        session: str,
        at: int | str | None = None,
        *,
        to: int | str | None = None,
        other: str | None = None,
        was: bool = False,
    ) -> Diff:
        """See `AgentStore.diff`."""
        return await in_thread(self._store.diff, session, at, to=to, other=other, was=was)

    async def verify(self, session: str, *, read_data: bool | str = False) -> Report:
        """See `AgentStore.verify`."""
        return await in_thread(self._store.verify, session, read_data=read_data)

    async def log(self, session: str, *, after: int = 0) -> list[Entry]:
        """See `AgentStore.log`; all of them at once."""
        return await in_thread(lambda: list(self._store.log(session, after=after)))

    async def detail(self, session: str, *, branch: int | str | None = None) -> Detail:
        """See `AgentStore.detail`."""
        return await in_thread(self._store.detail, session, branch=branch)

    async def action(self, session: str, seq: int) -> ActionContent:
        """See `AgentStore.action`."""
        return await in_thread(self._store.action, session, seq)

    async def fork(
        self, session: str, *, into: str, at: int | str | None = None, reason: str = "", by: str = "operator"
    ) -> Fork:
        """See `AgentStore.fork`."""
        return await in_thread(self._store.fork, session, into=into, at=at, reason=reason, by=by)

    async def branches(self, session: str) -> Table[Branch]:
        """See `AgentStore.branches`."""
        return await in_thread(self._store.branches, session)

    async def branch(self, session: str, which: int | str) -> list[Entry]:
        """See `AgentStore.branch`."""
        return await in_thread(self._store.branch, session, which)

    async def preview_resume(self, session: str) -> Preview:
        """See `AgentStore.preview_resume`."""
        return await in_thread(self._store.preview_resume, session)

    async def preview_rollback(self, session: str, to: int | str) -> Preview:
        """See `AgentStore.preview_rollback`."""
        return await in_thread(self._store.preview_rollback, session, to)

    async def follow(self, session: str, *, after: int = 0) -> AsyncIterator[Entry]:
        """See `AgentStore.follow`: `async for entry in store.aio.follow(id)`. Raises `SessionUnknownError`."""
        watch = await in_thread(self._store.backend.watch(session).__enter__)
        try:
            while True:
                ended = (await self.info(session)).status in ENDED  # before the records, so that none is missed
                for entry in await self.log(session, after=after):
                    yield entry
                    after = entry.seq
                if ended:
                    return
                for _ in range(round(limits.LOOK_S / limits.FOLLOW_S)):
                    await asyncio.sleep(limits.FOLLOW_S)
                    if watch.wait(0):
                        break
        finally:
            await in_thread(watch.__exit__, None, None, None)

    # --- deciding -----------------------------------------------------------------------------------------------------

    async def questions(self, session: str) -> tuple[Question, ...]:
        """See `AgentStore.questions`."""
        return await in_thread(self._store.questions, session)

    async def settle(
        self,
        session: str,
        seq: int,
        how: str,
        *,
        result: Any = None,
        by: str = "",
        why: str = "",
        unchecked: bool = False,
    ) -> None:
        """See `AgentStore.settle`."""
        told: dict[str, Any] = {"by": by, "why": why, "unchecked": unchecked}
        await in_thread(self._store.settle, session, seq, how, result=result, **told)

    async def answer(self, session: str, question: int | str, answer: Any, *, by: str = "") -> None:
        """See `AgentStore.answer`."""
        await in_thread(self._store.answer, session, question, answer, by=by)

    async def checkpoint(self, session: str, name: str, *, at: int | str = -1, by: str = "") -> int:
        """See `AgentStore.checkpoint`."""
        return await in_thread(self._store.checkpoint, session, name, at=at, by=by)

    async def rollback(
        self,
        session: str,
        to: int | str,
        *,
        reason: str = "",
        by: str = "operator",
        branch: str | None = None,
        strategy: Any = None,
    ) -> Rollback:
        """See `AgentStore.rollback`."""
        told = {"reason": reason, "by": by, "branch": branch, "strategy": strategy}
        return await in_thread(self._store.rollback, session, to, **told)

    # --- telling a session --------------------------------------------------------------------------------------------

    async def edit(self, session: str, changes: Changes, **options: Any) -> int:
        """See `AgentStore.edit`."""
        return await in_thread(self._store.edit, session, changes, **options)

    async def send(self, session: str, message: Any, *, key: str | None = None, by: str = "") -> bool:
        """See `AgentStore.send`."""
        return await in_thread(self._store.send, session, message, key=key, by=by)

    async def save(self, session: str, *, reason: str = "", by: str = "") -> bool:
        """See `AgentStore.save`."""
        return await in_thread(self._store.save, session, reason=reason, by=by)

    async def pause(self, session: str, *, reason: str = "", by: str = "") -> None:
        """See `AgentStore.pause`."""
        await in_thread(self._store.pause, session, reason=reason, by=by)

    async def cancel(self, session: str, *, reason: str = "", by: str = "") -> None:
        """See `AgentStore.cancel`."""
        await in_thread(self._store.cancel, session, reason=reason, by=by)

    # --- keeping ------------------------------------------------------------------------------------------------------

    async def gc(
        self,
        session: str | None = None,
        retention: Retention | None = None,
        *,
        keep_last: int | None = None,
        keep_s: float | None = None,
        dry_run: bool = True,
    ) -> GcReport:
        """See `AgentStore.gc`."""
        return await in_thread(self._store.gc, session, retention, keep_last=keep_last, keep_s=keep_s, dry_run=dry_run)

    def schedule_gc(self, cron: str, retention: Retention, **options: Any) -> Schedule:
        """See `AgentStore.schedule_gc`: at work at once, in a thread. `async with` it."""
        return self._store.schedule_gc(cron, retention, **options)

    async def erase(self, session: str, *, family: bool = False, by: str = "", reason: str = "") -> Erased:
        """See `AgentStore.erase`."""
        return await in_thread(self._store.erase, session, family=family, by=by, reason=reason)

    async def erased(self) -> Table[Erasure]:
        """See `AgentStore.erased`."""
        return await in_thread(self._store.erased)

    async def scrub(
        self,
        text: str | Secret,
        *,
        session: str | None = None,
        mask: str = MASK,
        dry_run: bool = True,
        on_each: Callable[[Scrubbed], None] | None = None,
    ) -> ScrubReport:
        """See `AgentStore.scrub`. `on_each` is called in another thread."""
        return await in_thread(self._store.scrub, text, session=session, mask=mask, dry_run=dry_run, on_each=on_each)

    async def would_erase(self, session: str, *, family: bool = False) -> tuple[str, ...]:
        """See `AgentStore.would_erase`."""
        return await in_thread(self._store.would_erase, session, family=family)

    async def doctor(
        self,
        *,
        deep: bool = False,
        fix: bool = False,
        code: Callable[..., Any] | str | None = None,
        on_each: Callable[[int, int], object] | None = None,
    ) -> Diagnosis:
        """See `AgentStore.doctor`; `on_each` is called in a thread."""
        return await in_thread(self._store.doctor, deep=deep, fix=fix, code=code, on_each=on_each)

    async def migrate(
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
        """See `AgentStore.migrate`; `on_each` and `stop` are called in its thread."""
        return await in_thread(
            self._store.migrate,
            to,
            fn=fn,
            session=session,
            prefix=prefix,
            dry_run=dry_run,
            on_each=on_each,
            stop=stop,
        )

    async def accept_restored(self, reason: str, *, by: str = "operator") -> Accepted:
        """See `AgentStore.accept_restored`."""
        return await in_thread(self._store.accept_restored, reason, by=by)

    async def go_on(self, session: str, *, into: str, by: str = "operator") -> GoneOn:
        """See `AgentStore.go_on`."""
        return await in_thread(self._store.go_on, session, into=into, by=by)

    async def export_file(
        self, session: str, path: str | os.PathLike[str], *, children: bool = True, protocol: str | None = None
    ) -> Moved:
        """See `AgentStore.export_file`."""
        return await in_thread(self._store.export_file, session, path, children=children, protocol=protocol)

    async def export_log(self, session: str, path: str | os.PathLike[str], *, protocol: str) -> int:
        """See `AgentStore.export_log`."""
        return await in_thread(self._store.export_log, session, path, protocol=protocol)

    async def import_file(self, path: str | os.PathLike[str]) -> Moved:
        """See `AgentStore.import_file`."""
        return await in_thread(self._store.import_file, path)

    async def snapshot(self, session: str, **options: Any) -> AgentSnapshot:
        """See `AgentStore.snapshot`."""
        return await in_thread(self._store.snapshot, session, **options)

    async def export_snapshot(self, session: str, path: str | os.PathLike[str], **options: Any) -> AgentSnapshot:
        """See `AgentStore.export_snapshot`."""
        return await in_thread(self._store.export_snapshot, session, path, **options)

    async def begin(self, snapshot: AgentSnapshot | str | os.PathLike[str], **options: Any) -> Begun:
        """See `AgentStore.begin`."""
        return await in_thread(self._store.begin, snapshot, **options)

    async def copy(self, session: str, to: AgentStore, *, children: bool = True, in_clear: bool = False) -> Moved:
        """See `AgentStore.copy`."""
        return await in_thread(self._store.copy, session, to, children=children, in_clear=in_clear)

    async def copy_all(self, to: AgentStore, **options: Any) -> list[Copied]:
        """See `AgentStore.copy_all`; all of them at once."""
        return await in_thread(lambda: list(self._store.copy_all(to, **options)))

    async def convert(
        self,
        to: AgentStore,
        *,
        protocol: str,
        sessions: Iterable[str] | None = None,
        dry_run: bool = False,
        in_clear: bool = False,
    ) -> list[Converted]:
        """See `AgentStore.convert`; all of them at once."""
        return await in_thread(
            lambda: list(
                self._store.convert(to, protocol=protocol, sessions=sessions, dry_run=dry_run, in_clear=in_clear)
            )
        )

    async def rekey(self, *, data: bool = False) -> list[Rekeyed]:
        """See `AgentStore.rekey`; all of them at once."""
        return await in_thread(lambda: list(self._store.rekey(data=data)))

    async def close(self) -> None:
        """See `AgentStore.close`."""
        await in_thread(self._store.close)
