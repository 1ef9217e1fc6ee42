"""Asking a session's journal about calls of tools, in a thread and in an event loop: `rules/recall.py` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.session.async_parallel import check_may_draw
from perdure.session.rules.recall import RECALL, recall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.session.async_session import AsyncSession
    from perdure.session.rules.recall import Asked, Told
    from perdure.session.session import Session


def recalled(session: Session, asked: Sequence[Asked]) -> list[Told]:
    """What the journal knows of these calls; a replay is told the same.

    What it tells the end of need not be called again. Recorded with or before the next effect. Raises `RefusedError`
    inside an action, `DivergedError` for other calls than before.
    """
    session._ready()  # noqa: SLF001 - a part of the session
    return session._drive(recall(session._core, asked))  # type: ignore[no-any-return]  # noqa: SLF001


async def recalled_async(session: AsyncSession, asked: Sequence[Asked]) -> list[Told]:
    """Does what `recalled` does, awaited. In a task of a parallel block it is refused."""
    await session._ready()  # noqa: SLF001 - a part of the session
    check_may_draw(session, RECALL)
    return await session._drive(recall(session._core, asked))  # type: ignore[no-any-return]  # noqa: SLF001
