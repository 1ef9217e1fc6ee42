"""A call that was made in a parallel block, and what it gives once it has ended.

It knows no threads and no tasks: the block that made it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from perdure.log.action import Action, Outcome
    from perdure.session.call import Call
    from perdure.session.core import Journal

T = TypeVar("T")


class Made(Generic[T]):
    """One call of a block. `action` is its record or its start; `waits` is what a person must decide first."""

    def __init__(self, call: Call, action: Action | None) -> None:
        self.call, self.action = call, action
        self.begun = False
        self.waits: tuple[int, ...] = ()
        self.outcome: Outcome | None = None
        self.live: Exception | None = None
        self.broke: BaseException | None = None
        """What kept it from having an outcome."""
        self.handed = False
        self._value: Any = None
        self._error: BaseException | None = None

    def hand_out(self, core: Journal) -> None:
        """Gives the code its result or its error, once."""
        if self.handed:
            return
        self.handed = True
        if self.action is not None:
            core.flights.open.discard(self.action.seq)
        if self.outcome is None:
            self._error = self.broke
            return
        try:
            self._value = core.hand_out(self.call, self.outcome, self.live)
        except Exception as error:  # noqa: BLE001 - the action's own: raised where the result is taken
            self._error = error

    @property
    def error(self) -> BaseException | None:
        """What is raised instead of a result."""
        return self._error

    def value(self) -> T:
        """What was handed out."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[no-any-return]


def waits_of(made: list[Made[Any]]) -> tuple[int, ...]:
    """Everything that a person must decide before these calls can have results, each once."""
    return tuple(dict.fromkeys(seq for one in made for seq in one.waits))


def first_error(made: list[Made[Any]]) -> BaseException | None:
    """The first error, in the order of the calls, that the code has not been handed yet."""
    return next((one.error for one in made if one.error is not None), None)
