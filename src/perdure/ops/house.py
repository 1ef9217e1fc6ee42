"""What a store remembers of its own keeping: notes in two sessions of its own, which no listing shows.

One says what was erased, the other when a schedule last did its work. They are logs like any other: sealed, verified,
witnessed, and in every store alike. What is noted is for others to say.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from perdure import limits
from perdure.errors import ConflictError, HeldError, SessionExistsError, SessionUnknownError
from perdure.session.keeping.lease import acquire, new_owner
from perdure.session.keeping.opening import Opening, hold, summary_of
from perdure.session.keeping.snapshot import Reader
from perdure.session.keeping.writer import Writer
from perdure.session.rules.request import Commit, Draft
from perdure.session.rules.status import status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.log.entry import Entry
    from perdure.stores.contract import Head, Lease, Store

_STEP: Final = 16
"""So many notes are read first, then twice as many."""

_TRIES: Final = 100
"""Others may write notes at the same time; each time one of them has."""


def note(store: Store, house: str, body: dict[str, Any], *, epoch: int | None = None) -> None:
    """Adds a note; durable on return. Makes the session of the notes if it is not there.

    `epoch` is that of the caller's lease, None if it holds none.
    """
    for _ in range(_TRIES):
        try:
            _writer(store, house, epoch=epoch).commit(Commit((Draft("note", body),), lambda _: None))
        except (ConflictError, SessionExistsError):
            continue
        except HeldError:
            store.release(held(store, house, wait_s=2 * limits.LEASE_S))
            continue
        return
    raise ConflictError(f"{house} is written to without a pause; do it again")


def held(store: Store, house: str, *, wait_s: float) -> Lease:
    """The session of the notes, held from now on; made if it is not there. Raises `HeldError`."""
    with suppress(SessionExistsError):
        _find_or_make(store, house)
    return acquire(store, house, owner=new_owner(), wait_s=wait_s, lease_s=limits.LEASE_S)


def notes(store: Store, house: str) -> Iterator[Entry]:
    """The notes, the oldest first. Raises `DamageError`."""
    with suppress(SessionUnknownError):
        store.head(house)
        for record in Reader(store, house).records(after=0):
            if record.kind == "note":
                yield Reader(store, house).open(record)


def newest(store: Store, house: str, is_it: Callable[[Entry], bool]) -> Entry | None:
    """The newest note of which this is true, read from the end. Raises `DamageError`."""
    try:
        upto = store.head(house).seq
    except SessionUnknownError:
        return None
    reader, step = Reader(store, house), _STEP
    while upto:
        after = max(0, upto - step)
        found = [reader.open(record) for record in reader.records(after=after, upto=upto) if record.kind == "note"]
        if told := [entry for entry in found if is_it(entry)]:
            return told[-1]
        upto, step = after, 2 * step
    return None


def _writer(store: Store, house: str, *, epoch: int | None) -> Writer:
    """One that goes on where the log ends. Without a lease the head alone is the condition."""
    head = _find_or_make(store, house)
    writer = Writer(
        store, house, epoch=epoch or head.epoch, head=head.seq, chain=head.chain, summary=summary_of(head, house)
    )
    writer.is_shared = epoch is None
    return writer


def _find_or_make(store: Store, house: str) -> Head:
    try:
        return store.head(house)
    except SessionUnknownError:
        _make(store, house)
        return store.head(house)


def _make(store: Store, house: str) -> None:
    """An idle session that nobody holds."""
    opened = hold(store, Opening(house), owner=new_owner(), let_go=store.release)
    opened.writer.commit(Commit((status("idle"),), lambda _: None))
    store.release(opened.lease)
