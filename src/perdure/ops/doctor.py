"""A store looked over as a whole: what is wrong or odd, how bad it is, and the command that mends it.

It finds and tells. What it mends on request is safe: nothing that was recorded is changed by it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

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
from perdure.ops.attention import attention
from perdure.ops.collection import collected, sweep
from perdure.ops.finding import ERROR, NOTE, SEVERITIES, WARNING, Finding
from perdure.ops.rekey import left
from perdure.ops.retention import EVERYTHING
from perdure.recovery import restore
from perdure.recovery.loops import circling
from perdure.recovery.rebuild import DERIVED, rebuild
from perdure.recovery.verify import verify
from perdure.session.keeping.lease import is_dead, owner_text
from perdure.session.keeping.opening import check_end, summary_of
from perdure.session.keeping.snapshot import Reader
from perdure.stores.witness import WitnessedStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.log.summary import Summary
    from perdure.stores.contract import Head, Health, Store

LOG_BYTES: Final = 64 << 20
DISK_BYTES: Final = 256 << 20
UNUSED_BYTES: Final = 1 << 20
DAY_US: Final = 86_400 * 1_000_000


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was found, the gravest first; `sessions` is how many were looked at."""

    sessions: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong that is not mended now."""
        return not any(found.severity == ERROR and not found.mended for found in self.findings)


def doctor(store: Store, *, deep: bool, fix: bool) -> Diagnosis:
    """Looks over all of a store. See `AgentStore.doctor`."""
    found, heads = _opened(store, deep=deep)
    for head in heads:
        found += _session(store, head, deep=deep)
    if deep:
        found += _orphans(store, heads)
    if fix:
        found = [_mended(store, heads, one) for one in found]
    return Diagnosis(len(heads), tuple(sorted(found, key=lambda one: (SEVERITIES.index(one.severity), one.session))))


def _opened(store: Store, *, deep: bool) -> tuple[list[Finding], list[Head]]:
    """What is found about the place, and the sessions, if they can be had at all."""
    try:
        found, heads = [*_place(store.health(deep=deep)), *_witness(store), *_keys(store)], store.heads()
    except DamageError as error:
        return [Finding(ERROR, "place", "", str(error))], _heads(store)
    return found, heads


def _heads(store: Store) -> list[Head]:
    try:
        return store.heads()
    except DamageError:
        return []  # what is told of the place says it


# --- the place --------------------------------------------------------------------------------------------------------


def _place(health: Health) -> Iterator[Finding]:
    for problem in health.problems:
        yield Finding(
            ERROR, "place", "", f"the file itself is damaged: {problem}; keep it, and copy what is good of it"
        )
    for setting in health.settings:
        yield Finding(WARNING, "settings", "", f"the server is not set up for what is kept on it: {setting}")
    if health.free is not None and health.free < DISK_BYTES:
        yield Finding(WARNING, "disk", "", f"the disk has {_mb(health.free)} left; a full disk refuses saves")
    if health.log is not None and health.log > LOG_BYTES:
        what = f"the write-ahead log has {_mb(health.log)}: some process keeps a transaction open, end it"
        yield Finding(WARNING, "log", "", what)
    if health.unused is not None and health.unused > max(UNUSED_BYTES, (health.used or 0) // 10):
        what = f"{_mb(health.unused)} of {_mb(health.used or 0)} are unused and can be given back"
        yield Finding(NOTE, "unused", "", what, ("doctor", "--fix"))


def _witness(store: Store) -> Iterator[Finding]:
    state = store.witness_state if isinstance(store, WitnessedStore) else None
    if state is not None and state.error:
        what = f"{state.error}; it was not told of the newest of {state.behind} sessions"
        yield Finding(WARNING, "witness", "", what)


def _keys(store: Store) -> Iterator[Finding]:
    """What is left of a rotation. Which families there are is asked only of a store that is sealed."""
    if store.keys is None:
        return
    wrapped, begun = left(store)
    if wrapped:
        what = f"the keys of {len(wrapped)} families are not under the first key given: {wrapped[0]} …"
        yield Finding(NOTE, "keys", "", what, ("rekey",))
    for family in begun:
        what = f"its family {family} was being sealed anew, which did not come to its end"
        yield Finding(NOTE, "keys", family, what, ("rekey", "--data"))


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


# --- sessions ---------------------------------------------------------------------------------------------------------


def _session(store: Store, head: Head, *, deep: bool) -> list[Finding]:
    session = head.session
    try:
        if not _is_sound(store, head) or deep:
            return [*_verified(store, session), *_state(store, head, deep=deep)]
        return [*_state(store, head, deep=deep)]
    except FormatNewerError as error:
        return [Finding(WARNING, "newer", session, f"{error}; read it with that version")]
    except WitnessError as error:
        return [Finding(ERROR, "witness", session, str(error))]
    except UnfinishedError as error:
        return [Finding(NOTE, "unfinished", session, str(error))]
    except PerdureError as error:
        return [Finding(ERROR, "damage", session, str(error), ("verify", session))]


def _is_sound(store: Store, head: Head) -> bool:
    """What can be told without reading the log: head, end, indexes."""
    try:
        store.head(head.session)
        if head.seq:
            check_end(store, head.session, head)
            restore.points(store, head.session)
            reader = Reader(store, head.session)
            reader.check_marks()
            reader.entries(after=head.seq - 1)
    except (FormatNewerError, UnfinishedError, WitnessError):
        raise
    except DamageError:
        return False
    return True


def _verified(store: Store, session: str) -> Iterator[Finding]:
    report = verify(store, session)
    for problem in report.problems:
        if problem.kind in DERIVED and all(one.kind in DERIVED for one in report.problems):
            yield Finding(ERROR, "index", session, str(problem), ("doctor", "--fix"))
        elif problem.kind == "keyframe":
            yield Finding(WARNING, "keyframe", session, f"{problem}; its states are made from the deltas, slower")
        else:
            mend = ("doctor", session, "--go-on", f"{session} mended")
            yield Finding(ERROR, "damage", session, str(problem), mend)


def _state(store: Store, head: Head, *, deep: bool) -> Iterator[Finding]:
    session, lease = head.session, store.lease(head.session)
    if lease.owner and is_dead(lease.owner):
        what = f"its owner is gone ({owner_text(lease.owner)}); it can be resumed"
        yield Finding(NOTE, "owner", session, what, ("doctor", "--fix"))
    if not head.seq:
        if (not lease.owner or is_dead(lease.owner)) and not store.inbox(session):
            yield Finding(NOTE, "empty", session, "nothing was ever written to it", ("erase", session, "--yes"))
        return
    told = _summary(head)
    ahead_us = told.updated_us - clock.now_us() if told is not None else 0
    if ahead_us > DAY_US:
        what = (
            f"it was written {ahead_us / DAY_US:.0f} days in the future: a clock is or was wrong, and ages mislead gc"
        )
        yield Finding(WARNING, "clock", session, what)
    if told is not None:
        yield from attention(store, told, lease, session=session, records=head.seq)
    if deep or lease.owner:
        yield from _circles(store, head)


def _circles(store: Store, head: Head) -> Iterator[Finding]:
    """Whether the newest records of a session that goes on show that it goes in circles."""
    after = max(0, head.seq - limits.PROGRESS_RECORDS)
    found = circling(Reader(store, head.session).sound(after=after, upto=head.seq))
    if found is not None:
        what = f"it goes in circles: {found} (records {found.first} to {found.last})"
        yield Finding(WARNING, "circling", head.session, what, ("show", head.session))


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
            what = f"{found.chunks} chunks of its family ({_mb(found.chunk_bytes)}) are needed by nothing"
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
                store.release(store.lease(one.session))
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
