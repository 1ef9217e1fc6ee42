"""What a mirror still owes: the lines of a store's sessions after the records that it has already."""

from __future__ import annotations

import heapq
import json
from typing import TYPE_CHECKING

from perdure.errors import SessionErasedError, SessionError
from perdure.log.journal import KINDS, Lines
from perdure.log.origin import seam_of
from perdure.ops.journal.mirror import NOWHERE
from perdure.session.keeping.snapshot import Reader
from perdure.stores.conditions import incarnation_of
from perdure.stores.ids import HOUSE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from perdure.log.entry import Entry
    from perdure.ops.journal.mirror import Mirror, Place
    from perdure.stores.contract import Head, Store


def lines_of(store: Store, head: Head, *, after: Place = NOWHERE, is_outline: bool = False) -> Iterator[dict[str, Any]]:
    """The lines of a session up to this head that come after that record; of a fork only what it did itself.

    Raises `DamageError`.
    """
    reader = Reader(store, head.session, head=head)
    seam = seam_of(head.bases)

    def before(start: int, upto: int) -> Iterator[Entry]:
        return (reader.open(record) for record in reader.records(after=start - 1, upto=upto) if record.kind in KINDS)

    lines = Lines(head.session, before=before, is_outline=is_outline)
    # A store that was put back to an older copy goes on from before what was mirrored: then all is looked at again.
    is_going_on = incarnation_of(after[0]) == incarnation_of(head.epoch) and after[1] <= head.seq
    begin = max(after[1], seam) if is_going_on else seam
    for record in reader.records(after=begin, upto=head.seq, chain=head.chain):
        line = lines.take(reader.open(record)) if record.kind in KINDS else None
        if line is not None and (record.epoch, record.seq) > after:
            yield line


def in_time(store: Store) -> Iterator[dict[str, Any]]:
    """The lines of all sessions, those of each in order of its log, and one session's among another's by time."""
    heads = [head for head in store.heads() if head.session not in HOUSE and head.seq]
    return heapq.merge(*(lines_of(store, head) for head in heads), key=lambda line: line["timestamp"])


def encoded(line: dict[str, Any]) -> bytes:
    """A line as it stands in a file: ASCII, without line breaks in it."""
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def behind(store: Store, mirror: Mirror) -> list[Head]:
    """The sessions of which the mirror may owe something, those written to longest ago first."""
    found = (head for head in store.heads() if head.session not in HOUSE and head.seq)
    return [head for head in found if (head.epoch, head.seq) > mirror.known.get(head.session, NOWHERE)][::-1]


def erased(store: Store, mirror: Mirror) -> set[str]:
    """The sessions in the mirror that were erased from the store: no line of them may stay."""
    there = {head.session for head in store.heads()}
    return {session for session in mirror.known.keys() - there if _is_erased(store, session)}


def _is_erased(store: Store, session: str) -> bool:
    try:
        store.head(session)
    except SessionErasedError:
        return True
    except SessionError:
        return False
    return False


def bring(store: Store, mirror: Mirror, head: Head, *, is_outline: bool = False) -> int:
    """Brings a session up to this head into the mirror, in a turn. How many lines were owed. Raises `OSError`."""
    after = mirror.known.get(head.session, NOWHERE)
    found = (
        (head.session, (line["epoch"], line["seq"]), encoded(line))
        for line in lines_of(store, head, after=after, is_outline=is_outline)
    )
    count = mirror.write(found)
    mirror.mark(head.session, (head.epoch, head.seq))
    return count
