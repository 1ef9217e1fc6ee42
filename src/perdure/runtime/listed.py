"""A session as listings show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.errors import DamageError


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One session, for listings.

    `status` is running, idle, paused, waiting, failed, completed, cancelled, interrupted (it was running, and its owner
    is provably gone) or damaged (nothing beside its head can be trusted); times are microseconds since 1970; `parent`
    is the session that started it, "" for none; `messages` have been sent to it and not been received yet.
    """

    id: str
    status: str
    reason: str
    form: str
    entry: str
    created_us: int
    updated_us: int
    records: int
    saves: int
    actions: int
    owner: str
    waits: tuple[int, ...]
    parent: str = ""
    messages: int = 0


def damaged(session: str, error: DamageError) -> SessionInfo:
    """One of which nothing beside its head can be trusted."""
    reason = str(error) if "perdure verify" in str(error) else f"{error}; run: perdure verify {session}"
    return SessionInfo(session, "damaged", reason, "", "", 0, 0, 0, 0, 0, "", ())
