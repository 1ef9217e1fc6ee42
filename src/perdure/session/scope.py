"""Which session the running code belongs to, so that a declared action finds it by itself."""

from __future__ import annotations

import contextlib
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

from perdure.errors import NoSessionError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.session.async_session import AsyncSession
    from perdure.session.session import Session

    AnySession: TypeAlias = Session | AsyncSession

_current: ContextVar[AnySession | None] = ContextVar("perdure_session", default=None)
_lock = threading.Lock()
_open = 0
_started: tuple[AnySession, int] | None = None


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


def start(session: AnySession) -> None:
    """From now on `current` is this session where no other runs, in the calling thread, until `stop`.

    A notebook's cells have no block around them. Raises `RefusedError` while another session is started.
    """
    global _started  # noqa: PLW0603 - one for the whole process
    with _lock:
        if _started is not None and _started[0] is not session:
            raise RefusedError(f"{_started[0].id} is started in this process: close it first, or use `with`")
        _started = session, threading.get_ident()


def stop(session: AnySession) -> None:
    """It is not the started one any more."""
    global _started  # noqa: PLW0603 - one for the whole process
    with _lock:
        if _started is not None and _started[0] is session:
            _started = None


def current(name: str) -> AnySession | None:
    """The session of the running code; None when no session is open in the process.

    Raises `NoSessionError` when one is open, but not here: the action `name` would happen without being recorded.
    """
    session = _current.get()
    started = _started
    if session is None and started is not None and started[1] == threading.get_ident():
        return started[0]
    if session is None and (_open or started is not None):
        raise NoSessionError(
            f"{name} was called in a thread or context that has no session, while a session is open in this process. "
            "Call it from the agent's own thread, or in a parallel block: with s.parallel() as p: p.call(...)"
        )
    return session
