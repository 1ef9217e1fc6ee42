"""Who looks on: what was done in a store is told to its observers, once it is done.

An observer is any callable that takes an event. It is told in the thread that did it, after the commit; what it raises
is logged once, counted and goes no further. It must be quick, or be told aside, in a thread of its own. Nothing here
decides anything, and a store without observers pays for one look at an attribute.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure import clock, limits
from perdure.stores.ids import HOUSE

if TYPE_CHECKING:
    from perdure.log.entry import Entry

_log = logging.getLogger("perdure.observing")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was done in a session; "" where it concerns several."""

    session: str


@dataclass(frozen=True, slots=True)
class Committed(Event):
    """Records that are durable now, in order: of the code, of a person, of a policy.

    `seconds` is how long it took from the moment when the code asked for it (a save: with the comparison) until it was
    known to be durable; `bytes` what was handed to the store for it: bodies, chunks.
    """

    entries: tuple[Entry, ...]
    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class CommitFailed(Event):
    """A commit that was refused (`FencedError`, `ConflictError`, …) or of which the store failed."""

    error: Exception
    seconds: float


@dataclass(frozen=True, slots=True)
class Opened(Event):
    """A session is open for writing, its state restored: the code can begin.

    `status` is the one that its log told before, "" of a new session; `owner` who still had its lease then, "" if
    nobody. `point` is the re-entry point that it goes on from, `entries` the records since then. `is_shared`: no lease
    was taken. `seconds` without the wait for the lease.
    """

    epoch: int
    status: str
    owner: str
    point: int
    entries: tuple[Entry, ...]
    seconds: float
    is_shared: bool = False

    @property
    def is_new(self) -> bool:
        """Whether there was nothing to restore."""
        return not self.status

    @property
    def is_taken_over(self) -> bool:
        """Whether its owner before never gave it back: killed, or gone with its machine."""
        return bool(self.owner)


@dataclass(frozen=True, slots=True)
class OpenFailed(Event):
    """A session that cannot be opened: damage, a version, a failed store. Not one that is merely held."""

    error: Exception
    seconds: float


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """Somebody waits for a session that is held by `owner`."""

    owner: str


@dataclass(frozen=True, slots=True)
class Released(Event):
    """A session was given back."""

    epoch: int


@dataclass(frozen=True, slots=True)
class LeaseLost(Event):
    """Somebody else has taken a session that this process still has open: it writes no more."""

    epoch: int


@dataclass(frozen=True, slots=True)
class RenewalFailed(Event):
    """The leases of this process (`count` of them) could not be renewed; it is tried again."""

    error: Exception
    count: int


@dataclass(frozen=True, slots=True)
class RunBegan(Event):
    """The code of a session begins to run."""

    entry: str
    form: str


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    """A run has ended, its status recorded. `error` is what it ended by, also one that no status tells of."""

    entry: str
    status: str
    reason: str
    error: BaseException | None
    seconds: float


@dataclass(frozen=True, slots=True)
class AttemptBegan(Event):
    """The function of an action is called next, in this thread or task.

    `stack` is what it is inside of, itself last; `is_model`: it is a function of a model client that is recognised.
    """

    seq: int
    name: str
    effect: str
    attempt: int
    stack: tuple[int, ...]
    is_stream: bool
    is_model: bool = False


@dataclass(frozen=True, slots=True)
class AttemptEnded(Event):
    """The function of an action came to its end; told in the thread or task in which it began, unless it is a stream.

    `how` is that of the outcome (`result`, `error`, `unstorable`, …), or `left` for one that was not seen to its end.
    """

    seq: int
    name: str
    effect: str
    attempt: int
    how: str
    error: BaseException | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Spoken(Event):
    """A piece of the text of a model's reply that is still coming; `seq` is the record of its request.

    Nothing of it is durable yet. After another `AttemptBegan` of the same `seq` the reply comes anew.
    """

    seq: int
    text: str


@dataclass(frozen=True, slots=True)
class Judged(Event):
    """What a policy found or decided, in its own words: `what` is a name of few, `details` what belongs to it."""

    what: str
    reason: str
    details: dict[str, Any]


Observer: TypeAlias = Callable[[Event], None]
"""Is told what was done. Events that it does not know it passes by: more kinds may come."""


class Observers:
    """Those who look on at one store."""

    def __init__(self) -> None:
        self._told: tuple[Observer, ...] = ()
        self._lock = threading.Lock()
        self._is_slow = False
        self.errors: Counter[str] = Counter()
        """How often each kind of error was raised by an observer."""
        self.dropped = 0
        """Events that came while too many waited for an observer aside."""

    def __bool__(self) -> bool:
        return bool(self._told)

    def add(self, observer: Observer, *, aside: bool = False) -> Callable[[], None]:
        """Tells it from now on, until what is returned is called. `aside`: in a thread of its own, in order."""
        told: Observer = _Aside(self, observer) if aside else observer
        with self._lock:
            self._told = (*self._told, told)
        return lambda: self._remove(told)

    def _remove(self, told: Observer) -> None:
        with self._lock:
            self._told = tuple(other for other in self._told if other is not told)
        if isinstance(told, _Aside):
            told.end()

    def tell(self, event: Event) -> None:
        """Tells them. Raises nothing."""
        if event.session in HOUSE:
            return
        begun = clock.monotonic_s()
        for observer in self._told:
            self.tell_one(observer, event)
        if clock.monotonic_s() - begun > limits.OBSERVER_S and not self._is_slow:
            self._is_slow = True
            _log.warning(
                "%s: who looks on took longer than %g s over %s, and the run waits for that: observe(…, aside=True)",
                event.session,
                limits.OBSERVER_S,
                type(event).__name__,
            )

    def tell_one(self, observer: Observer, event: Event) -> None:
        """Tells one of them. What it raises is logged the first time, and counted."""
        try:
            observer(event)
        except Exception as error:  # noqa: BLE001 - it looks on, and must not be able to stop what it looks at
            kind = type(error).__name__
            with self._lock:
                self.errors[kind] += 1
                is_first = self.errors[kind] == 1
            if is_first:
                _log.warning("an observer raised at %s; from now on it is only counted", _named(event), exc_info=error)

    def end(self) -> None:
        """Tells what is still to be told aside, and nobody any more."""
        for told in self._told:
            self._remove(told)


class _Aside:
    """An observer in a thread of its own, which never holds up those it looks at: what is too much is dropped."""

    def __init__(self, observers: Observers, observer: Observer) -> None:
        self._observers, self._observer = observers, observer
        self._events: queue.Queue[Event | None] = queue.Queue(limits.OBSERVED_COUNT_MAX)
        self._thread = threading.Thread(target=self._run, name="perdure-observer", daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self._observers.dropped += 1

    def end(self) -> None:
        """Tells what waits, for so long as the end may take."""
        if self._thread is not threading.current_thread():
            with contextlib.suppress(queue.Full):  # it hangs: its thread ends with the process
                self._events.put(None, timeout=limits.OBSERVER_END_S)
            self._thread.join(limits.OBSERVER_END_S)

    def _run(self) -> None:
        while (event := self._events.get()) is not None:
            self._observers.tell_one(self._observer, event)


def _named(event: Event) -> str:
    return f"{type(event).__name__} of {event.session or 'several sessions'}"
