"""The branches of a log: where each began, where it ended, what it is called, and which one is the present one.

A branch is never made on its own: going back begins one, and a change by hand that was given a name; the one before
ends there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from perdure.errors import NoPointError
from perdure.log import dropped
from perdure.log.branch import SNAPSHOTS, branch, is_beside, leaves

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.entry import Entry

LEFT_BEHIND: Final = SNAPSHOTS | {"action_started", "value", "asked", "received"}
"""Kinds of record that make a branch: without one of them nothing was left, and there is one branch less to tell of."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch. `number` counts from 1; `name` is "" for one that was given none.

    `first` is the record that began it and `base` the one up to which it is the same as the branch before; `tip` is its
    last record, `point` its newest snapshot (0: none). `why` and `by` say what began it, and when; `is_present`: the
    session goes on here.
    """

    number: int
    name: str
    first: int
    base: int
    tip: int
    point: int
    why: str
    by: str
    time_us: int
    is_present: bool


def branches(entries: Iterable[Entry]) -> list[Branch]:
    """All branches of a log, in the order in which they began."""
    found: list[Branch] = []
    tip: list[Entry] = []
    for entry in entries:
        to = leaves(entry)
        if not found or _is_named_edit(entry) or (to is not None and _leaves_something(entry, tip, to)):
            base = entry.seq - 1 if to is None else to
            found = [*(replace(each, is_present=False) for each in found), _began(entry, len(found) + 1, base)]
        tip.append(entry)
        tip = branch(tip) if to is not None else tip
        found[-1] = replace(found[-1], tip=entry.seq, point=_point(found[-1].point, entry, to))
    return found


def _leaves_something(entry: Entry, tip: list[Entry], to: int) -> bool:
    return entry.kind != "status" or any(e.seq > to and dropped.kind_of(e) in LEFT_BEHIND for e in tip)


def _is_named_edit(entry: Entry) -> bool:
    return entry.kind == "edited" and bool(entry.body.get("branch"))


def _began(entry: Entry, number: int, to: int) -> Branch:
    why, by, name = "opened", "", ""
    if entry.kind == "rolled_back":
        why, by, name = f"rolled back to {to}", entry["by"], entry.body.get("branch") or ""
        why += f": {entry['reason']}" if entry["reason"] else ""
    elif entry.kind == "edited":
        why, by, name = "edited", entry["by"], entry.body.get("branch") or ""
        why += f": {entry['reason']}" if entry["reason"] else ""
    elif entry.kind == "status":
        why = f"failed: {entry['reason']}"
    return Branch(number, name, entry.seq, to, entry.seq, 0, why, by, entry.time_us, is_present=True)


def _point(point: int, entry: Entry, to: int | None) -> int:
    if entry.kind in SNAPSHOTS and not is_beside(entry):
        return entry.seq
    return point if to is None else int(entry["parent"])


def at_its_end(entries: list[Entry], which: int | str) -> list[Entry]:
    """The entries of the branch of this number or name, as of its last record. Raises `NoPointError`."""
    tip = find(branches(entries), which).tip
    return branch(entry for entry in entries if entry.seq <= tip)


def find(known: list[Branch], meant: int | str) -> Branch:
    """The branch of this number or name (the newest of that name). Raises `NoPointError`, which lists them."""
    for each in reversed(known):
        if meant in (each.number, each.name or None):
            return each
    told = ", ".join(f"{each.number} ({each.name})" if each.name else str(each.number) for each in known)
    raise NoPointError(f"no branch {meant!r}; there are: {told}")
