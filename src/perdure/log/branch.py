"""Which records of a log are on its present branch, and which of them its code can still claim.

A rollback leaves what came after its point; nothing is ever removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perdure.log.action import concerned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perdure.log.entry import Entry

SNAPSHOTS: Final = frozenset({"saved", "edited", "migrated"})
"""The kinds of record that have a parent and a delta."""

REPLACING: Final = frozenset({"edited", "migrated"})
"""Those of them that put another state in the place of the one at the re-entry point that they are about."""

REENTRY, RESTORE_POINT, INSPECTION, AUTOMATIC = 1, 2, 4, 8
"""Flags of a snapshot: code can start from here; the agent's own code made it; made for people to look at only; and not
asked for by anybody, but by what the agent declares."""


KINDS: Final = ("restore-point", "inspection", "automatic", "replaced")
"""What a snapshot can be: made by the code to go back to; asked for, or left by an error, to be looked at; made by a
policy, to be looked at; put in the place of another, by a person or a migration."""


def kind_of(flags: int) -> str:
    """What a snapshot with these flags is: one of `KINDS`."""
    return KINDS[2 if flags & AUTOMATIC else 1 if flags & INSPECTION else 0 if flags else 3]


def leaves(entry: Entry) -> int | None:
    """The record up to which the branch is kept, if this one starts a new branch.

    A rollback, or a failure that names an action (what the code did after the error was handed to it is left).
    """
    if entry.kind == "rolled_back":
        return int(entry["to"])
    if entry.kind == "status" and entry["status"] == "failed" and entry["around"]:
        return int(entry["to"])
    return None


def branch(entries: Iterable[Entry]) -> list[Entry]:
    """The entries that are on the present branch, in order.

    Outcomes stay with their start, however late they came; so does that they are void. What an error leaves is what the
    code did after it, so a state that was put in the place of another stays, and so does what other actions did that
    ran beside it.
    """
    tip: list[Entry] = []
    for entry in entries:
        to = leaves(entry)
        if to is not None and entry.kind == "status":
            tip = list(_without(tip, entry, to=to))
        elif to is not None:
            tip = [kept for kept in tip if _stays(kept, to)]
        tip.append(entry)
    return tip


def _without(tip: list[Entry], failed: Entry, *, to: int) -> Iterator[Entry]:
    """Without what code did after it got the error: the agent's own after `to`, that of actions around it as noted."""
    places, beside = {0: to, **dict(failed.body.get("inside", ()))}, "inside" in failed.body
    stay, left = set[int](), set[int]()
    for entry in tip:
        if starts := concerned(entry):
            stays = any(seq in stay or (seq <= to and seq not in left) for seq in starts)
        else:
            inside = _inside(entry) if beside else 0
            stays = inside not in left and entry.seq <= places.get(inside, entry.seq)
        if stays or entry.kind in REPLACING:
            yield entry
        (stay if stays else left).add(entry.seq)


def _inside(entry: Entry) -> int:
    """The action that a record was made inside of; 0 for the agent's own code."""
    made = entry.kind == "value" or (entry.kind == "action_started" and entry["of"] is None)
    return (made and entry.body.get("parent")) or 0


def _stays(entry: Entry, to: int) -> bool:
    return entry.seq <= to or min(concerned(entry), default=to + 1) <= to


def open_at(entry: Entry) -> frozenset[int]:
    """The records before a re-entry point that the code can still claim after it."""
    return frozenset(entry.body.get("open", ()))


def is_open(entry: Entry, there: frozenset[int]) -> bool:
    """Whether a record is one of those that can be claimed, or says something about one."""
    return bool(there) and (entry.seq in there or not there.isdisjoint(concerned(entry)))


def since_reentry(tip: list[Entry]) -> list[Entry]:
    """What of a branch the code is answered from: all after its newest re-entry point, and what is open there."""
    start = next(entry for entry in reversed(tip) if is_reentry(entry))
    there = open_at(start)
    return [entry for entry in tip if entry.seq > start.seq or is_open(entry, there)]


def is_reentry(entry: Entry) -> bool:
    """Whether code can start from its top at this record. The opening of a fork is none: its base has the opening."""
    return (entry.kind == "opened" and entry.seq == 1) or (entry.kind == "saved" and bool(entry["flags"] & REENTRY))


def is_restore_point(entry: Entry) -> bool:
    """Whether the agent's own code made this snapshot."""
    return entry.kind == "saved" and bool(entry["flags"] & RESTORE_POINT)


def is_inspection(entry: Entry) -> bool:
    """Whether this snapshot was made for people to look at only."""
    return entry.kind == "saved" and bool(entry["flags"] & INSPECTION)


def is_automatic(entry: Entry) -> bool:
    """Whether this snapshot was made because a policy says so."""
    return entry.kind == "saved" and bool(entry["flags"] & AUTOMATIC)


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
    """Whether this snapshot is about the end of a run, lacks something, or is automatic: no branch ends in it."""
    return "absent" in entry.body


def absent(entry: Entry) -> tuple[Absence, ...]:
    """What is missing from a snapshot."""
    return tuple(Absence(entry.seq, *told) for told in entry.body.get("absent", ()))
