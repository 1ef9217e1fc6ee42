"""Brings an agent's function through crashes, rollbacks and questions.

Enters its code until the session is over or must wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from perdure.errors import (
    ClosedError,
    DamageError,
    EntryError,
    Idle,
    Leaving,
    RolledBack,
    Stopped,
    StoreError,
    Suspended,
)
from perdure.runtime.outcome import Outcome
from perdure.session import scope
from perdure.session.waiting import is_cancelled
from perdure.values import outward

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from perdure.session.async_session import AsyncSession
    from perdure.session.session import Session

Course: TypeAlias = "Generator[Any, Any, Outcome]"

Ready: TypeAlias = "Generator[Any, Any, None]"
"""What makes ready what the code needs besides its state, each time that it starts from its top; as a course."""

T = TypeVar("T")


def drive(
    session: Session, fn: Callable[[Any], Any], *, steps: bool, ready: Callable[[Any], Ready] | None = None
) -> Outcome:
    """Runs the code until the session is completed, waits, failed or was asked to stop; the status is recorded.

    Raises what makes recording impossible or wrong: `FencedError`, `ConflictError`, `StoreFailedError`, `DamageError`.
    """
    return along(session, _course(session, fn, steps=steps, ready=ready))


async def drive_async(
    session: AsyncSession, fn: Callable[[Any], Any], *, steps: bool, ready: Callable[[Any], Ready] | None = None
) -> Outcome:
    """Does what `drive` does, for a coroutine function. A cancelled run is recorded as failed, and cancelled."""
    return await along_async(session, _course(session, fn, steps=steps, ready=ready))


def along(session: Session, course: Generator[Any, Any, T]) -> T:
    """What a course comes to: what it yields is done already."""
    with scope.running(session):
        done = None
        try:
            while True:
                done = course.send(done)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]


async def along_async(session: AsyncSession, course: Generator[Any, Any, T]) -> T:
    """What a course comes to: what it yields is awaited. An error is told to it once every call has ended."""
    with scope.running(session):
        done, error = None, None
        try:
            while True:
                request = course.send(done) if error is None else course.throw(error)
                done, error = None, None
                try:
                    done = await request
                except BaseException as raised:  # noqa: BLE001 - told to the course, which knows what it means
                    error = session.why(raised)
                    if isinstance(error, Exception | Leaving) or is_cancelled(error):
                        await session.drained()
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]


def _course(session: Any, fn: Callable[[Any], Any], *, steps: bool, ready: Callable[[Any], Ready] | None) -> Course:
    """What is done in turn, each time yielded: what it gave, or what is to be awaited for it."""
    while True:
        try:
            return (yield from _entry(session, fn, steps=steps, ready=ready))
        except RolledBack:
            continue


def _entry(session: Any, fn: Callable[[Any], Any], *, steps: bool, ready: Callable[[Any], Ready] | None) -> Course:
    try:
        yield session.enter()
        yield session.judge()
        if ready is not None:
            yield from ready(session)
        return (yield from _steps(session, fn, steps=steps))
    except (Suspended, Stopped) as left:
        return (yield from _left(session, left))
    except Idle as idle:
        if not idle.recorded:
            yield session.note_status("idle")
        return Outcome("idle", reason=str(idle))
    except (StoreError, ClosedError, DamageError):
        raise
    except Exception as error:  # noqa: BLE001 - the agent's own error: recorded, and told to the caller
        if (yield session.is_completed()):
            return Outcome("completed", session.result)
        return (yield from _failed(session, error))
    except BaseException as cancelled:
        if is_cancelled(cancelled) and not (yield session.is_completed()):
            yield session.note_failure(cancelled)
        raise


def _left(session: Any, left: Suspended | Stopped) -> Course:
    """Records that the run was left: it waits for people, or was stopped."""
    if isinstance(left, Suspended):
        yield session.note_status("waiting", reason=str(left), waits=left.seqs)
        return Outcome("waiting", reason=str(left))
    if not left.recorded:
        yield session.note_stopped(left.status, reason=str(left))
    cause = left.__cause__ if isinstance(left.__cause__, Exception) else None
    return Outcome(left.status, error=cause, reason=str(left))


def _failed(session: Any, error: Exception) -> Course:
    """Records that an error ended the run; leaves by `RolledBack` if the failure policy lets it go on.

    What the policy does may be left as well: stopped while it waits, or waiting for people before it goes back.
    """
    yield session.note_failure(error)
    outcome = Outcome("failed", error=error, reason=f"{type(error).__name__}: {error}")
    try:
        yield session.judge(error)
    except (Suspended, Stopped) as left:
        outcome = yield from _left(session, left)
    outward.error(error)
    return outcome


def _steps(session: Any, fn: Callable[[Any], Any], *, steps: bool) -> Course:
    while True:
        value = yield fn(session)
        if (yield session.end(result=value, completed=not steps, progress=steps)):
            return Outcome("completed", session.result)


def in_a_loop(work: Coroutine[Any, Any, T], *, instead: str) -> T:
    """Runs it in an event loop of its own. Raises `EntryError` inside of one: nothing may block it."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise EntryError(f"an event loop is running here, and this would block it: await {instead}")
