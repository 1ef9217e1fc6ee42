"""One session on its way from one place to another: a stream of its records, each after the chunks that it needs.

Nothing is translated: bodies and chunks stay what they are, and so do all digests, but those of the chain where one of
the two places makes them with a key. Here a stream comes out of a store; `receiving` takes it into one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

from perdure.errors import ConflictError, DamageError, SessionUnknownError
from perdure.log import dropped
from perdure.log.record import GENESIS, Record, is_stub
from perdure.session.keeping import needs
from perdure.session.keeping.opening import summary_of
from perdure.session.keeping.snapshot import Reader
from perdure.stores.contract import Item as Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.log.origin import Base
    from perdure.stores.contract import Head, Store

READS_MAX: Final = 100
"""Tries to meet a running session between two of its commits."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Which log it is, and the record that it goes up to. `epoch` is that of the newest lease where it comes from.

    `bases` are the places that a fork goes on from, the oldest first: up to there the records are of those sessions.
    `chain_key` is what its chain digests are made with, None for no key; `chain` is None where it is known only when
    all of the log has come. `is_own` says that its bytes are those of a store with keys, or were made here.
    """

    session: str
    family: str
    seq: int
    chain: bytes | None
    epoch: int
    bases: tuple[Base, ...] = ()
    chain_key: bytes | None = None
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk under its address."""

    address: bytes
    frame: bytes


Item: TypeAlias = Chunk | Record | Waiting
"""What a stream is made of. What waits in the inbox comes last."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A log on its way. `follows`: so many come after it, the last of which is the one that was asked for."""

    origin: Origin
    items: Iterator[Item]
    follows: int = 0


@dataclass(frozen=True, slots=True)
class Moved:
    """What was brought somewhere: the session, up to which record, and the bytes of all (bodies and chunks as stored).

    `also` are the sessions that came with it and were not there: those that it started, those of the keys of the whole
    store that it used, and those that a fork goes on from, if need be only up to its place. `left` are the sessions
    that it started and that were left behind. `freed`: something was dropped there, and its space can be given back.
    """

    session: str
    records: int
    stored_bytes: int
    also: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    freed: bool = False


def size(item: Item) -> int:
    """The bytes of an item, as stored."""
    match item:
        case Chunk():
            return len(item.frame)
        case Record():
            return len(item.body)
        case Waiting():
            return len(item.content)


def mark_of(item: Waiting) -> bytes:
    """What makes it once that an item of the inbox is sent on: it has another number there."""
    return b"moved:" + item.number.to_bytes(8, "big")


def sent(store: Store, session: str) -> tuple[Origin, Iterator[Item]]:
    """A log as it is at this moment, whoever goes on writing it. Every digest is checked on the way.

    Raises `SessionUnknownError`, `SessionErasedError`, and `DamageError` when a record or a chunk is not what was
    written.
    """
    head, inbox = at_once(store, session)
    summary_of(head, session)
    if not head.seq:
        raise SessionUnknownError(f"nothing was ever written to {session} in {store.url}")
    reader = Reader(store, session)
    key = reader.chain_key
    origin = Origin(
        session, head.family, head.seq, head.chain, head.epoch, head.bases, chain_key=key, is_own=key is not None
    )
    return origin, chain(_items(reader, head), inbox)


def at_once(store: Store, session: str) -> tuple[Head, list[Waiting]]:
    """The head, and what nobody had taken out of the inbox then."""
    for _ in range(READS_MAX):
        head, inbox = store.head(session), store.inbox(session)
        if store.head(session).seq == head.seq:
            return head, inbox
    raise ConflictError(f"{session} is written to without a pause; do it again")


def _items(reader: Reader, head: Head) -> Iterator[Item]:
    """Raises `ConflictError` when some of the log was dropped while it was read."""
    there: set[bytes] = set()
    newest, walked = GENESIS, set[bytes]()
    try:
        for record in reader.records(after=0, upto=head.seq):
            for address in _needed(reader, record, walked):
                if address not in there:
                    there.add(address)
                    yield Chunk(address, reader.sound_chunk(address))
            newest = record.chain
            yield record
    except DamageError as damage:
        _check_amended(reader, head, damage)
        raise
    if newest != head.chain:
        raise DamageError(f"{reader.session}: record {head.seq} is not the one that the head names")
    _check_amended(reader, head)


def _check_amended(reader: Reader, head: Head, damage: DamageError | None = None) -> None:
    """What was dropped since may be missing here without a record that says so."""
    if any(seq > head.seq for seq in reader.store.find(reader.session, dropped.MARK)):
        raise ConflictError(f"{reader.session}: some of it was dropped meanwhile; do it again") from damage


def _needed(reader: Reader, record: Record, walked: set[bytes]) -> Iterator[bytes]:
    yield from needs.to_open(record)
    if record.kind in needs.NAMING or is_stub(record.body):
        entry = reader.open(record)
        yield from needs.behind(entry, reader.chunk, walked)
        yield from needs.contents(entry)
