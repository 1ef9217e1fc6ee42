"""Prometheus metrics of a store: an observer that counts what is done, and a look at the store when it is scraped.

What is counted is in `counting.py`, what is looked up in `gauges.py`; here they are put in a registry and shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perdure.errors import RefusedError
from perdure.ops import measures
from perdure.ops.counting import Counting
from perdure.ops.measures import COUNTER, GAUGE, named

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from threading import Thread
    from typing import Protocol
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import CollectorRegistry

    from perdure.ops.measures import Measure
    from perdure.stores.contract import Store
    from perdure.stores.observing import Observer

    class Observed(Protocol):
        """A store as its users have it."""

        backend: Store

        def observe(self, observer: Observer, *, aside: bool = False) -> Callable[[], None]:
            """See `AgentStore.observe`."""


try:
    import prometheus_client

    from perdure.ops.gauges import TOLD, Look, Told
except ImportError as missing:
    raise RefusedError("metrics need an extra that is not installed: pip install 'perdure[metrics]'") from missing

LOOPBACK: Final = "127.0.0.1"

COUNTED: Final = [each for each in (*measures.SNAPSHOTS, *measures.RUNS, *measures.WRITING) if each.name not in TOLD]
"""What `Counting` counts."""


class Served:
    """A port at which scrapes are answered."""

    def __init__(self, server: WSGIServer, thread: Thread) -> None:
        self._server, self._thread = server, thread
        self.port: int = server.server_port

    def stop(self) -> None:
        """Ends it. Doing it again does nothing."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Metrics:
    """The metrics of one or more stores, in one registry: this, one of their `own`, else that of the process.

    `prefix` is put before the five names that have none of their own. What is done is counted unless `counts` is False;
    `gauges` of the store itself are looked up when they are asked for, at most every `limits.OVERVIEW_S` seconds.
    Thread-safe. Raises `RefusedError` for a registry
    that has these metrics already: call `also` for another store.
    """

    def __init__(
        self,
        store: Observed | None = None,
        *,
        registry: CollectorRegistry | None = None,
        prefix: str = "",
        gauges: bool = True,
        counts: bool = True,
        own: bool = False,
    ) -> None:
        if own:
            registry = prometheus_client.CollectorRegistry()
        self.registry = prometheus_client.REGISTRY if registry is None else registry
        self.prefix = prefix
        self._stores: list[Store] = []
        self._undo: list[Callable[[], None]] = []
        self._made: list[Any] = []
        self._count: Counting | None = None
        try:
            if counts:
                self._count = Counting({each.name: self._make(each, prefix) for each in COUNTED})
                self._register(Told(self._stores))
            if gauges:
                self._register(Look(self._stores))
        except ValueError as error:
            self.close()
            raise RefusedError(f"{error}; metrics of another store: metrics.also(store), or a registry=") from error
        if store is not None:
            self.also(store)

    def also(self, store: Observed) -> None:
        """Counts what is done in this store, too; what is told of stores themselves is their sum."""
        self._stores.append(store.backend)
        if self._count is not None:
            self._undo.append(store.observe(self._count))

    def text(self) -> str:
        """All of the registry in the text format of Prometheus."""
        return prometheus_client.generate_latest(self.registry).decode()

    def samples(self) -> list[tuple[str, dict[str, str], float]]:
        """The same as name, labels and value."""
        return [(s.name, s.labels, s.value) for metric in self.registry.collect() for s in metric.samples]

    def write(self, path: str | Path) -> None:
        """Writes that to a file, for node_exporter to collect: all at once, never half."""
        prometheus_client.write_to_textfile(str(path), self.registry)

    def serve(self, port: int, *, host: str = LOOPBACK) -> Served:
        """Answers scrapes at this port (0: a free one) of this machine alone, in a thread, until it is stopped.

        `host` is the address to listen at. Nobody is asked who he is: let others in only where that is
        right. Raises `OSError` for a port that is taken.
        """
        server, thread = prometheus_client.start_http_server(port, host, self.registry)

        served = Served(server, thread)
        self._undo.append(served.stop)
        return served

    def close(self) -> None:
        """Counts no more, and takes the metrics out of the registry."""
        undo, self._undo = self._undo, []
        for each in undo:
            each()
        made, self._made = self._made, []
        for collector in made:
            self.registry.unregister(collector)

    def _make(self, measure: Measure, prefix: str) -> Any:
        name, kinds = named(measure.name, prefix=prefix), prometheus_client
        made: Any
        if measure.kind == COUNTER:
            made = kinds.Counter(name, measure.help, measure.labels, registry=self.registry)
        elif measure.kind == GAUGE:
            made = kinds.Gauge(name, measure.help, measure.labels, registry=self.registry)
        else:
            made = kinds.Histogram(name, measure.help, measure.labels, registry=self.registry, buckets=measure.buckets)
        self._made.append(made)
        return made

    def _register(self, collector: Any) -> None:
        self.registry.register(collector)
        self._made.append(collector)
