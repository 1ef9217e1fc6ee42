"""Every place of a log, whatever is damaged in between: what is there, and what is wrong with it.

The slow way to read, for when the fast one has met damage. It judges by the digest chain alone and knows no body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perdure.errors import DamageError, MissingError
from perdure.log.origin import writer_of
from perdure.log.record import GENESIS, Record, chain_digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.stores.contract import Store

UNREADABLE_MAX: Final = 1000
"""Places in a row that cannot be read, after which no more are tried: the head may say any number."""


@dataclass(frozen=True, slots=True)
class Place:
    """One place of a log. `record` is what can be had of it; it is what was written if there is no `fault`."""

    seq: int
    record: Record | None
    fault: str = ""


def survey(store: Store, session: str, *, after: int = 0, upto: int) -> Iterator[Place]:
    """The places after + 1 ... upto. Of several that are missing in a row only the first is told, with their number."""
    before, bases = _before(store, session, after), store.head(session).bases
    key = store.chain_key(session)
    for seq, found in _rows(store, session, after=after, upto=upto):
        if seq > after + 1:
            yield _gap(session, after + 1, seq - 1)
            before = ()
        after = seq
        if isinstance(found, Record):
            writer = writer_of(seq, session=session, bases=bases)
            fault, before = _judged(found, session=session, writer=writer, seq=seq, before=before, key=key)
            yield Place(seq, found, fault)
        else:
            before = ()
            yield Place(seq, None, str(found))
    if after < upto:
        yield _gap(session, after + 1, upto)


def beyond(store: Store, session: str, head: int) -> Iterator[Record]:
    """The records that are stored after this number, up to the first gap.

    Raises `DamageError` for one that is there and cannot be read.
    """
    while True:
        head += 1
        try:
            found = store.read_at(session, [head])[0]
        except MissingError:
            return
        yield found


def _before(store: Store, session: str, after: int) -> tuple[bytes, ...]:
    """What the chain digest of this record may be; nothing if it cannot be had."""
    try:
        return (store.read_at(session, [after])[0].chain,) if after else (GENESIS,)
    except DamageError:
        return ()


def _judged(
    record: Record, *, session: str, writer: str, seq: int, before: tuple[bytes, ...], key: bytes | None
) -> tuple[str, tuple[bytes, ...]]:
    """What is wrong with a record ("": nothing), and what its own chain digest may be.

    It may be the one that is stored or the one that follows from its content: which of the two is damaged, the next
    record tells.
    """
    if record.session != writer or record.seq != seq:
        return f"{session}: record {seq} is missing; in its place is {record.session} #{record.seq}", ()
    if not before:
        return f"{session}: record {seq} ({record.kind}) cannot be proved, as the one before it is missing", (
            record.chain,
        )
    made = [_digest(record, previous, key) for previous in before]
    if record.chain in made:
        return "", (record.chain,)
    return f"{session}: record {seq} ({record.kind}) is not what was written", (record.chain, *made)


def _digest(record: Record, previous: bytes, key: bytes | None) -> bytes:
    return chain_digest(
        previous,
        session=record.session,
        seq=record.seq,
        epoch=record.epoch,
        kind=record.kind,
        time_us=record.time_us,
        body=record.body,
        key=key,
    )


def _gap(session: str, first: int, last: int) -> Place:
    missing = f"record {first} is missing" if first == last else f"records {first} to {last} are missing"
    return Place(first, None, f"{session}: {missing}")


def _rows(store: Store, session: str, *, after: int, upto: int) -> Iterator[tuple[int, Record | DamageError]]:
    """What the store gives, by number; a row that it cannot read comes as its error."""
    unreadable = 0
    while after < upto and unreadable < UNREADABLE_MAX:
        try:
            for record in store.read(session, after=after, upto=upto):
                unreadable, after = 0, after + 1 if record.seq <= after else record.seq
                yield after, record
            return
        except DamageError:
            pass  # told below, with the number of the row that cannot be read
        for seq, found in _one_by_one(store, session, after=after, upto=upto):
            after, unreadable = seq, unreadable + 1 if isinstance(found, DamageError) else 0
            yield seq, found


def _one_by_one(store: Store, session: str, *, after: int, upto: int) -> Iterator[tuple[int, Record | DamageError]]:
    """Up to and with the first row that cannot be read."""
    for seq in range(after + 1, upto + 1):
        try:
            found = store.read_at(session, [seq])[0]
        except DamageError as error:
            yield seq, error
            return
        yield seq, found
