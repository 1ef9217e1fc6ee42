"""What is refused: the conditions of the contract, about a session as its head says that it is.

Whether that head is the newest is for its cell to know. It puts and gets nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.stores import refusals
from perdure.stores.contract import Lease
from perdure.stores.s3.head import State, Told, Tomb


def there(session: str, told: Told | None, *, url: str) -> State:
    """The session. Raises `SessionUnknownError`, `SessionErasedError`."""
    if isinstance(told, State):
        return told
    raise refusals.erased(session) if isinstance(told, Tomb) else refusals.unknown(session, url=url)


def new(session: str, told: Told | None) -> None:
    """Raises unless a session of this id may be made."""
    if isinstance(told, State):
        raise refusals.exists(session)
    if isinstance(told, Tomb):
        raise refusals.erased(session)


def held(state: State, *, epoch: int | None) -> None:
    """Raises unless who has this epoch, or none, may write."""
    lease = state.lease
    if epoch is None:
        if lease.owner:
            raise refusals.held_by(lease)
    elif lease.epoch != epoch or not lease.owner:
        raise refusals.fenced(lease, epoch=epoch)


def is_holder(state: State, lease: Lease) -> bool:
    """Whether the lease, however often it was renewed, is still the one that counts."""
    return (state.lease.epoch, state.lease.owner) == (lease.epoch, lease.owner)


def at(state: State, head: int) -> None:
    """Raises unless the log ends there."""
    if state.seq != head:
        raise refusals.conflict(state.session, head=state.seq, expected=head)


def as_seen(state: State, seen: Lease, *, head: int) -> None:
    """Raises unless lease and end are as somebody saw them."""
    if state.lease != seen:
        raise refusals.held(state.lease)
    at(state, head)


def takes(state: State, taken: Iterable[int]) -> None:
    """Raises unless these items are in the inbox."""
    numbers = {item.number for item in state.items}
    for number in taken:
        if number not in numbers:
            raise refusals.taken(state.session, number=number)
