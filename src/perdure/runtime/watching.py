"""Looking on at a store: who is told of what is done in it, and what is told of the runs of agents.

What is told of commits, sessions and attempts is told where it happens; here is only what a run as a whole comes to.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, Self

from perdure import clock
from perdure.errors import DamageError, StoreFailedError, VersionError
from perdure.stores.observing import Observers, OpenFailed, RunBegan, RunEnded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from opentelemetry.trace import TracerProvider
    from prometheus_client import CollectorRegistry

    from perdure.ops.metrics import Metrics
    from perdure.runtime.outcome import Outcome
    from perdure.runtime.store import AgentStore
    from perdure.session.keeping.opening import Opening
    from perdure.stores.contract import Store as Backend
    from perdure.stores.observing import Observer

FAILURES: Final = (DamageError, StoreFailedError, VersionError)
"""What makes the opening of a session a failed restore; any other error says that it was not to be opened so."""


class Watching:
    """The part of `AgentStore` by which others look on."""

    backend: Backend

    def observe(self, observer: Observer, *, aside: bool = False) -> Callable[[], None]:
        """Tells `observer` of everything that is done in this store through this object, until the result is called.

        It is called with an event (`docs/observing.md` lists them) in the thread that did it, after the commit, and
        must be quick; with `aside` in a thread of its own, in order, and dropped (and counted) while too many wait.
        What it raises is logged the first time, counted, and reaches nobody else. Nobody else is told: what other
        processes do in the same place is not seen here.
        """
        if self.backend.observers is None:
            self.backend.observers = Observers()
        return self.backend.observers.add(observer, aside=aside)

    def metrics(
        self,
        *,
        registry: CollectorRegistry | None = None,
        prefix: str = "",
        gauges: bool = True,
        counts: bool = True,
        own: bool = False,
    ) -> Metrics:
        """Prometheus metrics of all that is done through this object, and of the store (`docs/metrics.md`).

        In `registry`, in one of their `own`, else in that of the process, from now on until their `close()`. `prefix`
        is put before those names that have none. Without `gauges` the store itself is not looked at, without `counts`
        nothing that is done is counted. Raises `RefusedError` where they are already, or the extra `metrics` is not
        installed.
        """
        from perdure.ops.metrics import Metrics

        return Metrics(self, registry=registry, prefix=prefix, gauges=gauges, counts=counts, own=own)

    def trace(self, provider: TracerProvider | None = None) -> Callable[[], None]:
        """OpenTelemetry spans of runs, actions, saves and restores (`docs/tracing.md`), until the result is called.

        Of this `provider`, without one of that of the process. Raises `RefusedError` where the extra `otel` is not
        installed.
        """
        from perdure.ops.tracing import Tracing

        return self.observe(Tracing(provider))


class AsyncWatching:
    """The same for `AsyncStore`: nothing in it waits, so nothing of it is awaited."""

    _store: AgentStore

    def observe(self, observer: Observer, *, aside: bool = False) -> Callable[[], None]:
        """See `AgentStore.observe`. It is called in the loop's thread, and must not block it."""
        return self._store.observe(observer, aside=aside)

    def metrics(self, **options: Any) -> Metrics:
        """See `AgentStore.metrics`. Nothing is looked up until they are asked for."""
        return self._store.metrics(**options)

    def trace(self, provider: TracerProvider | None = None) -> Callable[[], None]:
        """See `AgentStore.trace`."""
        return self._store.trace(provider)


class Run:
    """Around a run: tells that it began, and what it came to."""

    def __init__(self, backend: Backend, opening: Opening) -> None:
        self._observers, self._opening = backend.observers, opening
        self._outcome: Outcome | None = None
        self._began_s = 0.0

    def __enter__(self) -> Self:
        if self._observers is not None:
            self._began_s = clock.monotonic_s()
            self._observers.tell(RunBegan(self._opening.session, self._opening.entry, self._opening.form))
        return self

    def comes_to(self, outcome: Outcome) -> Outcome:
        """What its end will tell of."""
        self._outcome = outcome
        return outcome

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._observers is None:
            return
        outcome = self._outcome
        status, reason = ("", "") if outcome is None or error is not None else (outcome.status, outcome.reason)
        ended = error or (None if outcome is None else outcome.error)
        took_s = clock.monotonic_s() - self._began_s
        session, entry = self._opening.session, self._opening.entry
        self._observers.tell(RunEnded(session, entry, status, reason, ended, took_s))


def opening(backend: Backend, session: str) -> contextlib.AbstractContextManager[None]:
    """Around the opening of a session: tells when what is there cannot be restored."""
    return contextlib.nullcontext() if backend.observers is None else _opening(backend.observers, session)


@contextlib.contextmanager
def _opening(observers: Observers, session: str) -> Iterator[None]:
    began_s = clock.monotonic_s()
    try:
        yield
    except FAILURES as error:
        observers.tell(OpenFailed(session, error, clock.monotonic_s() - began_s))
        raise
