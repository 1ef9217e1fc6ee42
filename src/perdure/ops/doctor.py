"""A store looked over as a whole: what is wrong or odd, how bad it is, and the command that mends it.

It finds and tells, also what it did not read. What it mends on request is safe: nothing that was recorded is changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from perdure import clock, limits
from perdure.errors import (
    ConflictError,
    DamageError,
    FormatNewerError,
    HeldError,
    PerdureError,
    UnfinishedError,
    WitnessError,
)
from perdure.ops.attention import attention, since_text
from perdure.ops.collection import collected, sweep
from perdure.ops.finding import ERROR, NOTE, SEVERITIES, WARNING, Finding, age_s
from perdure.ops.growing import Growth, growth
from perdure.ops.overdue import overdue
from perdure.ops.premises import mb, premises
from perdure.ops.retention import EVERYTHING
from perdure.recovery import restore
from perdure.recovery.loops import circling
from perdure.recovery.rebuild import DERIVED, rebuild
from perdure.recovery.verify import verify
from perdure.session.keeping.lease import is_dead, owner_text
from perdure.session.keeping.opening import check_end, summary_of
from perdure.session.keeping.snapshot import Reader
from perdure.stores.ids import HOUSE

if TYPE_CHECKING:
    from perdure.log.summary import Summary
    from perdure.ops.config.sections import RetentionSettings
    from perdure.stores.contract import Head, Lease, Store

DAY_US: Final = 86_400 * 1_000_000

Fit: TypeAlias = Callable[["Head", "Summary"], Iterable[Finding]]
"""Whether the code that is here can go on with a session: what is wrong with that."""

OnEach: TypeAlias = Callable[[int, int], object]
"""Told of each session that was looked at: how many were, and how many there are."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was found, the gravest first; `sessions` is how many were looked at.

    `records` is how many records they have and `read` how many of them were read; `not_read` says what was not looked
    at, each with the option that looks at it.
    """

    sessions: int
    findings: tuple[Finding, ...]
    records: int = 0
    read: int = 0
    not_read: tuple[tuple[str, str], ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong that is not mended now."""
        return not any(found.severity == ERROR and not found.mended for found in self.findings)

    @property
    def needs_person(self) -> bool:
        """Whether there is anything that somebody must see to."""
        return any(found.needs_person for found in self.findings)


@dataclass(slots=True)
class _Look:
    """How it is looked, and how much was read."""

    deep: bool
    fits: Fit | None
    records: int = 0
    read: int = 0
    not_read: list[tuple[str, str]] = field(default_factory=list)

    def unread(self) -> tuple[tuple[str, str], ...]:
        """What was not looked at."""
        left = []
        if not self.deep:
            older = f"{self.records - self.read:,} of {self.records:,} records, the older ones of long logs; "
            rest = "chunks, states and what needs them; circles of sessions that nobody runs"
            left.append(((older if self.read < self.records else "") + rest, "--deep"))
        if self.fits is None:
            left.append(("whether the code that is here takes their states", "--code recorded"))
        return tuple(left)


def doctor(
    store: Store,
    *,
    deep: bool,
    fix: bool,
    retention: RetentionSettings | None = None,
    fits: Fit | None = None,
    on_each: OnEach = lambda _done, _total: None,
) -> Diagnosis:
    """Looks over all of a store. See `AgentStore.doctor`."""
    look = _Look(deep, fits)
    found, heads = _opened(store, look, retention)
    for done, head in enumerate(heads, 1):
        found += _session(store, head, look)
        on_each(done, len(heads))
    if deep:
        found += _orphans(store, heads)
    if fix:
        found = [_mended(store, heads, one) for one in found]
    found.sort(key=lambda one: (SEVERITIES.index(one.severity), one.session))
    return Diagnosis(len(heads), tuple(found), look.records, look.read, look.unread())


def _opened(store: Store, look: _Look, retention: RetentionSettings | None) -> tuple[list[Finding], list[Head]]:
    """What is found about the place, and the sessions, if they can be had at all."""
    try:
        found, heads = [*premises(store, deep=look.deep)], store.heads()
        found += overdue(store, heads, retention)
    except DamageError as error:
        return [Finding(ERROR, "place", "", str(error))], _heads(store)
    return found, heads


def _heads(store: Store) -> list[Head]:
    try:
        return store.heads()
    except DamageError:
        return []  # what is told of the place says it


# --- sessions ---------------------------------------------------------------------------------------------------------


def _session(store: Store, head: Head, look: _Look) -> list[Finding]:
    look.records += head.seq
    told = None
    try:
        told = _summary(head) if head.seq else None
        newest = _newest(store, head, look)
        found = [] if newest is not None and not look.deep else [*_verified(store, head, look)]
        found += _state(store, head, told, newest or 0.0, look)
    except PerdureError as error:
        found = [_met(head.session, error)]
    since = None if told is None else age_s(told.updated_us)
    return [one if one.age_s is not None else replace(one, age_s=since) for one in found]


def _met(session: str, error: PerdureError) -> Finding:
    match error:
        case FormatNewerError():
            return Finding(WARNING, "newer", session, f"{error}; read it with that version")
        case WitnessError():
            return Finding(ERROR, "witness", session, str(error))
        case UnfinishedError():
            return Finding(NOTE, "unfinished", session, str(error))
        case _:
            return Finding(ERROR, "damage", session, str(error), ("verify", session))


def _newest(store: Store, head: Head, look: _Look) -> float | None:
    """The bytes that one of its newest records takes, which were read, with the head and the indexes; None: damage."""
    size = count = 0
    try:
        store.head(head.session)
        if head.seq:
            check_end(store, head.session, head)
            restore.points(store, head.session)
            reader = Reader(store, head.session, head=head)
            reader.check_marks()
            after = max(0, head.seq - limits.LOOK_RECORDS)
            for record in reader.records(after=after, upto=head.seq, chain=head.chain):
                size, count = size + len(record.body), count + 1
                if record.seq == head.seq:
                    reader.open(record)
    except (FormatNewerError, UnfinishedError, WitnessError):
        raise
    except DamageError:
        return None
    look.read += 0 if look.deep else count
    return size / max(1, count)


def _verified(store: Store, head: Head, look: _Look) -> Iterator[Finding]:
    session, report = head.session, verify(store, head.session)
    look.read += min(report.read.records, head.seq)
    for problem in report.problems:
        if problem.kind in DERIVED and all(one.kind in DERIVED for one in report.problems):
            yield Finding(ERROR, "index", session, str(problem), ("doctor", "--fix"))
        elif problem.kind == "keyframe":
            yield Finding(WARNING, "keyframe", session, f"{problem}; its states are made from the deltas, slower")
        else:
            mend = ("doctor", session, "--go-on", f"{session} mended")
            yield Finding(ERROR, "damage", session, str(problem), mend)


def _state(store: Store, head: Head, told: Summary | None, record_bytes: float, look: _Look) -> Iterator[Finding]:
    session, lease = head.session, store.lease(head.session)
    if (told is None or session in HOUSE) and lease.owner and is_dead(lease.owner):
        yield Finding(NOTE, "owner", session, f"its owner is gone ({owner_text(lease.owner)})", ("doctor", "--fix"))
    if not head.seq:
        if (not lease.owner or is_dead(lease.owner)) and not store.inbox(session):
            yield Finding(NOTE, "empty", session, "nothing was ever written to it", ("erase", session, "--yes"))
        return
    if told is not None:
        yield from _told(store, head, told, lease, record_bytes)
        if look.fits is not None:
            yield from look.fits(head, told)
    if look.deep or lease.owner:
        yield from _circles(store, head)


def _told(store: Store, head: Head, told: Summary, lease: Lease, record_bytes: float) -> Iterator[Finding]:
    """What follows from the summary."""
    ahead_us = told.updated_us - clock.now_us()
    if ahead_us > DAY_US:
        what = (
            f"it was written {ahead_us / DAY_US:.0f} days in the future: a clock is or was wrong, and ages mislead gc"
        )
        yield Finding(WARNING, "clock", head.session, what)
    if head.session in HOUSE:
        return
    yield from attention(store, told, lease, session=head.session)
    if head.seq > limits.GROWN_RECORDS:
        what = f"its log has {head.seq:,} records: what is old can go"
        yield Finding(NOTE, "grown", head.session, what, _collect(head.session), age_s=age_s(told.created_us))
    grows = growth(store, head, told, record_bytes=record_bytes)
    if grows is not None and grows.is_fast:
        yield _growing(head.session, grows, store.health(deep=False).free)


def _growing(session: str, grows: Growth, free: int | None) -> Finding:
    lasts = (
        f"; the {mb(free)} that the disk has left are full of it in {_days(free, grows)}" if free is not None else ""
    )
    what = (
        f"its log grows by {grows.records_day:,.0f} records and {mb(grows.bytes_day)} a day "
        f"(of its newest {grows.records:,} records){lasts}: let what is old go, by a schedule"
    )
    return Finding(WARNING, "growing", session, what, _collect(session), age_s=grows.span_s)


def _days(free: int, grows: Growth) -> str:
    return f"{free / max(1.0, grows.bytes_day):,.0f} days"


def _collect(session: str) -> tuple[str, ...]:
    return ("gc", session, "--keep-last", "100")


def _circles(store: Store, head: Head) -> Iterator[Finding]:
    """Whether the newest records of a session that goes on show that it goes in circles."""
    after = max(0, head.seq - limits.PROGRESS_RECORDS)
    found = circling(Reader(store, head.session).sound(after=after, upto=head.seq))
    if found is not None:
        what = f"it goes in circles: {found} (records {found.first} to {found.last})"
        first = store.read_at(head.session, [found.first])[0]
        since = f", for {since_text(first.time_us)}"
        yield Finding(
            WARNING, "circling", head.session, what + since, ("show", head.session), age_s=age_s(first.time_us)
        )


def _summary(head: Head) -> Summary | None:
    try:
        return summary_of(head, head.session)
    except UnfinishedError:
        raise
    except DamageError:
        return None  # told by verify


# --- chunks -----------------------------------------------------------------------------------------------------------


def _orphans(store: Store, heads: list[Head]) -> Iterator[Finding]:
    for family, members in _families(heads).items():
        found = collected(store, members[0], EVERYTHING, dry_run=True)
        if found.chunks:
            what = f"{found.chunks} chunks of its family ({mb(found.chunk_bytes)}) are needed by nothing"
            yield Finding(NOTE, "orphans", family, what, ("doctor", "--fix"))


def _families(heads: list[Head]) -> dict[str, list[str]]:
    families: dict[str, list[str]] = defaultdict(list)
    for head in heads:
        families[head.family].append(head.session)
    return families


# --- mending ----------------------------------------------------------------------------------------------------------


def _mended(store: Store, heads: list[Head], one: Finding) -> Finding:
    """The finding, mended if that is safe and nobody holds the session."""
    try:
        match one.kind:
            case "owner":
                lease = store.lease(one.session)
                if not (lease.owner and is_dead(lease.owner)):
                    return one  # there is nothing to give back; or one of another machine, who may come back
                store.release(lease)
            case "index":
                rebuild(store, one.session)
            case "orphans":
                _, why = sweep(store, _families(heads)[one.session])
                return replace(one, mended=not why)
            case "unused":
                collected(store, None, EVERYTHING, dry_run=False)
            case _:
                return one
    except (HeldError, ConflictError):
        return one
    return replace(one, mended=True)
