"""`metrics`: how a store stands, for machines that watch it."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli import options, output, shape
from perdure.cli.place import place
from perdure.errors import StoreFailedError

if TYPE_CHECKING:
    from perdure.ops.metrics import Metrics


def metrics(
    *,
    store: options.Store = None,
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="N", min=0, max=65535, help="Answer scrapes there, until it is interrupted."),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where: others than this machine only if you say so.")
    ] = "127.0.0.1",
    file: Annotated[
        Path | None, typer.Option("--file", metavar="PATH", help="Write them there, all at once, and end.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """How a store stands, as metrics for Prometheus: also of sessions that nobody runs.

    What a running agent does is counted in its own process: see `store.metrics()`.
    """
    with place(store).open() as opened:
        found = opened.metrics(own=True, counts=False)
        if port is not None:
            _serve(found, port, host=host)
        elif file is not None:
            found.write(file)
        elif as_json:
            output.document(shape.metrics(found.samples()))
        else:
            output.say(found.text().rstrip("\n"))


def _serve(found: Metrics, port: int, *, host: str) -> None:
    """Until SIGINT or SIGTERM comes."""
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    try:
        served = found.serve(port, host=host)
    except OSError as error:
        raise StoreFailedError(f"metrics cannot be served at {host}:{port}: {error}; choose another --port") from error
    output.say(f"metrics at http://{host}:{served.port}/metrics; Ctrl-C ends it")
    over.wait()
    served.stop()
