"""The re-entry point at which the code starts from its top, and what it is answered with after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure import quick
from perdure.errors import RestoreError
from perdure.log.branch import REPLACING, SNAPSHOTS, branch, is_open, is_reentry, open_at

if TYPE_CHECKING:
    from perdure.log.entry import Entry
    from perdure.log.summary import Summary
    from perdure.session.keeping.snapshot import Reader, Snapshot


@quick.dataclass(frozen=True, slots=True)
class Since:
    """A re-entry point, and what the present branch recorded since, and before it about what was open there."""

    reentry: Entry
    tail: list[Entry]

    @property
    def is_replaced(self) -> bool:
        """Whether another state was put in the place of one from which the code came to restore points since."""
        later = [entry.kind in REPLACING for entry in self.tail if entry.kind in SNAPSHOTS]
        return any(later) and not later[0]

    @property
    def point(self) -> int:
        """The snapshot that the code starts from: the one there, or that put in its place; 0 for the empty state."""
        replaced = [entry.seq for entry in self.tail if entry.kind in REPLACING]
        return replaced[-1] if replaced else self.reentry.seq if self.reentry.kind == "saved" else 0


@quick.dataclass(frozen=True, slots=True)
class Start:
    """Where the code starts from its top.

    The re-entry point, what the present branch recorded since, and before it about what was open there, and the state
    there.
    """

    reentry: Entry
    tail: list[Entry]
    snapshot: Snapshot
    head: int
    epoch: int
    left: bool
    same_code: bool
    point: int = 0
    """The snapshot of that state: the one at the re-entry point, or that put in its place; 0 for the opening."""
    seam: int = 0
    """The last record that a fork has from its base."""
    sent: int = 0
    """The newest item of the inbox, as far as is known."""


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


def point_of(summary: Summary, known: list[Entry]) -> int:
    """The snapshot that the code starts from. `known` are the entries from the newest re-entry point on."""
    if not any(entry.kind in REPLACING for entry in known):
        return summary.reentry
    return next((e.seq for e in reversed(branch(known)) if e.kind in REPLACING), summary.reentry)


def open_there(reader: Reader, reentry: Entry) -> list[Entry]:
    """What was recorded before the re-entry point and can still be claimed after it, and what was recorded about it."""
    there = open_at(reentry)
    if not there:
        return []
    before = branch(reader.entries(after=min(there) - 1, upto=reentry.seq - 1))
    return [entry for entry in before if is_open(entry, there)]
