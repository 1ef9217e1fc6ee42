"""A store at one glance: how many sessions there are and how they stand, what waits, what the place takes.

Its cost is that of a listing: the heads, a lease for each session that says it runs, and the records that people are
waited for with. No log is read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perdure import clock, limits
from perdure.errors import DamageError, SessionErasedError, SessionUnknownError
from perdure.session.keeping.lease import is_held
from perdure.session.keeping.opening import summary_of
from perdure.stores.contract import Health
from perdure.stores.ids import HOUSE

if TYPE_CHECKING:
    from perdure.log.record import Record
    from perdure.log.summary import Summary
    from perdure.stores.contract import Store


@dataclass(slots=True)
class Waits:
    """What waits for people: how much, and since when the oldest of it, in microseconds since 1970; 0 for nothing."""

    count: int = 0
    since_us: int = 0

    def add(self, time_us: int) -> None:
        """One more."""
        self.count += 1
        self.since_us = min(self.since_us or time_us, time_us)

    def age_s(self, now_us: int) -> float:
        """How long the oldest has waited, in seconds."""
        return max(0, now_us - self.since_us) / 1e6 if self.count else 0.0


@dataclass(slots=True)
class Overview:
    """What a look found. `statuses` counts sessions; `ownerless` are those that nobody runs although they were running.

    `took_s` is how long the look took.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    ownerless: Waits = field(default_factory=Waits)
    doubts: Waits = field(default_factory=Waits)
    questions: Waits = field(default_factory=Waits)
    records: int = 0
    largest: int = 0
    health: Health = field(default_factory=Health)
    took_s: float = 0.0


def look_over(store: Store) -> Overview:
    """Looks at a store. Sessions come and go meanwhile. Raises `StoreFailedError`, `ClosedError`."""
    began_s, found = clock.monotonic_s(), Overview(health=store.health(deep=False))
    reads_left = limits.OVERVIEW_READS_COUNT_MAX
    for head in store.heads():
        if head.session in HOUSE or not head.seq:
            continue
        found.records += head.seq
        found.largest = max(found.largest, head.seq)
        try:
            summary = summary_of(head, head.session)
        except DamageError:
            found.statuses["damaged"] += 1
            continue
        found.statuses[_status(store, head.session, summary, found)] += 1
        if summary.waits and summary.status == "waiting":
            reads_left -= _waiting(store, head.session, summary, found, reads_left=reads_left)
    found.took_s = clock.monotonic_s() - began_s
    return found


def _status(store: Store, session: str, summary: Summary, found: Overview) -> str:
    """Its status; `interrupted` if it says that it runs and nobody runs it."""
    if summary.status != "running":
        return summary.status
    try:
        if is_held(store, store.lease(session)):
            return "running"
    except (SessionUnknownError, SessionErasedError):
        return "erased"
    found.ownerless.add(summary.updated_us)
    return "interrupted"


def _waiting(store: Store, session: str, summary: Summary, found: Overview, *, reads_left: int) -> int:
    """Takes in what it waits for, as far as so many records may be read; how many were."""
    seqs = summary.waits[: max(0, reads_left)]
    for record in _records(store, session, seqs):
        (found.questions if record.kind == "asked" else found.doubts).add(record.time_us)
    for _ in summary.waits[len(seqs) :]:
        found.questions.add(summary.updated_us)
    return len(seqs)


def _records(store: Store, session: str, seqs: tuple[int, ...]) -> list[Record]:
    try:
        return store.read_at(session, seqs)
    except (DamageError, SessionUnknownError, SessionErasedError):
        return []
