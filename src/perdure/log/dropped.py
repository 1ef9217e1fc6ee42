"""Bodies that were lawfully dropped: what stands in their place, and which ones the log says are gone.

A record whose body was dropped keeps its header and its chain digest, so all that follows it can still be proved. Only
an `amended` record makes it lawful: a body that is gone without one is damage.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from perdure.log.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.log.record import Record
    from perdure.log.summary import Summary

MARK: Final = b"amended"
"""What the records that tell of dropped bodies can be looked up by."""

KIND: Final = "dropped"
"""The kind of the entry of a record without its body. It is never stored: folds pass over it."""

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

Range = tuple[int, int]
"""The first and the last of numbers without a gap."""


def entry_of(record: Record) -> Entry:
    """What stands for a record whose body was dropped: it says only what kind it was."""
    return Entry(record.seq, record.epoch, KIND, record.time_us, {"was": record.kind})


def kind_of(entry: Entry) -> str:
    """The kind that a record is of, or was of before its body was dropped."""
    return str(entry["was"]) if entry.kind == KIND else entry.kind


def body(
    ranges: Iterable[Range],
    *,
    reason: str,
    summary: Summary,
    replaced: Iterable[tuple[int, bytes]] = (),
    spent: Mapping[str, float] = NOTHING,
    own: Mapping[str, tuple[int, int]] = NOTHING,
) -> dict[str, Any]:
    """The body of an `amended` record: which bodies go, and what of the summary can no longer be folded without them.

    `summary` is the one before it, its `points` already as they are then. `replaced` are bodies that give way to others
    (see `log.replaced`). `spent` is what the actions that go have cost, by unit; `own` has of those of the agent's own
    code, by name, how many began and how many microseconds they took.
    """
    told: dict[str, Any] = {"replaced": [list(pair) for pair in replaced]} if replaced else {}
    told |= {"spent": dict(spent)} if spent else {}
    told |= {"own": {name: list(pair) for name, pair in own.items()}} if own else {}
    return told | {
        "dropped": [list(pair) for pair in ranges],
        "reason": reason,
        "saves": summary.saves,
        "actions": summary.actions,
        "codes": list(summary.codes),
        "keyframe": list(summary.keyframe),
        "points": summary.points,
    }


def ranges(seqs: Iterable[int]) -> list[Range]:
    """These numbers, ascending, as ranges."""
    found: list[Range] = []
    for seq in seqs:
        if found and seq == found[-1][1] + 1:
            found[-1] = found[-1][0], seq
        else:
            found.append((seq, seq))
    return found


class Dropped:
    """The numbers of the records whose bodies `amended` records say are gone. `upto` bounds what they may speak of."""

    def __init__(self, entries: Iterable[Entry] = (), *, upto: int | None = None) -> None:
        spoken = [(first, last) for e in entries if e.kind == "amended" for first, last in e["dropped"]]
        self._ranges = _merged(spoken if upto is None else [(a, min(b, upto)) for a, b in spoken if a <= upto])
        self._firsts = [first for first, _ in self._ranges]

    def __contains__(self, seq: int) -> bool:
        place = bisect_right(self._firsts, seq) - 1
        return place >= 0 and seq <= self._ranges[place][1]

    def __or__(self, other: Dropped) -> Dropped:
        both = Dropped()
        both._ranges = _merged([*self._ranges, *other._ranges])
        both._firsts = [first for first, _ in both._ranges]
        return both


def _merged(spoken: Iterable[Range]) -> list[Range]:
    found: list[Range] = []
    for first, last in sorted(spoken):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found
