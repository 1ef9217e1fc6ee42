"""`erase`: no byte of a session stays, and its id is never used again.

Forks begin with the records of what they were forked from, so they go first, or nothing goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.errors import HasForksError, HeldError
from perdure.ops.collection import sweep
from perdure.session.keeping.lease import is_dead, owner_text

if TYPE_CHECKING:
    from perdure.stores.contract import Head, Store


@dataclass(frozen=True, slots=True)
class Erased:
    """The sessions that are gone, in the order in which they went.

    `left` says what of them may still be in chunks that a fork shared, and until when; "" for nothing.
    """

    sessions: tuple[str, ...]
    left: str = ""


def erase(store: Store, session: str, *, family: bool) -> Erased:
    """Erases a session; with `family` all that are forks of it, too. See `AgentStore.erase`."""
    mine = next((head for head in store.heads() if head.session == session), None)
    gone = erasable(store, session, family=family)
    for one in gone:
        store.delete(one)
    return Erased(gone, "" if mine is None else _sweep(store, mine))


def erasable(store: Store, session: str, *, family: bool) -> tuple[str, ...]:
    """The sessions that `erase` would erase, in that order. Raises as it does."""
    heads = store.heads()
    forks = _forks(heads, session)
    if forks and not family:
        raise HasForksError(
            f"{session}: {', '.join(sorted(head.session for head in forks))} began as forks of it and need its "
            "records; nothing was erased. Erase them first, or all of it with family=True (--family)"
        )
    gone = (*(head.session for head in forks), session)
    for one in gone:
        if any(head.session == one for head in heads):
            _check_free(store, one)
    return gone


def _forks(heads: list[Head], session: str) -> list[Head]:
    """All sessions whose logs begin with records of this one; those that go on from others of them first."""
    found = [head for head in heads if any(base.session == session for base in head.bases)]
    return sorted(found, key=lambda head: -len(head.bases))


def _check_free(store: Store, session: str) -> None:
    lease = store.lease(session)
    if lease.owner and not is_dead(lease.owner):
        raise HeldError(
            f"{session} is held by {owner_text(lease.owner)} (epoch {lease.epoch}); nothing was erased. "
            "End that process, then erase it"
        )


def _sweep(store: Store, gone: Head) -> str:
    """Removes what only the erased session needed of the chunks of its family."""
    kin = [head.session for head in store.heads() if head.family == gone.family]
    if not kin:
        return ""
    _, why = sweep(store, kin)
    store.delete(gone.session)
    return f"what it had in chunks beside other sessions of its family may still be there ({why})" if why else ""
