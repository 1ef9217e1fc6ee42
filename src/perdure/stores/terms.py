"""The terms in which one speaks with a store: what is written, what is known of a session, who may write.

They are values, which know nothing of the store that they are given to or come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perdure import quick
from perdure.log import Base, Record
from perdure.log.branch import kind_of


@quick.dataclass(frozen=True, slots=True)
class Point:
    """The index row of one snapshot.

    `parent` is the seq of the snapshot it came from, 0 for none. `flags` are those of `log.branch`:
    re-entry point, restore point, for inspection.
    """

    seq: int
    parent: int
    flags: int
    name: str | None
    time_us: int

    @property
    def kind(self) -> str:
        """restore-point, inspection, automatic or replaced (`log.branch.KINDS`). Only the first is gone back to."""
        return kind_of(self.flags)


@quick.dataclass(frozen=True, slots=True)
class Batch:
    """What one append writes, all of it or nothing.

    `points`, `keyframes` (seq of the snapshot, seq of the keyframe's record) replace what the index has under the same
    seq; `marks` (mark, seq) are added to the look-up index. `summary` is shown in listings; an empty one leaves the
    last. `taken` are the numbers of the items that leave the inbox with it. `chunks` are kept as `put_chunks` does, and
    are there before anybody sees the records.
    """

    records: tuple[Record, ...]
    points: tuple[Point, ...] = ()
    marks: tuple[tuple[bytes, int], ...] = ()
    keyframes: tuple[tuple[int, int], ...] = ()
    summary: bytes = b""
    taken: tuple[int, ...] = ()
    chunks: Mapping[bytes, bytes] = field(default_factory=dict)
    views: tuple[str, ...] = ()
    """For a store that is `readable`: what each record says, a JSON object as ASCII text on one line. It is for people,
    and never read back."""

    envelope: bytes | None = None
    """Of an opening that makes a session: what `put_envelope` would put beside the family that it founds."""


@dataclass(frozen=True, slots=True)
class Item:
    """What somebody sent to a session and nobody has taken yet. Numbers count from 1, in the order of sending."""

    number: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """What an amendment changes of what is there already.

    `bodies` (seq, bytes) stand from then on in the place of those of these records. The rows of the snapshots in
    `points` and `keyframes`, and these `marks` (mark, seq), leave their index. `chunks` are kept as `put_chunks` does.
    """

    bodies: tuple[tuple[int, bytes], ...] = ()
    points: tuple[int, ...] = ()
    keyframes: tuple[int, ...] = ()
    marks: tuple[tuple[bytes, int], ...] = ()
    chunks: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Health:
    """What a place says of itself, without looking at sessions. None: it has no such thing.

    `problems` are faults of the place itself; `settings` are those of a server under which an acknowledgement means
    less than it could, each with what to do. `used` is what the place takes, `unused` what of that could be given back,
    `log` what its write-ahead log takes, `free` what the disk has left: all in bytes.
    """

    problems: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    used: int | None = None
    unused: int | None = None
    log: int | None = None
    free: int | None = None


@quick.dataclass(frozen=True, slots=True)
class Head:
    """Where a log ends: `seq` 0 and 32 zero bytes of `chain` for an empty one. `epoch` is that of the newest lease.

    `bases` are the places that a fork goes on from, the oldest first; none for a session that is no fork.
    """

    session: str
    family: str
    seq: int
    chain: bytes
    epoch: int
    summary: bytes
    bases: tuple[Base, ...] = ()

    @property
    def base(self) -> Base | None:
        """The place that a fork goes on from."""
        return self.bases[-1] if self.bases else None


@quick.dataclass(frozen=True, slots=True)
class Lease:
    """Who may write. `counter` moves with each renewal; `owner` is "" when nobody holds the session."""

    session: str
    epoch: int
    owner: str
    counter: int


@quick.dataclass(frozen=True, slots=True)
class Held:
    """A session as its new owner has it. `sent` is the number of the newest item that was ever sent to it."""

    lease: Lease
    sent: int = 0
