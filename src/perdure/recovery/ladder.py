"""The rungs of a restore: the newest state, then what is provably good, the best first. What is found, nothing done.

A log of which every record can be read is gone back on: that is a rollback like any other. Where records cannot be read
the log is evidence, and nothing is ever written to it again: another session goes on in its place. It must not know how
either is done, nor who asks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from perdure import values
from perdure.errors import DamageError, FormatNewerError
from perdure.log.branch import REPLACING, SNAPSHOTS, branch, is_reentry, is_restore_point, leaves
from perdure.log.origin import seam_of
from perdure.recovery.history import History, history
from perdure.recovery.rebuild import DERIVED
from perdure.recovery.restore import lineage
from perdure.recovery.restore_policy import AT, EXACT, FRESH_START
from perdure.recovery.verify import STRUCTURE, verify
from perdure.session.keeping.snapshot import Reader, snapshot
from perdure.session.restored import EARLIER, FRESH, PARTIAL, REBUILT, REPLACED, Report, Skipped
from perdure.session.rules.undoing import version_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.log.entry import Entry
    from perdure.recovery.restore_policy import RestorePolicy
    from perdure.stores.contract import Store

UNREADABLE: Final = frozenset({"record", "body", "head"})
"""The kinds of problems that make a log evidence."""


@dataclass(frozen=True, slots=True)
class Rung:
    """Where a session can go on: at this record, told as in the report."""

    at: int
    report: Report
    entries: tuple[Entry, ...] = ()
    """All records of the log that can be read."""
    head: int = 0
    """The last record of the log when it was read: what is done on the log itself is only right there."""
    lost: int = 0
    """How many records that cannot be read may each have been the start of any effect …"""
    lost_keys: int = 0
    """… and how many of one that only counts if it had a key: the state that is gone on from shows the others."""
    begins: bool = False
    """Whether the other session begins with the state at `at`; else with the records up to there."""
    version: str | None = None
    """The version of that state, if it is not that of the opening."""


Check: TypeAlias = "Callable[[History, list[Entry]], str]"
"""Why code cannot go on at the end of a branch, whose states can all be made; "" if it can."""


def rung(store: Store, session: str, policy: RestorePolicy, *, check: Check | None = None) -> Rung | None:
    """The best rung that the policy allows; None if none is better than the session as it is.

    `check` is what else must hold at it. Reads all of the session, and changes nothing. Raises `DamageError` where not
    even that can be read.
    """
    if policy.use in (EXACT, AT):
        return None
    with values.inert():
        problems, found = verify(store, session, data=STRUCTURE).problems, history(store, session)
    good = last_good(found)
    if good <= seam_of(found.head.bases):
        return None  # a fork whose own opening is not proved: whose records come before it is not known, either
    if good < _end(found) or any(problem.kind in UNREADABLE for problem in problems):
        return beside(found, good, why=_why(problems), fresh=policy.use == FRESH_START)
    if any(problem.kind in DERIVED for problem in problems):
        return _rung(found, found.last, Report(REBUILT, _why(problems)))
    return _on_the_log(found, policy, check or (lambda _found, _tip: ""))


def before_the_end(store: Store, session: str) -> Rung:
    """The place before the cancel of one that another was to go on in the place of, and that can be read again."""
    with values.inert():
        found = history(store, session)
    ended = [e.seq for e in found.entries.values() if e.kind == "received" and e["what"] == "cancel"]
    at = (ended[-1] if ended else _end(found)) - 1
    return _rung(found, at, Report(REPLACED, "it can be read again", source=session))


def last_good(found: History) -> int:
    """The last record up to which all are what was written."""
    bad = {problem.seq for problem in found.problems if problem.kind in ("record", "body")}
    last = min(found.last, found.head.seq)
    return next((seq - 1 for seq in range(1, last + 1) if seq not in found.entries or seq in bad), last)


def _end(found: History) -> int:
    return max(found.last, found.head.seq)


def _why(problems: tuple[object, ...]) -> str:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0]}{more}" if problems else ""


def _rung(found: History, at: int, report: Report) -> Rung:
    return Rung(at, report, tuple(found.entries.values()), head=found.head.seq)


# --- on the log of the session itself ---------------------------------------------------------------------------------


def _on_the_log(found: History, policy: RestorePolicy, check: Check) -> Rung | None:
    """Every record can be read: where on the log the code can start."""
    tip = branch(found.entries.values())
    why = fault(found, tip) or check(found, tip)
    if not why:
        return None
    skipped: list[Skipped] = []
    for entry in reversed([entry for entry in tip if is_restore_point(entry)]):
        there = [e for e in tip if e.seq <= entry.seq]
        if not (met := fault(found, there) or check(found, there)):
            return _rung(found, entry.seq, Report(EARLIER, why, tuple(skipped)))
        skipped.append(Skipped(entry.seq, met))
    if not fault(found, tip):
        return None  # nothing is damaged, and what it lacks no other rung has
    other = _other_branch(found, tip, Report(REPLACED, why, tuple(skipped), source=found.reader.session))
    return other or _partial(found, tip, policy, Report(PARTIAL, why, tuple(skipped))) or _fresh(found, policy, skipped)


def fault(found: History, tip: list[Entry]) -> str:
    """Why code cannot go on at the end of this branch; "" if it can: the states that it would need can all be made."""
    return next(filter(None, (_unmade(found, seq) for seq in needed(tip))), "")


def needed(tip: list[Entry]) -> list[int]:
    """The snapshots that a resume reads: the one the code starts from, and the last one it is compared with."""
    start = next((entry for entry in reversed(tip) if is_reentry(entry)), None)
    if start is None:
        return []
    later = [entry for entry in tip if entry.seq > start.seq and entry.kind in SNAPSHOTS]
    replaced = [entry.seq for entry in later if entry.kind in REPLACING]
    points = [entry.seq for entry in later if is_restore_point(entry)]
    return [replaced[-1] if replaced else start.seq, *points[-1:]]


def _other_branch(found: History, tip: list[Entry], report: Report) -> Rung | None:
    """The newest place on a branch that was left: only a session of its own can go on there."""
    here = {entry.seq for entry in tip}
    entries = list(found.entries.values())
    for entry in reversed(entries):
        if is_restore_point(entry) and entry.seq not in here:
            there = branch(e for e in entries if e.seq <= entry.seq)
            if not fault(found, there):
                return _rung(found, entry.seq, report)
    return None


def _partial(found: History, tip: list[Entry], policy: RestorePolicy, report: Report) -> Rung | None:
    """The newest state without the parts that cannot be read. A script has none: its state follows from its code."""
    seqs = needed(tip)  # of two, the second is one that the code's own state is compared with
    if not policy.partial or found.entries[1]["form"] == "script" or len(seqs) != 1:
        return None
    with values.inert():
        missing = missing_parts(found.reader, seqs[0])
    if missing is None:
        return None
    told = Report(report.rung, report.why, report.skipped, missing)
    return _rung(found, found.last, told)


def missing_parts(reader: Reader, seq: int) -> tuple[str, ...] | None:
    """The parts of this snapshot that cannot be read; None if that is all of them, or not even their names are good."""
    try:
        made = snapshot(reader, seq)
    except FormatNewerError:
        raise
    except DamageError:
        return None
    missing = tuple(name for name in made.names if not _has(made, name))
    return missing if len(missing) < len(made.names) else None


def _has(made: object, name: str) -> bool:
    try:
        made.part(name)  # type: ignore[attr-defined]
    except FormatNewerError:
        raise
    except DamageError:
        return False
    return True


def _fresh(found: History, policy: RestorePolicy, skipped: list[Skipped]) -> Rung | None:
    if policy.use != FRESH_START:
        return None
    return _rung(found, 1, Report(FRESH, "no snapshot is provably good", tuple(skipped)))


# --- in another session -----------------------------------------------------------------------------------------------


def beside(found: History, good: int, *, why: str, fresh: bool) -> Rung | None:
    """Records behind `good` cannot be read: where another session can go on. `fresh`: also from the opening alone."""
    entries = list(found.entries.values())
    skipped: list[Skipped] = []
    at = _kept(entries, good)
    while True:
        tip = branch(entry for entry in entries if entry.seq <= at)
        met = fault(found, tip)
        if not met or at < 1:
            break
        skipped.append(Skipped(at, met))
        at = _kept(entries, max(n for n in [*needed(tip), 1] if n <= at) - 1)
    if at < 1:
        return None
    report = Report(REPLACED, why, tuple(skipped), source=found.reader.session)
    if (newer := _state_behind(found, at, report)) is not None:
        return newer
    is_fresh = not any(entry.kind in SNAPSHOTS or entry.kind == "action_started" for entry in tip)
    if is_fresh and not fresh:
        return None
    lost = _lost(found, after=at)
    return replace(_rung(found, at, replace(report, lost=lost)), lost=lost)


def _state_behind(found: History, at: int, report: Report) -> Rung | None:
    """The newest state behind this place that is good, from which code can start: of steps and handles.

    What is lost before it shows in it, if it is on its way; only what a key says is not to be read from a state.
    """
    if found.entries[1]["form"] == "script":
        return None
    skipped: list[Skipped] = []
    for entry in starts(found):
        if entry.seq <= at:
            return None
        if _is_of_known_version(found, entry) and not (met := _unmade(found, entry.seq)):
            before = [e for e in found.entries.values() if e.seq <= entry.seq]
            lost, keys = _lost(found, after=entry.seq), _lost(found, after=at) - _lost(found, after=entry.seq)
            if any(leaves(e) is not None for e in found.entries.values()):
                lost, keys = lost + keys, 0
            report = replace(report, skipped=(*report.skipped, *skipped), lost=lost + keys)
            begun = _rung(found, entry.seq, report)
            return replace(begun, lost=lost, lost_keys=keys, begins=True, version=version_at(before))
        skipped.append(Skipped(entry.seq, met or "of which version it is cannot be told"))
    return None


def starts(found: History) -> Iterator[Entry]:
    """The snapshots of the present branch that can be read and from which code can start, the newest first."""
    for seq in lineage(found):
        entry = found.entries.get(seq)
        if entry is not None and (is_reentry(entry) or entry.kind in REPLACING):
            yield entry


def _unmade(found: History, seq: int) -> str:
    try:
        with values.inert():
            found.state(seq)
    except FormatNewerError:
        raise
    except DamageError as error:
        return str(error)
    return ""


def _is_of_known_version(found: History, entry: Entry) -> bool:
    """Whether no record that tells of a migration can be among those that cannot be read."""
    read = version_at(e for e in found.entries.values() if e.seq <= entry.seq)
    newest = found.summary is not None and found.summary.reentry == entry.seq
    if newest and found.summary is not None:
        return found.summary.version == read
    lost = [kind for seq, kind in found.kinds.items() if seq <= entry.seq and seq not in found.entries]
    known = sum(seq <= entry.seq for seq in found.kinds)
    return known == entry.seq and "migrated" not in lost


def _lost(found: History, *, after: int) -> int:
    return sum(_may_hide_a_start(found, seq) for seq in range(after + 1, _end(found) + 1))


def _kept(entries: list[Entry], at: int) -> int:
    """The place up to which the log, as it went on, kept what it had: what a later rollback left is left here, too."""
    return min([at, *(int(e["to"]) for e in entries if e.seq > at and e.kind == "rolled_back")])


def _may_hide_a_start(found: History, seq: int) -> bool:
    """Whether the start of an effect may be what cannot be read there. Only a kind that is proved says it is not."""
    if seq in found.entries:
        return False
    proved = any(problem.seq == seq and problem.kind == "body" for problem in found.problems)
    return not proved or found.kinds.get(seq) == "action_started"
