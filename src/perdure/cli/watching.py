"""`metrics` and `alerts`: how a store stands, and when somebody should look, for machines that watch it."""

from __future__ import annotations

import enum
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from perdure.cli import options, output, shape
from perdure.cli.place import place, settings
from perdure.errors import StoreFailedError
from perdure.ops.alerts.dashboard import dashboard
from perdure.ops.alerts.policy import AlertPolicy
from perdure.ops.alerts.rules_file import rules_file
from perdure.ops.alerts.watcher import at_once

if TYPE_CHECKING:
    from perdure.ops.metrics import Metrics


FIRES: Final = 79
"""What `alerts check` ends with when something fires."""


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


class What(enum.StrEnum):
    """What `alerts` gives."""

    check = "check"
    rules = "rules"
    dashboard = "dashboard"


def alerts(
    what: Annotated[
        What, typer.Argument(metavar="check|rules|dashboard", help="Look now; or a file for Prometheus, for Grafana.")
    ] = What.check,
    *,
    store: options.Store = None,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="TEXT", help="That of store.metrics(prefix=…), for a file.")
    ] = "",
    as_json: options.Json = False,
) -> None:
    """Whether somebody should look: disk, sessions without owner, what waits too long.

    `check` ends with 0 when nobody needs to, 79 when somebody does. `rules` and `dashboard` print files.
    """
    policy = settings().alerts or AlertPolicy()
    if what is not What.check:
        text = rules_file(policy.rules(), prefix=prefix) if what is What.rules else dashboard(prefix=prefix)
        sys.stdout.write(text)
        return
    with place(store).open() as opened:
        found = at_once(opened.metrics(own=True, counts=False), policy)
    if as_json:
        output.document([shape.alert(each) for each in found])
    else:
        for each in found:
            output.say(f"{each.rule.severity}: {each.text()}")
        if not found:
            output.say("nobody needs to look")
    raise typer.Exit(FIRES if found else 0)


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
