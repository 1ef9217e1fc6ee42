"""A stream as the code reads it: chunks pass through as they come, the whole is recorded when it has ended.

All that could depend on chunks is kept behind their record: before the session does anything else, a stream that the
code has left is recorded as it is, and any other is read to its end.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from perdure import faults
from perdure.errors import Leaving, PerdureError, RecordedError, RefusedError, StorableError
from perdure.session.rules import call as calls
from perdure.session.rules.attempt import streamed
from perdure.session.rules.reading import Reading, returned
from perdure.session.rules.request import Attempt
from perdure.session.rules.shared import STORE
from perdure.session.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from perdure.log.action import Action
    from perdure.session.face import Face
    from perdure.session.rules.call import Call, Options
    from perdure.session.rules.request import Ended
    from perdure.session.session import Session
    from perdure.session.trying import Trying

T = TypeVar("T")

_log = logging.getLogger("perdure.stream")


class Begun:
    """What a stream of either kind of session is: a call that begins when it is first read."""

    def __init__(self, face: Face, fn: Callable[..., Any], options: Options, given: tuple[Any, Any]) -> None:
        self._face, self._core = face, face._core  # noqa: SLF001 - a part of the session
        self._fn, self._options, self._given = fn, options, given
        self._name = options.name or calls.name_of(fn)
        self.stack = self._core.stack
        """The actions that the code which reads it is inside of."""
        self.reading = Reading(self._name, options.combine, self._core.guard)
        self.call: Call
        self.action: Action | None = None
        self._trying: Trying | None = None

    @property
    def is_open(self) -> bool:
        """Whether it runs: it has begun, and it is not recorded how it ended."""
        return self.action is not None and self.reading.outcome is None

    def leave(self) -> None:
        """The code reads no more of it. What that means is told to the log before the session does anything else."""
        self.reading.left = True

    def _make(self) -> Call:
        if self._options.scope == STORE:
            raise RefusedError(f"{self._name}: a stream has no effect of the whole store: key it for its session")
        self.call = self._face._call_of(self._fn, self._options, *self._given)  # noqa: SLF001
        return self.call

    def _try(self) -> tuple[Trying, tuple[int, ...]]:
        """The next attempt, and the actions that its code is inside of."""
        if self.action is None:
            raise AssertionError(f"{self._name} has not begun")
        stack = (*self.stack, self.action.seq)
        self._trying = self._face._trying(Attempt(self.call, self.action, stack, is_stream=True))  # noqa: SLF001
        self._trying.begins()
        return self._trying, stack

    def _over(self) -> None:
        """The attempt, if there is one, is over."""
        if self._trying is not None:
            self._trying.over()

    def _ended(self, end: Any = None, *, cut: bool = False) -> tuple[Ended, int]:
        """It came to its end, with what the generator returned; or (`cut`) the code left it."""
        if self._trying is None:  # left before its function was called
            return streamed(self.call, [], None, cut_us=0), 0
        return self._trying.streamed(self.reading.read(handed=cut), end, cut=cut)

    def _broke(self, error: Exception, *, cut: bool = False) -> tuple[Ended, int]:
        """It raised, or its time is over, or a chunk cannot be stored."""
        if self._trying is None:
            raise AssertionError(f"{self._name} raised before it was called") from error
        return self._trying.broke(error, self.reading.read(handed=cut), cut=cut)

    def _check_reads(self) -> None:
        if self.reading.left and not self.reading.over:
            raise RefusedError(f"{self._name}: this stream was left, so it cannot be read on. Keep what it gave")

    def _error(self) -> BaseException | None:
        """What its end raises, once the code comes there. None: nothing, or the code has left it."""
        outcome = self.reading.outcome
        if outcome is None or outcome.how == "result":
            return None
        with self._face._lock:  # noqa: SLF001
            try:
                self._core.hand_out(self.call, outcome, self.reading.live)
            except BaseException as error:  # noqa: BLE001 - the action's own: raised where its end is
                return error
        return None

    @property
    def _was_left(self) -> bool:
        """Whether the record says that the code left it before its end."""
        outcome = self.reading.outcome
        return outcome is not None and outcome.stream is not None and outcome.stream.cut_us is not None

    def __repr__(self) -> str:
        how = "open" if self.is_open else "not begun" if self.action is None else "ended"
        return f"<{type(self).__name__} {self._name}, {how}, {self.reading.handed} chunks>"


class Loop(Generic[T]):
    """One loop over a stream. When the loop is left, so is the stream."""

    def __init__(self, stream: Stream[T]) -> None:
        self._stream = stream

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        return next(self._stream)

    def __del__(self) -> None:
        self._stream.leave()


class Stream(Begun, Generic[T]):
    """Made by `session.stream()`. Read it in a loop, or by `next`; then `result()` is the whole.

    It begins when it is first read. Leaving the loop, `close()` and the end of a `with` block leave it.
    """

    def __init__(self, session: Session, fn: Callable[..., Any], options: Options, given: tuple[Any, Any]) -> None:
        super().__init__(session, fn, options, given)
        self._session = session
        self._source: Source | None = None

    def __iter__(self) -> Iterator[T]:
        self._check_reads()
        return Loop(self)

    def __next__(self) -> T:
        with self._session._alone():  # noqa: SLF001 - the two are one thing
            return self._next()  # type: ignore[no-any-return]

    def _next(self) -> Any:
        self._check_reads()
        while not self.reading.is_ahead:
            if self.reading.over:
                raise StopIteration
            if self.reading.outcome is not None:
                return self._come_to_its_end()
            self._read_one()
        return self.reading.hand()

    def _come_to_its_end(self) -> Any:
        if self.action is not None and self.reading.outcome is not None and self._was_left:
            steps = self._core.streams.read_on(self.call, self.action, self.reading.outcome)
            self._session._drive(steps)  # noqa: SLF001
        self.reading.over = True
        if (error := self._error()) is not None:
            raise error
        raise StopIteration(returned(self.reading.outcome))

    def result(self) -> Any:
        """The whole, once the rest is read: the list of chunks, or what `combine` makes of it.

        What a generator returned, if it did. Of a stream that was left: what was read. Raises what the function raised.
        """
        while not (self.reading.left or self.reading.over):
            try:
                next(self)
            except StopIteration:
                break
        return self.reading.whole()

    def close(self) -> None:
        """Leaves it. Durable: what was read is its outcome, unless it had come to its end."""
        if self.reading.over or (self.action is None and self.reading.outcome is None):
            self.leave()
            return
        self.leave()
        with self._session._alone():  # noqa: SLF001
            if self.is_open:
                self._cut()
            if self._was_left and (error := self._error()) is not None:
                raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.leave()

    # --- live ---------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """It is recorded how it ended: it is read to its end, unless the code has left it."""
        if self.reading.left and self.is_open:
            self._cut()
        while self.is_open:
            self._read_one()

    def give_up(self) -> None:
        """Nothing is recorded of how it ended: the code is left, or another error than the function's own came."""
        self.leave()
        self._session.streams.remove(self)
        if self.action is not None:
            self._core.streams.give_up(self.action)
        self._close_quietly()
        self._over()

    def _close_quietly(self) -> None:
        try:
            self._close_source()
        except (Exception, Leaving) as error:  # noqa: BLE001 - nobody waits for it any more
            _log.warning("%s raised while it was closed: %s: %s", self._name, type(error).__name__, error)

    def _read_one(self) -> None:
        """One chunk more, or the end; begins where it has not begun."""
        if self.action is None:
            self._begin()
            return
        if self._source is None:
            self._source = Source(self._session, *self._try())
        try:
            chunk = self._source.next()
        except StopIteration as end:
            self._end(*self._ended(end.value))
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its outcome
            self._end(*self._raised(error))
        except BaseException:
            self.leave()
            raise
        else:
            self._take(chunk)

    def _take(self, chunk: Any) -> None:
        try:
            self.reading.take(chunk)
        except StorableError as error:
            self._close_quietly()
            self._end(*self._broke(error))
        else:
            faults.reach("stream.chunk")

    def _raised(self, error: Exception, *, cut: bool = False) -> tuple[Ended, int]:
        if is_our_own(error):
            self.give_up()
            raise error
        return self._broke(error, cut=cut)

    def _begin(self) -> None:
        session = self._session
        session._ready()  # noqa: SLF001
        self.stack = self._core.stack
        self.action, outcome = session._drive(self._core.streams.begin(self._make()))  # noqa: SLF001
        if outcome is None:
            session.streams.add(self)
        else:
            self.reading.recall(outcome)

    def _cut(self) -> None:
        """Records it as left by the code, with what was read."""
        try:
            self._close_source()
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its outcome
            self._end(*self._raised(error, cut=True))
        else:
            self._end(*self._ended(cut=True))

    def _close_source(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def _end(self, ended: Ended, took_us: int) -> None:
        """Records it. The next attempt, if there is one, begins with the next chunk."""
        if self.action is None:
            raise AssertionError(f"{self._name} has not begun")
        self._source = None
        self._over()
        steps = self._core.streams.end(self.call, self.action, ended, duration_us=took_us)
        try:
            again = self._session._drive(steps)  # noqa: SLF001
        except BaseException:
            self.give_up()
            raise
        if again is not None:
            self.action = again
        else:
            self.reading.end(ended)
            self._session.streams.remove(self)


def is_our_own(error: Exception) -> bool:
    """Whether an error is perdure's own, and none of the function's."""
    return isinstance(error, PerdureError) and not isinstance(error, RecordedError)


class OpenStreams:
    """The streams of a session that run."""

    def __init__(self, session: Session) -> None:
        self._session, self._core = session, session._core  # noqa: SLF001
        self._open: list[Stream[Any]] = []

    def add(self, stream: Stream[Any]) -> None:
        """It has begun."""
        self._open.append(stream)

    def remove(self, stream: Stream[Any]) -> None:
        """It has ended."""
        self._open.remove(stream)

    def settle(self, *, leave: bool = False) -> None:
        """Those that the running code reads are recorded as they ended; with `leave`, it reads no more of them."""
        if not self._open:
            return
        for stream in self._here():
            with self._session._alone():  # noqa: SLF001
                self._core.go_on()
                if leave:
                    stream.leave()
                stream.settle()

    def give_up(self) -> None:
        """Nothing is recorded of those that run."""
        for stream in list(self._open):
            stream.give_up()

    def _here(self) -> list[Stream[Any]]:
        """Those that belong to this place in the code, not to an action around it or beside it."""
        return [stream for stream in self._open if stream.stack == self._core.stack]

    def around(self, work: Callable[[Trying], Any], trying: Trying) -> Any:
        """What an action gives: the streams that its code reads end with it."""
        try:
            result = work(trying)
            self.settle(leave=True)
        finally:
            if self._open:
                for stream in self._here():
                    stream.give_up()
        return result
