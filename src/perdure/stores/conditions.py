"""What every store checks of what it is handed before it looks at what it has: whether a batch can be right at all.

And which epoch comes next. It knows the contract's records and no store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.errors import ConflictError
from perdure.log import KINDS, Base

if TYPE_CHECKING:
    from perdure.stores.contract import Batch, Change, Lease

INCARNATION_BITS: Final = 32
"""An epoch is the incarnation of the store, and below it so many bits that count the owners."""


def incarnation_of(epoch: int) -> int:
    """The incarnation of the store in which this epoch was begun."""
    return epoch >> INCARNATION_BITS


def epoch_after(seen: int, *, incarnation: int) -> int:
    """The epoch that follows this one in a store of this incarnation: above all that others can have been given."""
    return max(seen, incarnation << INCARNATION_BITS) + 1


def check_incarnation(session: str, batch: Batch, *, newest: int) -> None:
    """Raises `ConflictError` for records of an incarnation that is over: who writes without a lease may be of one."""
    epoch = batch.records[0].epoch if batch.records else newest
    if incarnation_of(epoch) < incarnation_of(newest):
        raise ConflictError(
            f"{session}: epoch {epoch} is of an incarnation of the store that is over, the newest lease is of "
            f"{newest}; open the session again"
        )


def check_batch(session: str, batch: Batch, *, head: int) -> int:
    """The new end of the log, if the batch may follow `head`; else `ValueError`."""
    end = head
    for record in batch.records:
        end += 1
        if record.session != session or record.seq != end:
            raise ValueError(f"{session}: record {end} must come next, not {record.session} #{record.seq}")
        if record.kind not in KINDS:
            raise ValueError(f"{session}: record {end} is of no known kind: {record.kind}")
    if batch.taken and len(set(batch.taken)) < len(batch.taken):
        raise ValueError(f"{session}: the batch takes an item twice: {batch.taken}")
    for point in batch.points:
        if not 1 <= point.seq <= end:
            raise ValueError(f"{session}: the batch has a point of record {point.seq}, the log ends at {end}")
    if batch.marks or batch.keyframes:
        named = [seq for _, seq in batch.marks] + [seq for pair in batch.keyframes for seq in pair]
        if not 1 <= min(named) <= max(named) <= end:
            raise ValueError(f"{session}: the batch speaks of record {min(named)} to {max(named)}, not 1 to {end}")
    return end


def check_opening(session: str, batch: Batch, *, seen: Lease | None) -> int:
    """Where the log must end, if the batch may be the first of its owner; else `ValueError`."""
    if not batch.records:
        raise ValueError(f"{session}: an owner begins with a record")
    head = batch.records[0].seq - 1 if seen is not None else 0
    check_batch(session, batch, head=head)
    return head


def check_change(session: str, change: Change, *, head: int) -> None:
    """Raises `ValueError` unless the change speaks of records that are there, and of each body once."""
    named = [seq for seq, _ in change.bodies]
    if len(set(named)) < len(named):
        raise ValueError(f"{session}: two bodies for one record")
    named += [*change.points, *change.keyframes, *(seq for _, seq in change.marks)]
    if named and not 1 <= min(named) <= max(named) <= head:
        raise ValueError(f"{session}: the change speaks of record {min(named)} to {max(named)}, the log ends at {head}")


def check_fork(session: str, batch: Batch, *, base: Base, own_from: int, head: int) -> int:
    """The end of the new log, if it may go on so from a log that ends at `head`; else `ValueError`.

    `own_from` is the first record that the session of the base wrote itself.
    """
    if not own_from <= base.seq <= head:
        raise ValueError(
            f"{session}: a fork goes on from a record that its base wrote; {base.session} wrote {own_from} to {head}, "
            f"not {base.seq}"
        )
    return check_first(session, batch, base=base)


def check_first(session: str, batch: Batch, *, base: Base) -> int:
    """The end of a new log that goes on from a base, if the batch may be the first of it; else `ValueError`."""
    if not batch.records:
        raise ValueError(f"{session}: a fork begins with a record of its own")
    return check_batch(session, batch, head=base.seq)
