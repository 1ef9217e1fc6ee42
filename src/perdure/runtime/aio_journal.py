"""The journal, awaited: read, held against the code, driven on with something changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.session.keeping.opening import NO_INPUT
from perdure.session.waiting import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perdure.ops.journal.mirroring import Mirroring
    from perdure.runtime.outcome import Outcome
    from perdure.runtime.rehearsal import Rehearsal
    from perdure.runtime.replay import Replay
    from perdure.runtime.store import AgentStore


class AsyncJournal:
    """The part of `AsyncStore` that is about it."""

    _store: AgentStore

    @property
    def mirror(self) -> Mirroring | None:
        """See `AgentStore.mirror`; its `flush` waits, so call it in a thread."""
        return self._store.mirror

    async def journal(self, session: str | None = None, *, after: int = 0) -> list[dict[str, Any]]:
        """See `AgentStore.journal`; all of it at once."""
        return await in_thread(lambda: list(self._store.journal(session, after=after)))

    async def replay(self, session: str, fn: Callable[[Any], Any] | None = None) -> Replay:
        """See `AgentStore.replay`."""
        return await in_thread(self._store.replay, session, fn)

    async def rehearse(self, session: str, fn: Callable[[Any], Any] | str | None = None) -> Rehearsal:
        """See `AgentStore.rehearse`."""
        return await in_thread(self._store.rehearse, session, fn)

    async def drive(
        self,
        session: str,
        *,
        into: str,
        fn: Callable[[Any], Any] | None = None,
        at: int | str | None = None,
        result: Mapping[int, Any] | None = None,
        arguments: Mapping[int | str, Mapping[str, Any]] | None = None,
        input: Any = NO_INPUT,  # noqa: A002 - the word that people use
        again: bool = False,
        reason: str = "",
        by: str = "operator",
    ) -> Outcome:
        """See `AgentStore.drive`. The code runs in a thread, an `async def` agent in an event loop of its own there."""
        return await in_thread(
            self._store.drive,
            session,
            into=into,
            fn=fn,
            at=at,
            result=result,
            arguments=arguments,
            input=input,
            again=again,
            reason=reason,
            by=by,
        )
