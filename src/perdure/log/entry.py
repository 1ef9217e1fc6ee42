"""A record with its body opened: what the folds read.

`Body` is a plain dict; what belongs to the user inside it (results, arguments, deltas) stays encoded bytes until
somebody needs it, so that folding a log never meets a class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure import values
from perdure.errors import DamageError
from perdure.log.record import chained

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.log.record import Record

Body: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One record, opened."""

    seq: int
    epoch: int
    kind: str
    time_us: int
    body: Body

    def __getitem__(self, field: str) -> Any:
        return self.body[field]


def sealed(
    body: Body,
    *,
    codec: str = "msgpack",
    dictionary: values.Dictionary | None = None,
    blobs: values.Blobs | None = None,
) -> bytes:
    """The frame that holds this body; its large leaves go to `blobs`, if it is given."""
    data = values.packed(body) if codec == "msgpack" else values.encode(body, codec=codec)
    seal = values.seal if blobs is None else blobs.seal
    return seal(data, codec=codec, dictionary=dictionary)


def opened(
    record: Record,
    *,
    dictionary: Callable[[bytes], values.Dictionary] | None = None,
    chunk: Callable[[bytes], bytes] | None = None,
) -> Entry:
    """The entry of a record, with the chunks that its body needs found by their addresses.

    Raises `DamageError`, which names the record (and the chunk), when the body cannot be read.
    """
    try:
        codec, data = values.unseal(record.body, dictionary=dictionary, chunk=chunk)
        body = values.decode(data, codec=codec)
    except DamageError as error:
        raise type(error)(f"{record.session}: record {record.seq} ({record.kind}): {error}") from error
    return Entry(record.seq, record.epoch, record.kind, record.time_us, body)


def link(
    previous: bytes,
    entry: Entry,
    *,
    session: str,
    dictionary: values.Dictionary | None = None,
    blobs: values.Blobs | None = None,
    key: bytes | None = None,
) -> Record:
    """The record of an entry that follows the one whose chain digest is `previous`."""
    return chained(
        previous,
        session=session,
        seq=entry.seq,
        epoch=entry.epoch,
        kind=entry.kind,
        time_us=entry.time_us,
        body=sealed(entry.body, dictionary=dictionary, blobs=blobs),
        key=key,
    )
