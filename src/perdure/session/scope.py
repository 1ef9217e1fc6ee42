"""Which session the running code belongs to, so that a declared action finds it by itself."""

from __future__ import annotations

import contextlib
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

from perdure.errors import NoSessionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.session.async_session import AsyncSession
    from perdure.session.session import Session

    AnySession: TypeAlias = Session | AsyncSession

_current: ContextVar[AnySession | None] = ContextVar("perdure_session", default=None)
_lock = threading.Lock()
_open = 0


@contextlib.contextmanager
def running(session: AnySession) -> Iterator[None]:
    """Within it, `current` is this session."""
    global _open  # noqa: PLW0603 - a count of the whole process
    token = _current.set(session)
    with _lock:
        _open += 1
    try:
        yield
    finally:
        with _lock:
            _open -= 1
        _current.reset(token)


def current(name: str) -> AnySession | None:
    """The session of the running code; None when no session is open in the process.

    Raises `NoSessionError` when one is open, but not here: the action `name` would happen without being recorded.
    """
    session = _current.get()
    if session is None and _open:
        raise NoSessionError(
            f"{name} was called in a thread or context that has no session, while a session is open in this process. "
            "Call it from the agent's own thread, or in a parallel block: with s.parallel() as p: p.call(...)"
        )
    return session
