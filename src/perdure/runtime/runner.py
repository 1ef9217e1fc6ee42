"""Brings an agent's function through crashes, rollbacks and questions.

Enters its code until the session is over or must wait.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any

from perdure.errors import ClosedError, DamageError, Idle, RolledBack, Stopped, StoreError, Suspended
from perdure.runtime.outcome import Outcome
from perdure.session import scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.session.session import Session


def drive(session: Session, fn: Callable[[Any], Any], *, steps: bool) -> Outcome:
    """Runs the code until the session is completed, waits, failed or was asked to stop; the status is recorded.

    Raises what makes recording impossible or wrong: `FencedError`, `ConflictError`, `StoreFailedError`, `DamageError`.
    """
    with scope.running(session):
        while True:
            try:
                session.enter()
                return _enter(session, fn, steps=steps)
            except RolledBack:
                continue
            except Suspended as suspended:
                session.note_status("waiting", reason=str(suspended), waits=suspended.seqs)
                return Outcome("waiting", reason=str(suspended))
            except Stopped as stopped:
                if not stopped.recorded:
                    session.note_status(stopped.status, reason=str(stopped))
                return Outcome(stopped.status, reason=str(stopped))
            except Idle as idle:
                if not idle.recorded:
                    session.note_status("idle")
                return Outcome("idle", reason=str(idle))
            except (StoreError, ClosedError, DamageError):
                raise
            except Exception as error:  # noqa: BLE001 - the agent's own error: recorded, and told to the caller
                if session.is_completed():
                    return Outcome("completed", session.result)
                session.note_failure(error)
                return Outcome("failed", error=error, reason=f"{type(error).__name__}: {error}")


def _enter(session: Session, fn: Callable[[Any], Any], *, steps: bool) -> Outcome:
    while True:
        value = fn(session)
        if session.end(result=value, completed=not steps, progress=steps):
            return Outcome("completed", session.result)


@contextlib.contextmanager
def stopping_on_signals(stop: Callable[[str], None]) -> Iterator[None]:
    """Within it, the first SIGINT or SIGTERM calls `stop` with its name.

    A second one ends the run at once (`KeyboardInterrupt`).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []

    def handle(number: int, _frame: Any) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)
        stop(signal.Signals(number).name)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
