"""The restore points of a log: which are on its present branch, what they are called, and which one is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.errors import NoPointError
from perdure.log import dropped
from perdure.log.branch import branch, is_reentry, is_restore_point

if TYPE_CHECKING:
    from perdure.log.entry import Entry

CHECKPOINT: Final = "checkpoint"
"""The topic of a note that names a restore point after it was made."""


def names(entries: list[Entry]) -> dict[str, int]:
    """The names of the restore points of the present branch, each with the newest point that bears it."""
    there = {entry.seq for entry in branch(entries) if is_restore_point(entry)}
    found: dict[str, int] = {}
    for entry in entries:
        name, seq = naming(entry)
        if name is not None and seq in there:
            found[name] = seq
    return found


def naming(entry: Entry) -> tuple[str | None, int]:
    """The name that a record gives to a restore point, and that point; (None, 0) for one that names none."""
    if entry.kind == "note" and entry.body.get("topic") == CHECKPOINT:
        return entry["name"], entry["of"]
    return (entry["name"], entry.seq) if is_restore_point(entry) else (None, 0)


def reason_of(entry: Entry) -> str:
    """Why a snapshot was made, for people."""
    if entry.kind == "migrated":
        return f"migrated from {version_text(entry['from'])} to {version_text(entry['to'])}"
    reason = entry["reason"] or ""
    if entry.kind == "edited":
        return f"edited by {entry['by']}" + (f": {reason}" if reason else "")
    return reason


def version_text(version: str) -> str:
    """A version of an agent, as people read it."""
    return version or "no version"


def find(entries: list[Entry], at: int | str) -> Entry:
    """The point that is meant: a name (its newest), a number, -1 the newest restore point, 0 the re-entry point.

    `entries` is the whole log; only points of the present branch count. Raises `NoPointError`, which lists them.
    """
    tip = branch(entries)
    points = {entry.seq: entry for entry in tip if is_restore_point(entry)}
    if at == 0 or (at == -1 and not points):
        return next(entry for entry in reversed(tip) if is_reentry(entry))
    named = names(entries)
    seq = next(reversed(points)) if at == -1 else named.get(at) if isinstance(at, str) else at
    if seq in points:
        return points[seq]
    bearing = {number: name for name, number in named.items()}
    known = ", ".join(f"{n} ({bearing[n]})" if n in bearing else f"{n}" for n in [*points][-20:])
    gone = any(entry.seq == at and entry.kind == dropped.KIND for entry in entries)
    why = f"retention dropped restore point {at}" if gone else f"no restore point {at!r} on this branch"
    raise NoPointError(f"{why}; there are: {known or 'none yet'}")
