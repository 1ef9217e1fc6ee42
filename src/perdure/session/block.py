"""What a parallel block is, in threads and in tasks alike: calls that are claimed in order and handed out at its end.

How they run, and how one waits for them, is for the two kinds of block. What the log says of a call is the core's to
know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from perdure.errors import RefusedError, Suspended
from perdure.session.face import check_callable
from perdure.session.rules import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perdure.log.action import Action, Outcome
    from perdure.session.face import Face
    from perdure.session.rules.call import Call, Options
    from perdure.session.rules.core import Journal

T = TypeVar("T")


class Made(Generic[T]):
    """One call of a block. `action` is its record or its start; `waits` is what a person must decide first."""

    def __init__(self, call: Call, action: Action | None) -> None:
        self.call, self.action = call, action
        self.waits: tuple[int, ...] = ()
        self.outcome: Outcome | None = None
        self.live: BaseException | None = None
        self.broke: BaseException | None = None
        """What kept it from having an outcome."""
        self.handed = False
        self.error: BaseException | None = None
        """What is raised instead of a result."""
        self._value: Any = None

    @property
    def ended(self) -> bool:
        """Whether it is known how it ended."""
        return self.outcome is not None or self.broke is not None

    def hand_out(self, core: Journal) -> None:
        """Gives the code its result or its error, once."""
        if self.handed:
            return
        self.handed = True
        if self.action is not None:
            core.flights.open.pop(self.action.seq, None)
        if self.outcome is None:
            self.error = self.broke
            return
        try:
            self._value = core.hand_out(self.call, self.outcome, self.live)
        except BaseException as error:  # noqa: BLE001 - the action's own: raised where the result is taken
            self.error = error

    def value(self) -> T:
        """What was handed out."""
        if self.error is not None:
            raise self.error
        return self._value  # type: ignore[no-any-return]


class Block:
    """The calls of one block, in the order in which the code made them."""

    def __init__(self, face: Face, *, at_once: int) -> None:
        if at_once < 1:
            raise RefusedError(f"at_once={at_once}: at least one call runs at a time")
        self._face, self._core = face, face._core  # noqa: SLF001 - a part of the session
        self._made: list[Made[Any]] = []

    def _make(
        self, fn: Callable[..., Any], options: Options, given: tuple[tuple[Any, ...], dict[str, Any]], *, awaited: bool
    ) -> Made[Any]:
        """One more call; what is recorded of it is claimed now."""
        self._face._check_stop()  # noqa: SLF001
        check_callable(fn, awaited=awaited)
        call = self._face._call_of(fn, options, *given)  # noqa: SLF001
        with self._face._lock:  # noqa: SLF001
            made: Made[Any] = Made(call, self._core.claim(call))
            if made.action is not None:
                self._core.flights.open[made.action.seq] = self
        self._made.append(made)
        return made

    def _must_wait(self, made: Made[Any]) -> bool:
        """Whether calls that come later in the block may have to claim something before it can begin."""
        with self._face._lock:  # noqa: SLF001
            return self._core.must_wait(made.call, made.action)

    def _check_waits(self) -> None:
        """Leaves the run when calls wait for a person: it waits for everything that they wait for."""
        self._core.go_on()
        if waits := _waits_of(self._made):
            raise self._core.leave(Suspended(waits))

    def _doubted(self) -> list[Made[Any]]:
        """The calls whose actions are in doubt: somebody may have decided about them while others still ran."""
        self._core.go_on()
        return [one for one in self._made if one.action is not None and one.waits == (one.action.seq,)]

    def _hand_out(self, made: Iterable[Made[Any]]) -> BaseException | None:
        """Hands these to the code. The first error, in the order of the calls, that it had not been handed yet.

        If that ends the run, the others are tried again with it: nobody has seen them.
        """
        new = [one for one in made if not one.handed]
        with self._face._lock:  # noqa: SLF001
            for one in new:
                one.hand_out(self._core)
        errors = [one.error for one in new if one.error is not None]
        if errors:
            failure.mark_beside(errors[0], errors[1:])
        return next(iter(errors), None)

    def _joined(self) -> None:
        """All have ended, and whoever leaves the block has them."""
        with self._face._lock:  # noqa: SLF001
            self._core.flights.joined(self)


def _waits_of(made: Iterable[Made[Any]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(seq for one in made for seq in one.waits))
