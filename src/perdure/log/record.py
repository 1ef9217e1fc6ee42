"""One immutable entry of a session's log, and the digest that chains it to the one before.

A record knows nothing of what its body says: the body is a sealed frame. `docs/format.md` has the bytes.
"""

from __future__ import annotations

import hmac
import struct
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from perdure import quick
from perdure.errors import DamageError
from perdure.log.origin import writer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perdure.log.origin import Base

KINDS: Final = {
    "opened": 1,
    "owned": 2,
    "saved": 3,
    "keyframe": 4,
    "action_started": 5,
    "action_finished": 6,
    "settled": 7,
    "rolled_back": 8,
    "value": 9,
    "status": 10,
    "asked": 11,
    "answered": 12,
    "received": 13,
    "migrated": 14,
    "edited": 15,
    "amended": 16,
    "note": 17,
}
"""Number of each kind of record, as stored. Numbers are never used again for another kind."""

KIND_NAMES: Final = {number: name for name, number in KINDS.items()}

GENESIS: Final = bytes(32)
"""The chain digest before the first record."""

_HEADER = struct.Struct(">QQBQ")
_STUB: Final = b"\xd5D"
_DIGEST_END: Final = 2 + 32
_REPLACED: Final = b"\xd5R"
_IN_PLACE: Final = (_STUB, _REPLACED)

STUB_BYTES: Final = _DIGEST_END
"""What stands for a body that was dropped takes so much."""


@quick.dataclass(frozen=True, slots=True)
class Record:
    """One entry of a log. `seq` counts from 1 without gaps; `time_us` is for people, never for order."""

    session: str
    seq: int
    epoch: int
    kind: str
    time_us: int
    body: bytes
    chain: bytes


def stub(body: bytes) -> bytes:
    """What stands in the place of a body that was dropped: its digest, so that the chain can still be proved."""
    return _STUB + body_digest(body)


def is_stub(body: bytes) -> bool:
    """Whether the body itself is gone. Whether that is lawful only the log says (`log.dropped`)."""
    return len(body) == _DIGEST_END and body.startswith(_STUB)


def replacing(old: bytes, frame: bytes) -> bytes:
    """The body that stands for `old` from now on: the digest of that one, so that the chain stays, and this frame."""
    return _REPLACED + body_digest(old) + frame


def is_replaced(body: bytes) -> bool:
    """Whether another body was there. Whether this one is lawful only the log says (`log.replaced`)."""
    return body.startswith(_REPLACED)


def frame_of(body: bytes) -> bytes:
    """The frame of a body that is there."""
    return body[_DIGEST_END:] if is_replaced(body) else body


def body_digest(body: bytes) -> bytes:
    """SHA-256 of the body as it was first written, also when it was dropped or replaced: 32 bytes."""
    if body.startswith(_IN_PLACE) and (is_stub(body) or is_replaced(body)):
        return body[len(_STUB) : _DIGEST_END]
    return sha256(body).digest()


def chain_digest(
    previous: bytes,
    *,
    session: str,
    seq: int,
    epoch: int,
    kind: str,
    time_us: int,
    body: bytes,
    key: bytes | None = None,
) -> bytes:
    """SHA-256 over the previous chain digest, the header and the digest of the body: 32 bytes.

    With the `key` of a sealed store (`Store.chain_key`) it is HMAC-SHA256 under that: nobody else can make one.
    """
    name = session.encode()
    header = _HEADER.pack(seq, epoch, KINDS[kind], time_us)
    chained = previous + len(name).to_bytes(2, "big") + name + header + body_digest(body)
    return sha256(chained).digest() if key is None else hmac.digest(key, chained, "sha256")


def chained(
    previous: bytes,
    *,
    session: str,
    seq: int,
    epoch: int,
    kind: str,
    time_us: int,
    body: bytes,
    key: bytes | None = None,
) -> Record:
    """The record that follows the one whose chain digest is `previous`."""
    chain = chain_digest(
        previous, session=session, seq=seq, epoch=epoch, kind=kind, time_us=time_us, body=body, key=key
    )
    return Record(session, seq, epoch, kind, time_us, body, chain)


def rechained(record: Record, previous: bytes, *, key: bytes | None) -> Record:
    """The same record as it follows another one in a log whose chain has another key, or none."""
    return chained(
        previous,
        session=record.session,
        seq=record.seq,
        epoch=record.epoch,
        kind=record.kind,
        time_us=record.time_us,
        body=record.body,
        key=key,
    )


def verified(
    records: Iterable[Record],
    *,
    session: str,
    after: int,
    previous: bytes,
    bases: tuple[Base, ...] = (),
    key: bytes | None = None,
) -> Iterator[Record]:
    """The same records, each checked against the one before it.

    `after` and `previous` are the number and the chain digest that the first one must follow; `bases` are whose records
    the log of a fork begins with; `key` is that of its chain, if it has one. Raises `DamageError`, which names the
    first record that is missing, foreign, out of order or changed.
    """
    for record in records:
        after += 1
        writer = writer_of(after, session=session, bases=bases) if bases else session
        if record.session != writer or record.seq != after:
            raise DamageError(f"{session}: record {after} is missing; in its place is {record.session} #{record.seq}")
        digest = chain_digest(
            previous,
            session=writer,
            seq=after,
            epoch=record.epoch,
            kind=record.kind,
            time_us=record.time_us,
            body=record.body,
            key=key,
        )
        if digest != record.chain:
            raise DamageError(f"{session}: record {after} ({record.kind}) is not what was written")
        previous = digest
        yield record
