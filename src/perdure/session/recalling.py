"""Asking a session's journal in its own place in the code, in a thread and in an event loop, by rules of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.session.async_parallel import check_may_draw
from perdure.session.rules.recall import RECALL, recall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.session.async_session import AsyncSession
    from perdure.session.rules.core import Journal
    from perdure.session.rules.recall import Asked, Told
    from perdure.session.rules.request import Steps
    from perdure.session.session import Session


def performed(session: Session, steps: Callable[[Journal], Steps]) -> Any:
    """What these steps come to, done where the code is now."""
    session._ready()  # noqa: SLF001 - a part of the session
    return session._drive(steps(session._core))  # noqa: SLF001


async def performed_async(session: AsyncSession, kind: str, steps: Callable[[Journal], Steps]) -> Any:
    """Does what `performed` does, awaited. In a task of a parallel block, which may draw no value, it is refused."""
    await session._ready()  # noqa: SLF001 - a part of the session
    check_may_draw(session, kind)
    return await session._drive(steps(session._core))  # noqa: SLF001


def recalled(session: Session, asked: Sequence[Asked]) -> list[Told]:
    """What the journal knows of these calls; a replay is told the same.

    What it tells the end of need not be called again. Recorded with or before the next effect. Raises `RefusedError`
    inside an action, `DivergedError` for other calls than before.
    """
    return performed(session, lambda core: recall(core, asked))  # type: ignore[no-any-return]


async def recalled_async(session: AsyncSession, asked: Sequence[Asked]) -> list[Told]:
    """Does what `recalled` does, awaited. In a task of a parallel block it is refused."""
    return await performed_async(session, RECALL, lambda core: recall(core, asked))  # type: ignore[no-any-return]
