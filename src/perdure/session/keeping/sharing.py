"""A session that several write to without a lease: each commit holds if the log still ends where its writer knew it to.

For callers that come and go, such as the processes behind a load balancer. Who is too late opens the session again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure import clock
from perdure.errors import SessionUnknownError
from perdure.session.keeping.lease import acquire
from perdure.session.keeping.opening import (
    Opened,
    check_opened,
    hold,
    opening_of,
    screened,
    startable,
    take_up,
    tell_opened,
)
from perdure.session.rules.request import Commit
from perdure.session.rules.status import status

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.session.keeping.opening import Opening
    from perdure.stores.contract import Lease, Store


def share(store: Store, opening: Opening, *, owner: str, let_go: Callable[[Lease], None]) -> Opened:
    """The session as it stands, made first if it is new; nothing else is written. Raises `HeldError`.

    That is while somebody has its lease; an owner that is gone, or has stopped moving, has it no more.
    """
    opening, began_s = screened(opening, store.guard), clock.monotonic_s()
    lease = _unheld(store, opening, owner=owner, let_go=let_go)
    writer, reader, tail = take_up(store, opening.session, epoch=None)
    writer.is_shared = True
    recorded = opening_of(reader)
    check_opened(opening, recorded, writer.summary)
    begin = startable(reader, writer.summary, recorded, opening.target, tail=tail)
    opened = Opened(lease, writer, reader, recorded, tail, begin, opening.target)
    tell_opened(opened, writer.summary, owner="", began_s=began_s)
    return opened


def _unheld(store: Store, opening: Opening, *, owner: str, let_go: Callable[[Lease], None]) -> Lease:
    """The lease that nobody has, of a session that is opened."""
    session = opening.session
    try:
        is_new = not store.head(session).seq
    except SessionUnknownError:
        is_new = True
    if is_new:
        opened = hold(store, opening, owner=owner, let_go=let_go)
        try:
            opened.writer.commit(Commit((status("idle"),), lambda _: None))
        finally:
            let_go(opened.lease)
    elif store.lease(session).owner:
        let_go(acquire(store, session, owner=owner, wait_s=opening.wait_s, lease_s=opening.lease_s))
    return store.lease(session)
