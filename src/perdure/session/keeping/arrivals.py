"""Waiting for what is sent to a session, in the thread that waits: it looks into the inbox, less and less often."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from perdure import clock, limits
from perdure.session.keeping.lease import is_dead
from perdure.session.rules import item as items

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.session.rules.item import Sent
    from perdure.session.rules.request import AwaitItems, AwaitTime
    from perdure.stores.contract import Store


def pass_time(request: AwaitTime, *, go_on: Callable[[], None]) -> None:
    """The answer to an `AwaitTime`, in the thread that waits. `go_on` is called now and then, as for `arrivals`."""
    end = clock.monotonic_s() + request.wait_s
    while (left_s := end - clock.monotonic_s()) > 0 and not (request.owner and is_dead(request.owner)):
        go_on()
        time.sleep(min(limits.POLL_S_MAX, left_s))


def arrivals(store: Store, session: str, request: AwaitItems, *, go_on: Callable[[], None]) -> tuple[list[Sent], float]:
    """The answer to an `AwaitItems`. `go_on` is called now and then and raises when the run is to stop."""
    end, pause_s = clock.monotonic_s() + request.wait_s, limits.POLL_S_MIN
    while True:
        found = store.inbox(session, after=request.after)
        left_s = max(0.0, end - clock.monotonic_s())
        if found or not left_s:
            return [items.opened(item, session=session) for item in found], left_s
        go_on()
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, limits.POLL_S_MAX)
