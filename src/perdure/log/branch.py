"""Which records of a log are on its present branch.

A rollback leaves what came after its point; nothing is ever removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.log.action import concerned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.entry import Entry

REENTRY, RESTORE_POINT, INSPECTION = 1, 2, 4
"""Flags of a snapshot: code can start from here; the agent's own code made it; made for people to look at only."""


def leaves(entry: Entry) -> int | None:
    """The record up to which the branch is kept, if this one starts a new branch.

    A rollback, a state edited or migrated, or a failure that names an action (what the code did after the error was
    handed to it is left).
    """
    if entry.kind == "rolled_back":
        return int(entry["to"])
    if entry.kind == "status" and entry["status"] == "failed" and entry["around"]:
        return int(entry["to"])
    return None


def branch(entries: Iterable[Entry]) -> list[Entry]:
    """The entries that are on the present branch, in order.

    Outcomes stay with their start, however late they came; so does that they are void.
    """
    tip: list[Entry] = []
    for entry in entries:
        to = leaves(entry)
        if to is not None:
            tip = [kept for kept in tip if kept.seq <= to or min(concerned(kept), default=to + 1) <= to]
        tip.append(entry)
    return tip


def is_reentry(entry: Entry) -> bool:
    """Whether code can start from its top at this record. The opening of a fork is none: its base has the opening."""
    return (entry.kind == "opened" and entry.seq == 1) or (entry.kind == "saved" and bool(entry["flags"] & REENTRY))


def is_restore_point(entry: Entry) -> bool:
    """Whether the agent's own code made this snapshot."""
    return entry.kind == "saved" and bool(entry["flags"] & RESTORE_POINT)


def is_inspection(entry: Entry) -> bool:
    """Whether this snapshot was made for people to look at only."""
    return entry.kind == "saved" and bool(entry["flags"] & INSPECTION)


@dataclass(frozen=True, slots=True)
class Absence:
    """Something that could not be stored and is missing from snapshot `seq`: where, of which class, and why."""

    seq: int
    path: str
    type: str
    why: str

    def __str__(self) -> str:
        return f"{self.path} ({self.type}): {self.why}"


def is_beside(entry: Entry) -> bool:
    """Whether this snapshot was taken when an error ended the run, or lacks something: no branch ends in it."""
    return "absent" in entry.body


def absent(entry: Entry) -> tuple[Absence, ...]:
    """What is missing from a snapshot."""
    return tuple(Absence(entry.seq, *told) for told in entry.body.get("absent", ()))
