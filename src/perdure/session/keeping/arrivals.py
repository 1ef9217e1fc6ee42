"""Waiting for what is sent to a session, in the thread that waits: it looks into the inbox when its watch says so."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from perdure import clock, limits
from perdure.session.keeping.lease import is_dead
from perdure.session.rules import item as items

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.session.rules.item import Sent
    from perdure.session.rules.request import AwaitItems, AwaitTime
    from perdure.stores.contract import Store, Watch


def pass_time(request: AwaitTime, *, go_on: Callable[[], None]) -> None:
    """The answer to an `AwaitTime`, in the thread that waits. `go_on` is called now and then, as for `arrivals`."""
    end = clock.monotonic_s() + request.wait_s
    while (left_s := end - clock.monotonic_s()) > 0 and not (request.owner and is_dead(request.owner)):
        go_on()
        time.sleep(min(limits.POLL_S_MAX, left_s))


def arrivals(store: Store, session: str, request: AwaitItems, *, go_on: Callable[[], None]) -> tuple[list[Sent], float]:
    """The answer to an `AwaitItems`. `go_on` is called now and then and raises when the run is to stop."""
    end = clock.monotonic_s() + request.wait_s
    with store.watch(session) if request.wait_s > 0 else contextlib.nullcontext() as watch:
        while True:
            found = store.inbox(session, after=request.after)
            left_s = max(0.0, end - clock.monotonic_s())
            if found or not left_s or watch is None:
                return [items.opened(item, session=session) for item in found], left_s
            until_told(watch, wait_s=left_s, go_on=go_on)


def until_told(watch: Watch, *, wait_s: float, go_on: Callable[[], None]) -> None:
    """Waits until it is time to look: at the latest after `wait_s`, and after `limits.LOOK_S` whatever is told.

    `go_on` is called first, and then every `limits.POLL_S_MAX`.
    """
    end = clock.monotonic_s() + min(wait_s, limits.LOOK_S)
    go_on()
    while (left_s := end - clock.monotonic_s()) > 0 and not watch.wait(min(limits.POLL_S_MAX, left_s)):
        go_on()
