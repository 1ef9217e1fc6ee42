"""A child as the code of its parent holds it: an id, and a result that is waited for once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from perdure.errors import ChildFailedError

if TYPE_CHECKING:
    from collections.abc import Generator

    from perdure.session.async_session import AsyncSession
    from perdure.session.rules.children import Spawned
    from perdure.session.session import Session

T = TypeVar("T")


class _Known:
    """What came of a child, once the code has been handed it."""

    def __init__(self) -> None:
        self.known = False
        self._result: Any = None
        self._error: ChildFailedError | None = None

    def take(self, result: Any, error: ChildFailedError | None) -> None:
        """Keeps it."""
        self.known, self._result, self._error = True, result, error

    def value(self) -> Any:
        """What was taken; raises the error."""
        if self._error is not None:
            raise self._error
        return self._result


class Child(Generic[T]):
    """A session that was started under another one. `id` is its id in the same store."""

    def __init__(self, session: Session, spawned: Spawned) -> None:
        self._session, self._spawned, self._outcome = session, spawned, _Known()

    @property
    def id(self) -> str:
        """Its id, with which it can be looked at like any session."""
        return self._spawned.id

    def result(self) -> T:
        """What it returned, once it is completed; the same each time. Durable: a replay gets the same.

        Raises `ChildFailedError` when it failed or was cancelled. When it waits for a person, for a message, or is
        paused, so is the session that waits for it: its run ends here, and goes on here.
        """
        if not self._outcome.known:
            try:
                self._outcome.take(self._session.result_of(self._spawned), None)
            except ChildFailedError as error:
                self._outcome.take(None, error)
        return self._outcome.value()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


class AsyncChild:
    """The same in an event loop: `await` it, or its `result()`."""

    def __init__(self, session: AsyncSession, spawned: Spawned) -> None:
        self._session, self._spawned, self._outcome = session, spawned, _Known()

    @property
    def id(self) -> str:
        """Its id, with which it can be looked at like any session."""
        return self._spawned.id

    async def result(self) -> Any:
        """What it returned, as `Child.result` has it."""
        if not self._outcome.known:
            try:
                self._outcome.take(await self._session.result_of(self._spawned), None)
            except ChildFailedError as error:
                self._outcome.take(None, error)
        return self._outcome.value()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.result().__await__()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"
