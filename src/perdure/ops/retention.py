"""Which records of a session may lose their bodies, and which stay whatever the policy says.

Pure: it judges facts, reads nothing and writes nothing. `docs/housekeeping.md` has the rules in words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from perdure import limits
from perdure.errors import RefusedError
from perdure.log.branch import AUTOMATIC, REENTRY, RESTORE_POINT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from perdure.ops.facts import Facts

DROPPED: Final = frozenset(
    {"saved", "keyframe", "action_started", "action_finished", "settled", "value", "owned", "status", "received"}
)
"""The kinds whose bodies may go. All others are small, or say what the session is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What stays of a store beside what always stays (`docs/housekeeping.md`). None: nothing is done for that reason.

    Raises `RefusedError` for what is below 0.
    """

    keep_last: int | None = limits.KEEP_LAST_COUNT
    """The newest restore points of the present branch of each session, beyond the checkpoints."""
    keep_s: float | None = None
    """An age in seconds: what is younger stays, too."""
    bytes_max: int | None = None
    """Bounds the bodies and chunks of the whole store, in bytes: beyond it the points of the sessions that were written
    to longest ago go, those that the other two would keep among them."""
    ended_s: float | None = None
    """For how long a session stays that is over (completed or cancelled), in seconds; then all of it is erased."""

    def __post_init__(self) -> None:
        for name in ("keep_last", "keep_s", "bytes_max", "ended_s"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise RefusedError(f"{name} is 0 or more, not {value}")


EVERYTHING: Final = Retention(keep_last=None, keep_s=float("inf"))
"""Under this every snapshot stays."""

LEAST: Final = Retention(keep_last=0)
"""Under this only what always stays does."""


@dataclass(slots=True)
class Stay:
    """What stays of a session: snapshots that can be gone back to, or that such ones are made from; all its records."""

    snapshots: set[int] = field(default_factory=set)
    records: set[int] = field(default_factory=set)


def asked_for(facts: Facts, policy: Retention, *, now_us: int, pinned: int) -> set[int]:
    """The snapshots that stay for their own sake. `pinned`: all up to this record belong to forks, too."""
    found = {seq for seq in facts.named if seq in facts.points}
    found |= {seq for seq in facts.points if seq <= pinned or seq >= facts.summary.reentry}
    found -= {seq for seq in automatic(facts)[:-1] if seq > pinned}
    found |= {facts.summary.parent, facts.summary.reentry} & facts.points.keys()
    if policy.keep_s is not None:
        found |= {seq for seq in facts.points if seq >= _oldest_young(facts, policy.keep_s, now_us=now_us)}
    mine = (seq for seq in lineage(facts, facts.summary.parent) if facts.points[seq].flags & RESTORE_POINT)
    return found | set(islice((seq for seq in mine if seq not in facts.named), policy.keep_last or 0))


def automatic(facts: Facts) -> list[int]:
    """The snapshots that nobody asked for, in order. The code never meets them again, and nothing comes from one."""
    return sorted(seq for seq, point in facts.points.items() if point.flags & AUTOMATIC)


def _oldest_young(facts: Facts, keep_s: float, *, now_us: int) -> float:
    """The first snapshot that is younger than this. Those after it count as no older, whatever their clock said."""
    young = (seq for seq, point in facts.points.items() if now_us - point.time_us < keep_s * 1e6)
    return min(young, default=float("inf"))


def lineage(facts: Facts, seq: int) -> Iterator[int]:
    """A snapshot and those that it came from, the newest first, as far as they are still there."""
    while seq in facts.points:
        yield seq
        seq = facts.points[seq].parent


def stay(facts: Facts, snapshots: Collection[int], *, pinned: int) -> Stay:
    """What must stay if these snapshots do; without what they are made from (`bases`)."""
    found = _points_and_records(facts, snapshots, pinned=pinned)
    oldest = min(found.snapshots, default=facts.head.seq)
    found.records |= {seq for seq, kind in facts.kinds.items() if kind == "received" and seq > oldest}
    for start, records in facts.actions.items():
        if _is_kept(facts, start, records, oldest=oldest, keep=found.records):
            found.records.update(records)
    return found


def _points_and_records(facts: Facts, snapshots: Collection[int], *, pinned: int) -> Stay:
    """Every snapshot that stays is one to go back to, with all that the code is answered with there."""
    found = Stay(set(snapshots))
    keep = found.records
    keep |= (
        facts.marked | facts.leaving | facts.untaken | {seq for seq, kind in facts.kinds.items() if kind not in DROPPED}
    )
    keep.update(range(1, pinned + 1))
    keep.update(range(facts.summary.reentry, facts.head.seq + 1))
    keep |= {_newest(facts, "owned"), _newest(facts, "status")}
    known = -1
    while known < len(found.snapshots):
        known = len(found.snapshots)
        for first, last in _answered(facts, found.snapshots):
            keep.update(range(first, last + 1), facts.open.get(first, ()))
        found.snapshots |= {seq for seq in facts.points if seq in keep}
    free = {seq for seq in automatic(facts) if seq > pinned}.difference(snapshots)
    found.snapshots -= free
    keep -= free
    return found


def _answered(facts: Facts, snapshots: Collection[int]) -> Iterator[tuple[int, int]]:
    """From where to where the records go that the code is answered from when it goes back to one of these."""
    entered: dict[int, int] = {}
    for seq, point in sorted(facts.points.items()):
        entered[seq] = seq if point.flags & REENTRY else entered.get(point.parent, 1)
    ends = {entered[seq]: seq for seq in sorted(snapshots)}
    yield from ends.items()


def _is_kept(facts: Facts, start: int, records: list[int], *, oldest: int, keep: set[int]) -> bool:
    """Whether an action stays, all of it: one is never cut in two."""
    if start in facts.doubtful or start in facts.standing or start in facts.referred:
        return True
    return (start in facts.serious and start > oldest) or not keep.isdisjoint(records)


def _newest(facts: Facts, kind: str) -> int:
    return max((seq for seq, one in facts.kinds.items() if one == kind), default=0)


def dropped(facts: Facts, kept: Stay) -> list[tuple[int, ...]]:
    """What may go, in pieces that go together, the newest first: what is older never needs what is newer."""
    gone = [seq for seq, kind in facts.kinds.items() if kind in DROPPED and seq in facts.stubs]
    free = {seq for seq in gone if seq not in kept.records}
    together = {seq: start for start, records in facts.actions.items() for seq in records}
    pieces: dict[int, list[int]] = {}
    for seq in sorted(free):
        pieces.setdefault(together.get(seq, seq), []).append(seq)
    return [tuple(piece) for _, piece in sorted(pieces.items(), reverse=True)]
