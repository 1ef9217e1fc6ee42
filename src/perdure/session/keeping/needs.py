"""Which chunks a record needs to be read: what goes with it when it is taken elsewhere, and what must not be swept.

The one list of the places in which a record names a chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure import values
from perdure.log.record import frame_of, is_stub
from perdure.session.rules import files
from perdure.state import keyframe
from perdure.workspace import tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.log.entry import Entry
    from perdure.log.record import Record
    from perdure.state.chunks import Load

NAMING = frozenset({"keyframe", *files.KINDS})
"""The kinds of record whose bodies name chunks."""


def to_open(record: Record) -> list[bytes]:
    """The addresses of the chunks without which the body cannot be read; none for a body that is gone.

    Those are the dictionary's and those of its large leaves. Raises `DamageError`.
    """
    return [] if is_stub(record.body) else values.named(frame_of(record.body))


def contents(entry: Entry) -> Iterator[bytes]:
    """The addresses of the chunks that the body names, some perhaps more than once. Raises `DamageError`."""
    if entry.kind == "keyframe":
        yield from keyframe.addresses(values.decode(entry["manifest"]))
    yield from files.named(entry)


def behind(entry: Entry, load: Load, seen: set[bytes]) -> Iterator[bytes]:
    """The addresses of the chunks that those of a workspace name in turn, which come before them.

    What is in `seen` is passed over with all that it names. Raises `DamageError`.
    """
    for digest in files.named(entry):
        yield from reversed(list(tree.addresses(digest, load, seen)))
