"""The records of a log in one file, for programs that read them by a schema. It is for reading, and never taken in.

Each body is what people are shown of it, so without secrets, as exact values again and not as JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure import values
from perdure.log.readable import document
from perdure.ops.portable import new_file
from perdure.session.keeping.snapshot import Reader
from perdure.values.jsontext import tree_of
from perdure.values.wire import Logged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from perdure.stores.contract import Store


def written(path: Path, store: Store, session: str, *, protocol: str) -> int:
    """Writes the file; whole and durable on return, else not there. How many records.

    Raises `ProtocolError` for a protocol without a schema, `RefusedError` when there is a file of that name,
    `SessionUnknownError`, `DamageError`, `StoreFailedError`.
    """
    log, count = values.logs(protocol), 0

    def records() -> Iterator[Logged]:
        nonlocal count
        for count, one in enumerate(_records(store, session), 1):  # noqa: B007  (the last is how many there are)
            yield one

    store.head(session)
    with new_file(path) as out:
        for piece in log.log(records()):
            out.write(piece)
    return count


def _records(store: Store, session: str) -> Iterator[Logged]:
    reader = Reader(store, session)
    for record in reader.records(after=0):
        body = tree_of(document(reader.open(record), session)["body"])
        yield Logged(record.session, record.seq, record.epoch, record.kind, record.time_us, record.chain, body)
