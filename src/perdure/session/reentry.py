"""The re-entry point at which the code starts from its top, and what it is answered with after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.errors import RestoreError
from perdure.log.branch import SNAPSHOTS, branch, is_open, is_reentry, open_at

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.log.summary import Summary
    from perdure.session.snapshot import Reader


@dataclass(frozen=True, slots=True)
class Since:
    """A re-entry point, and what the present branch recorded since, and before it about what was open there."""

    reentry: Entry
    tail: list[Entry]

    @property
    def point(self) -> int:
        """The snapshot there; 0 for the empty state of the opening."""
        return self.reentry.seq if self.reentry.kind in SNAPSHOTS else 0


def since(reader: Reader, summary: Summary, known: list[Entry]) -> Since:
    """The newest re-entry point. `known` are the entries from it on. Raises `RestoreError` if it is not the newest."""
    tail = branch(known)
    if not tail or tail[0].seq != summary.reentry or not is_reentry(tail[0]):
        raise RestoreError(
            f"{reader.session}: record {summary.reentry} is not a re-entry point; run: perdure verify {reader.session}"
        )
    if any(is_reentry(entry) for entry in tail[1:]):
        raise RestoreError(
            f"{reader.session}: the re-entry point beside the head is old; run: perdure verify {reader.session}"
        )
    return Since(tail[0], [*open_there(reader, tail[0]), *tail[1:]])


def open_there(reader: Reader, reentry: Entry) -> list[Entry]:
    """What was recorded before the re-entry point and can still be claimed after it, and what was recorded about it."""
    there = open_at(reentry)
    if not there:
        return []
    before = branch(reader.entries(after=min(there) - 1, upto=reentry.seq - 1))
    return [entry for entry in before if is_open(entry, there)]
