"""A record with its body opened: what the folds read.

`Body` is a plain dict; what belongs to the user inside it (results, arguments, deltas) stays encoded bytes until
somebody needs it, so that folding a log never meets a class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from perdure import quick, values
from perdure.errors import DamageError
from perdure.log import protocols
from perdure.log.record import chained, frame_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.log.record import Record

Body: TypeAlias = dict[str, Any]


@quick.dataclass(frozen=True, slots=True)
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
    codec: str = values.DEFAULT,
    dictionary: values.Dictionary | None = None,
    blobs: values.Blobs | None = None,
) -> bytes:
    """The frame that holds this body, in the protocol `codec`; its large leaves go to `blobs`, if it is given."""
    data = values.packed(body)
    if codec != values.DEFAULT:
        codec, data = protocols.written(data, codec=codec)
    seal = values.seal if blobs is None else blobs.seal
    return seal(data, codec=codec, dictionary=dictionary)


def opened(
    record: Record,
    *,
    dictionary: Callable[[bytes], values.Dictionary] | None = None,
    chunk: Callable[[bytes], bytes] | None = None,
    pickled: bool = False,
) -> Entry:
    """The entry of a record, with the chunks that its body needs found by their addresses.

    A body in pickle is read if `pickled`: if the bytes are known to be one's own. Raises `DamageError`, which names the
    record (and the chunk), when the body cannot be read; `ProtocolError`.
    """
    try:
        codec, data = values.unseal(frame_of(record.body), dictionary=dictionary, chunk=chunk)
        body = values.decode(data, codec=codec, pickled=pickled)
    except DamageError as error:
        raise type(error)(f"{record.session}: record {record.seq} ({record.kind}): {error}") from error
    return Entry(record.seq, record.epoch, record.kind, record.time_us, body)


def link(
    previous: bytes,
    entry: Entry,
    *,
    session: str,
    codec: str = values.DEFAULT,
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
        body=sealed(entry.body, codec=codec, dictionary=dictionary, blobs=blobs),
        key=key,
    )
